"""Rock, paper, scissors, round after round against one opponent with a habit.

Nothing but the rounds so far tells the habit, so it is memory that wins.
"""

import copy
import random
import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Literal, Self, cast

from retrograde.data.message import ContextPolicy, Message, spoken
from retrograde.data.offer import Offer
from retrograde.data.seeds import derived
from retrograde.data.tree import End
from retrograde.data.vocabulary import Vocabulary
from retrograde.environments.games.habits import (
    COUNT,
    MOVES,
    Disjoint,
    History,
    Opponent,
    Round,
    result,
)
from retrograde.environments.plain import PlainEpisode, PlainTasks
from retrograde.environments.protocol import Forking, Observation, Split
from retrograde.environments.tasks import parts_of_task

FEWEST_ROUNDS, MOST_ROUNDS = 3, 30
CARELESS = 0.1
"""How often the teacher plays at random."""

PLAY = "play"
RULES = (
    "You play rock, paper, scissors, many rounds against one opponent who has a habit. Find it "
    "out and win more rounds than you lose. Rock beats scissors, scissors beats paper, paper "
    "beats rock. Each turn, say exactly one line: play rock, play paper or play scissors."
)
READY = "The first round."
MISUNDERSTOOD = "Not understood; the round is lost. Say play rock, play paper or play scissors."
RESULTS: Mapping[int, str] = {1: "You win.", 0: "A draw.", -1: "You lose."}
SHOWN = tuple(f"You {own}, they {theirs}." for own in MOVES for theirs in MOVES)
NOTHING_SHOWN = tuple(f"You nothing, they {theirs}." for theirs in MOVES)

_PLAY_LINE = re.compile(rf"[\W_]*(?:play[\W_]+)?({'|'.join(MOVES)})[\W_]*", re.IGNORECASE)

Guess = Callable[[History], int | None]
"""What the opponent would play next if it had this habit; None before it can be said."""


def _own(back: int, shift: int) -> Guess:
    return lambda h: (h[-back].own + shift) % COUNT if len(h) >= back else None


def _theirs(back: int, shift: int) -> Guess:
    return lambda h: (h[-back].theirs + shift) % COUNT if len(h) >= back else None


def _favourite(history: History) -> int | None:
    theirs = [played.theirs for played in history]
    return max(range(COUNT), key=theirs.count) if theirs else None


GUESSES: tuple[Guess, ...] = (
    _favourite,
    *(_own(back, shift) for back in (1, 2) for shift in range(COUNT)),
    *(_theirs(1, shift) for shift in range(COUNT)),
    *(_theirs(back, 0) for back in (2, 3, 4, 5)),
)
"""What the teacher thinks of: a favourite move, answers to the last moves, and cycles."""


def foreseen(history: History, chance: random.Random) -> int:
    """The opponent's next move by the guess that has been right most often lately."""
    best: list[int] = []
    most = 0.0
    for guess in GUESSES:
        move = guess(history)
        if move is None:
            continue
        hits = sum(
            0.9 ** (len(history) - i) * (2 * (guess(history[:i]) == history[i].theirs) - 1)
            for i in range(1, len(history))
            if guess(history[:i]) is not None
        )
        if hits > most or not best:
            best, most = [move], hits
        elif hits == most:
            best.append(move)
    return chance.choice(best) if best else chance.randrange(COUNT)


class RockPaperScissorsEpisode(PlainEpisode):
    """One match against one opponent."""

    def __init__(self, task: str, environment: "RockPaperScissors", seed: int) -> None:
        """Sit down."""
        split, index = parts_of_task(task, environment.name)
        self.task = task
        self.rounds = environment.rounds
        self.reward = environment.reward
        self.opponent = Opponent.of(cast("Split", split), int(index), environment.disjoint)
        self.seed = seed
        """Of the opponent's chance in the rounds to come."""
        self.history: History = ()
        """Rounds that were played; one that was lost for words that mean nothing is none."""
        self.used = 0
        self.wins = 0
        self.losses = 0

    def opening(self) -> tuple[Message, ...]:
        """Rules, and that it begins."""
        return Message("system", RULES, lasting=True), Message("user", READY)

    async def act(self, text: str) -> Observation:
        """Play a round; words that mean nothing lose it."""
        if self.used == self.rounds:
            raise RuntimeError(f"the episode of {self.task!r} is over: open the task again")
        lines = (_PLAY_LINE.fullmatch(line) for line in spoken(text).splitlines())
        said = next((line[1].lower() for line in lines if line), None)
        theirs = self.opponent.move(self.history, derived(self.seed, self.used))
        self.used += 1
        if said is None:
            won = -1
            heard = f"{MISUNDERSTOOD}\n{NOTHING_SHOWN[theirs]}"
        else:
            played = Round(MOVES.index(said), theirs)
            self.history = (*self.history, played)
            won = result(*played)
            heard = f"{SHOWN[COUNT * played.own + theirs]} {RESULTS[won]}"
        self.wins += won == 1
        self.losses += won == -1
        return self._told(heard, won, () if said else ("action/malformed",))

    def _told(self, heard: str, won: int, events: tuple[str, ...]) -> Observation:
        ahead, over = self.wins - self.losses, self.used == self.rounds
        if self.reward == "round":
            reward = won / self.rounds
        elif self.reward == "difference":
            reward = over * ahead / self.rounds
        else:
            reward = float(over and ahead > 0)
        if not over:
            return Observation((Message("user", heard),), reward, events=events)
        measures = (("score_difference", float(ahead)),)
        return Observation((), reward, End.FINISHED, events=events, measures=measures)

    def fork(self, seed: int) -> Self:
        """An independent copy; what the opponent draws from here on comes from the seed."""
        twin = copy.copy(self)
        twin.seed = seed
        return twin

    def state_key(self) -> Hashable:
        """Rounds won and lost, and what the opponent remembers of them."""
        remembered = self.opponent.memory(self.history)
        return self.task, self.used, self.wins, self.losses, remembered

    def demonstrate(self, seed: int) -> str:
        """What a teacher says who knows some habits, and is careless now and then."""
        chance = random.Random(seed)
        is_careless = chance.random() < CARELESS
        counter = foreseen(self.history, chance) + 1
        move = chance.randrange(COUNT) if is_careless else counter % COUNT
        return f"{PLAY} {MOVES[move]}"


@dataclass(frozen=True)
class RockPaperScissors(PlainTasks):
    """Find out the habit of one opponent over many rounds of rock, paper, scissors."""

    name = "rock_paper_scissors"
    forking = Forking.FORK
    max_new_tokens = 8

    rounds: int = 10
    """Rounds of a match, 3 to 30; each is a turn."""
    reward: Literal["round", "difference", "win"] = "round"
    """round: 1/rounds for each round won and -1/rounds for each lost, at once. difference: the
    same sum after the last round. win: 1 after the last round if more were won than lost."""
    disjoint: Disjoint = "kinds"
    """What keeps opponents in training and test apart. kinds: other habits altogether.
    parameters: all habits in both, but never with the same parameters."""
    context: ContextPolicy = "full"
    """What the policy is shown of the past. Only `full` and `drop_thinking` show all rounds."""

    def __post_init__(self) -> None:
        if not FEWEST_ROUNDS <= self.rounds <= MOST_ROUNDS:
            raise ValueError(f"rounds: got {self.rounds}, needed {FEWEST_ROUNDS} to {MOST_ROUNDS}")

    @property
    def turn_limit(self) -> int:
        """A turn for each round."""
        return self.rounds

    @property
    def success_return(self) -> float:
        """What one more win than losses brings, half of it spared for rounding."""
        return 1.0 if self.reward == "win" else 1 / (2 * self.rounds)

    @property
    def offers(self) -> frozenset[Offer]:
        """Rewards after each turn, if that is how it is rewarded."""
        return frozenset({Offer.TURN_REWARDS} if self.reward == "round" else ())

    @property
    def vocabulary(self) -> Vocabulary:
        """Every round in two tokens."""
        phrases = (RULES, READY, MISUNDERSTOOD, *SHOWN, *NOTHING_SHOWN, *RESULTS.values())
        return Vocabulary(phrases, (PLAY, *MOVES))

    async def open(self, task: str, seed: int) -> RockPaperScissorsEpisode:
        """Start an episode."""
        return RockPaperScissorsEpisode(task, self, seed)
