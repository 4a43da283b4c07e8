"""Limit hold'em for two, hand after hand against one opponent with a style.

Tasks 2k and 2k + 1 are one deal, played from both seats.
"""

import copy
import random
import re
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Literal, Self, cast

from retrograde.data.message import ContextPolicy, Message, spoken
from retrograde.data.offer import Offer
from retrograde.data.seeds import derived
from retrograde.data.tree import End
from retrograde.data.vocabulary import Vocabulary
from retrograde.environments.games.bettors import RANKS, Bettor, legal_one
from retrograde.environments.games.table import BIG_BLIND, MOST_DECISIONS, STREETS, Table
from retrograde.environments.plain import PlainEpisode, PlainTasks
from retrograde.environments.protocol import Forking, Observation, Split
from retrograde.environments.tasks import parts_of_task

MOST_HANDS = 50
CARELESS = 0.25
"""How often the teacher does anything that is legal."""
TEACHER = Bettor("tight_aggressive", (0.3, 0.6, 0.05))

ACTIONS = ("call", "raise", "fold", "check")
RULES = (
    "You play limit hold'em against one opponent. Blinds are 1 and 2 chips, bets 2 chips before "
    "the turn card and 4 from it on, with at most four raises a round. Cards are written as rank "
    "and suit: As is the ace of spades, Th the ten of hearts. Each turn, say exactly one line "
    "with one word: call, raise, fold or check."
)
MISUNDERSTOOD = "Not understood. Say call, raise, fold or check."
ILLEGAL = "That is not possible now."
GIVEN_UP = "Too often; you fold."
SMALL, BIG = "You have the small blind.", "You have the big blind."
CARDS, BOARD, NO_BOARD = "Your cards:", "Board:", "nothing"
PUT_IN, PLAYED, MAY, WON, SHOWN = "Chips you, they:", "Played:", "You may:", "Won:", "They show:"
PHRASES = (
    *(RULES, MISUNDERSTOOD, ILLEGAL, GIVEN_UP, SMALL, BIG, CARDS, BOARD),
    *(PUT_IN, PLAYED, MAY, WON, SHOWN),
)
WORDS = (
    *(NO_BOARD, *ACTIONS, *STREETS, "you", "they", ".", "-"),
    *(f"{rank}{suit}" for rank in RANKS for suit in "shdc"),
    *map(str, range(101)),
)

_LINE = re.compile(rf"[\W_]*({'|'.join(ACTIONS)})s?[\W_]*", re.IGNORECASE)


def deal_of(split: Split, number: int, opponent: Bettor) -> int:
    """The seed of a deal that is not over before both could do something.

    A deal that the opponent would fold at once in the small blind is dealt anew.
    """
    attempt = 0
    while True:
        seed = derived("limit_holdem", split, number, attempt)
        table = Table.dealt(seed)
        if opponent(table.view(table.turn), first_chance(seed)) != "fold":
            return seed
        attempt += 1


def first_chance(deal: int) -> random.Random:
    """What the opponent's very first action is drawn from, if it comes before the policy's."""
    return random.Random(derived(deal, "first"))


class LimitHoldemEpisode(PlainEpisode):
    """Some hands against one opponent."""

    def __init__(self, task: str, environment: "LimitHoldem", seed: int) -> None:
        """Be dealt the first hand."""
        split, index = parts_of_task(task, environment.name)
        self.task = task
        self.environment = environment
        number, self.seat = divmod(int(index), 2)
        self.opponent = Bettor.of(cast("Split", split), number)
        self.deal = deal_of(cast("Split", split), number, self.opponent)
        self.seed = seed
        """Of all chance to come: the opponent's, and the cards' unless the task fixes them."""
        self.won: tuple[float, ...] = ()
        """Of each hand that is over, in big blinds."""
        self.mistakes = 0
        """In this hand."""
        self.table = self._dealt()
        if self.table.turn != self.seat:  # part of the task, since a group has one start
            view = self.table.view(1 - self.seat)
            self.table.act(self.opponent(view, first_chance(self.deal)))

    def _dealt(self) -> Table:
        hand, fixed = len(self.won), self.environment.deck == "task"
        if hand == 0:
            table = Table.dealt(self.deal)
            return table if fixed else table.shuffled(derived(self.seed, "deck"))
        return Table.dealt(derived(self.deal if fixed else self.seed, "hand", hand))

    @property
    def over(self) -> bool:
        """Whether all hands were played."""
        return len(self.won) == self.environment.hands

    def opening(self) -> tuple[Message, ...]:
        """Rules, cards and what may be done."""
        return Message("system", RULES, lasting=True), Message("user", self._seen())

    def _seen(self) -> str:
        table = self.table
        view = table.view(self.seat)
        small = not table.said and table.turn == self.seat
        small = small or (bool(table.said) and table.said[0][1] == self.seat)
        hand = "" if self.environment.hands == 1 else f"{len(self.won) + 1} "
        return "\n".join(
            (
                f"{hand}{SMALL if small else BIG}",
                f"{CARDS} {' '.join(view.cards)}",
                f"{BOARD} {' '.join(view.board) or NO_BOARD}",
                f"{PUT_IN} {view.chips[0]} {view.chips[1]}",
                f"{PLAYED} {self._played() or NO_BOARD}",
                f"{MAY} {' '.join(view.legal)}",
            )
        )

    def _played(self) -> str:
        words: list[str] = []
        street = ""
        for where, player, action in self.table.said:
            words += [where] if where != street else []
            words += ["you" if player == self.seat else "they", action]
            street = where
        return " ".join(words)

    async def act(self, text: str) -> Observation:
        """Do what was said; what is not possible is a mistake, and too many of them fold."""
        if self.over:
            raise RuntimeError(f"the episode of {self.task!r} is over: open the task again")
        lines = (_LINE.fullmatch(line) for line in spoken(text).splitlines())
        said = next((line[1].lower() for line in lines if line), None)
        if said is None or said not in self.table.legal:
            return self._mistaken(said)
        self.table.act(said)
        return self._went_on("", ())

    def _mistaken(self, said: str | None) -> Observation:
        self.mistakes += 1
        complaint = ILLEGAL if said else MISUNDERSTOOD
        events = ("action/illegal" if said else "action/malformed",)
        if self.mistakes < self.environment.patience:
            return Observation((Message("user", f"{complaint}\n{self._seen()}"),), events=events)
        self.table.act("fold")
        return self._went_on(f"{complaint} {GIVEN_UP}\n", events)

    def _went_on(self, heard: str, events: tuple[str, ...]) -> Observation:
        """Let the opponent act, and deal anew for as long as hands end."""
        earned = 0.0
        self._opponent_acts()
        while self.table.over:
            payoff = self.table.payoff(self.seat)
            shown = "" if self.table.folded else self._showdown()
            heard += f"{PLAYED} {self._played()}\n{shown}{WON} {payoff:g}\n"
            earned += payoff
            self.won = (*self.won, payoff)
            if self.over:
                return self._closed(earned, events)
            self.mistakes = 0
            self.table = self._dealt()
            self._opponent_acts()
        message = Message("user", f"{heard}{self._seen()}")
        return Observation((message,), earned / self.environment.unit, events=events)

    def _showdown(self) -> str:
        return f"{SHOWN} {' '.join(self.table.cards(1 - self.seat))}\n"

    def _closed(self, earned: float, events: tuple[str, ...]) -> Observation:
        mean = sum(self.won) / len(self.won)
        measures = (("big_blinds_per_hand", mean), ("ahead", float(mean > 0)))
        reward = earned / self.environment.unit
        return Observation((), reward, End.FINISHED, events=events, measures=measures)

    def _opponent_acts(self) -> None:
        while not self.table.over and self.table.turn != self.seat:
            decision = derived(self.seed, len(self.won), len(self.table.said))
            view = self.table.view(1 - self.seat)
            self.table.act(self.opponent(view, random.Random(decision)))

    def fork(self, seed: int) -> Self:
        """An independent copy: all cards that were dealt stay, those of the opponent too.

        The cards to come are shuffled by the seed, unless the task fixes them; what the
        opponent draws comes from the seed.
        """
        twin = copy.copy(self)
        twin.seed = seed
        fixed = self.environment.deck == "task"
        twin.table = self.table.copy() if fixed else self.table.shuffled(derived(seed, "deck"))
        return twin

    def state_key(self) -> Hashable:
        """All cards that were dealt, hidden ones too, what was said, mistakes, and results."""
        table = self.table
        cards = table.cards(0), table.cards(1), table.board
        return self.task, self.won, cards, table.said, self.mistakes

    def demonstrate(self, seed: int) -> str:
        """What a teacher says who plays by the strength of its hand, or does anything."""
        chance = random.Random(seed)
        view = self.table.view(self.seat)
        if chance.random() < CARELESS:
            return chance.choice(view.legal)
        return legal_one(TEACHER(view, chance), view.legal)


@dataclass(frozen=True)
class LimitHoldem(PlainTasks):
    """Win chips at limit hold'em for two, against an opponent with a style."""

    name = "limit_holdem"
    forking = Forking.FORK
    max_new_tokens = 8

    hands: int = 1
    """Hands of an episode, 1 to 50, all against one opponent."""
    deck: Literal["seed", "task"] = "seed"
    """What the cards to come depend on. seed: on the episode's seed; a fork shuffles them anew.
    task: on the task alone, so that both seats of a deal see the same board (a duplicate match)
    and all rollouts of a group do."""
    unit: float = 1.0
    """How many big blinds make a reward of 1; a hand is won or lost by at most 25."""
    patience: int = 3
    """Mistakes in a hand (an action that is illegal, or words that mean nothing) that fold it."""
    context: ContextPolicy = "full"
    """What the policy is shown of the past. Each observation tells the whole hand, so `markov`
    forgets only what the hands before told of the opponent."""

    def __post_init__(self) -> None:
        if not 1 <= self.hands <= MOST_HANDS:
            raise ValueError(f"hands: got {self.hands}, needed 1 to {MOST_HANDS}")
        if not self.unit > 0:
            raise ValueError(f"unit: got {self.unit}, needed more than 0")
        if self.patience < 1:
            raise ValueError(f"patience: got {self.patience}, needed 1 or more")

    @property
    def turn_limit(self) -> int:
        """More decisions than this cannot be had in so many hands."""
        return self.hands * (MOST_DECISIONS + self.patience)

    @property
    def success_return(self) -> float:
        """Half of the least that can be won, which is a small blind."""
        return 1 / (2 * BIG_BLIND) / self.unit

    @property
    def offers(self) -> frozenset[Offer]:
        """Nothing beyond the outcome: a hand is paid for when it is over."""
        return frozenset()

    @property
    def vocabulary(self) -> Vocabulary:
        """Every card is a word."""
        return Vocabulary(PHRASES, WORDS)

    async def open(self, task: str, seed: int) -> LimitHoldemEpisode:
        """Start an episode."""
        return LimitHoldemEpisode(task, self, seed)
