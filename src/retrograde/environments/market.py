"""A day at the market: luck first, then deals that are right or wrong.

How the day goes is drawn once the market has opened, before any deal, and moves the return more
than a deal does. Whoever judges a deal by the whole return judges the luck with it; whoever
compares answers to one client, given on one day, does not.
"""

import copy
import itertools
import math
import random
import re
from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple, Self

from retrograde.data.message import ContextPolicy, Message, spoken
from retrograde.data.offer import Offer
from retrograde.data.seeds import derived
from retrograde.data.tree import End
from retrograde.environments.protocol import Forking, Observation, Split
from retrograde.environments.tasks import numbered_task, parts_of_task

GOODS = ("bread", "cloth", "fish", "honey", "pepper", "rice", "salt", "silk", "tea", "wool")
STALLS = 4
"""Goods on offer at a time."""
FEWEST_TURNS, MOST_TURNS = 2, 16
CARELESS = 0.3
"""How often the teacher takes the good of the first stall, whatever is asked for."""

OPEN, TRADE = "open", "trade"
RULES = (
    "You trade at a market. Each turn, say exactly one line. First say open. Then clients come, "
    "one a turn: each asks for one of the goods at the stalls. Say trade GOOD, for example: "
    "trade fish. Each deal in what was asked for earns the same share of 1. How the day goes "
    "is luck."
)
CLOSED = "The market is closed."
MISUNDERSTOOD = "Not understood. Say open, then trade GOOD."
LUCKY, UNLUCKY, CALM = "The day is lucky.", "The day is unlucky.", "The day is calm."
EARNED, MISSED = "The deal is right.", "The deal is wrong."
STALLS_OFFER, WANTED = "Stalls:", "Wanted:"

PHRASES = (
    *(RULES, CLOSED, MISUNDERSTOOD, LUCKY, UNLUCKY, CALM, EARNED, MISSED),
    *(STALLS_OFFER, WANTED),
)
"""Fixed text that only the environment says."""
WORDS = (OPEN, TRADE, *GOODS)
"""Every other word that the environment or its teacher says."""

_OPEN_LINE = re.compile(r"[\W_]*open[\W_]*", re.IGNORECASE)
_TRADE_LINE = re.compile(rf"[\W_]*trade[\W_]+({'|'.join(GOODS)})[\W_]*", re.IGNORECASE)


class Client(NamedTuple):
    """Who comes in one turn."""

    stalls: tuple[str, ...]
    """The goods on offer, in the order in which they are shown."""
    wanted: str
    """The one that is asked for."""


@dataclass(frozen=True, slots=True)
class Day:
    """Who comes to the market, one client after the other; the luck is no part of it."""

    clients: tuple[Client, ...]

    @classmethod
    def of(cls, task: str, deals: int) -> Self:
        """The day of a task; which split a day belongs to is a hash of it, so none is in both.

        Raises:
            ValueError: there is no such task.
        """
        split, index = parts_of_task(task, "market")
        days = (
            cls._drawn(derived("market", deals, split, index, attempt), deals)
            for attempt in itertools.count()
        )
        return next(day for day in days if day.split == split)

    @classmethod
    def _drawn(cls, seed: int, deals: int) -> Self:
        chance = random.Random(seed)
        stalls = [tuple(chance.sample(GOODS, STALLS)) for _ in range(deals)]
        return cls(tuple(Client(goods, chance.choice(goods)) for goods in stalls))

    @property
    def split(self) -> Split:
        """Where the day belongs, whichever task it came from."""
        words = [word for client in self.clients for word in (*client.stalls, client.wanted)]
        return "test" if derived(*words) % 2 else "train"


class MarketEpisode:
    """One day at the market."""

    def __init__(self, task: str, environment: "Market", seed: int) -> None:
        """Stand before the market, which is still closed."""
        self.task = task
        self.day = Day.of(task, environment.deals)
        self.swing = environment.luck / 2
        self.seed = seed
        """Of the luck, for as long as it has not been drawn."""
        self.luck: float | None = None
        """What the day brought; None before the market opens."""
        self.used = 0
        """Turns so far."""
        self.right = 0
        """Deals so far in what was asked for."""

    @property
    def score(self) -> float:
        """Share of the day's deals that were made, and right."""
        return self.right / len(self.day.clients)

    @property
    def client(self) -> Client | None:
        """Who asks now; nobody before the market opens, and after the last deal."""
        is_open = 0 < self.used <= len(self.day.clients)
        return self.day.clients[self.used - 1] if is_open else None

    def opening(self) -> tuple[Message, ...]:
        """Rules, and a closed market."""
        return Message("system", RULES, lasting=True), Message("user", CLOSED)

    async def act(self, text: str) -> Observation:
        """Open the market, which any words do, or make a deal."""
        if self.used > len(self.day.clients):
            raise RuntimeError(f"the episode of {self.task!r} is over: open the task again")
        heard, reward = self._opened(text) if self.client is None else self._dealt(text)
        self.used += 1
        if self.client is None:
            return Observation((), reward, End.FINISHED, self.score)
        stalls = f"{STALLS_OFFER} {' '.join(self.client.stalls)}"
        told = Message("user", f"{heard}\n{stalls}\n{WANTED} {self.client.wanted}")
        return Observation((told,), reward, score=self.score)

    def _opened(self, text: str) -> tuple[str, float]:
        understood = any(_OPEN_LINE.fullmatch(line) for line in spoken(text).splitlines())
        self.luck = random.Random(self.seed).choice((-self.swing, self.swing))
        heard = CALM if self.swing == 0 else LUCKY if self.luck > 0 else UNLUCKY
        return heard if understood else f"{MISUNDERSTOOD}\n{heard}", self.luck

    def _dealt(self, text: str) -> tuple[str, float]:
        deals = (_TRADE_LINE.fullmatch(line) for line in spoken(text).splitlines())
        traded = next((deal[1].lower() for deal in deals if deal), None)
        if traded is None:
            return MISUNDERSTOOD, 0.0
        if self.client is None or traded != self.client.wanted:
            return MISSED, 0.0
        self.right += 1
        return EARNED, 1 / len(self.day.clients)

    def fork(self, seed: int) -> Self:
        """An independent copy: with luck of its own before the market opens, with this after."""
        twin = copy.copy(self)
        twin.seed = seed
        return twin

    def state_key(self) -> Hashable:
        """Turns, luck and right deals; which wrong good was traded makes no difference."""
        return self.task, self.used, self.luck, self.right

    def demonstrate(self, seed: int) -> str:
        """What a careless teacher says, who often takes what lies nearest."""
        chance = random.Random(seed)
        if self.client is None:
            return OPEN
        is_careless = chance.random() < CARELESS
        return f"{TRADE} {self.client.stalls[0] if is_careless else self.client.wanted}"

    async def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True)
class Market:
    """Trade what clients ask for, on a day whose luck matters more than any deal."""

    name = "market"
    forking = Forking.FORK
    max_new_tokens = 12
    offers = frozenset({Offer.SCORES, Offer.TURN_REWARDS})
    vocabulary = None

    turns: int = 4
    """Turns of a day, 2 to 16: one to open the market, and one for each deal."""
    luck: float = 1.0
    """How much more a lucky day brings than an unlucky one; all deals of a day bring 1."""
    context: ContextPolicy = "markov"
    """What the policy is shown of the past: full, drop_thinking, window, window(N), markov or
    summarise(FILE.py:NAME)."""

    def __post_init__(self) -> None:
        if not FEWEST_TURNS <= self.turns <= MOST_TURNS:
            raise ValueError(f"turns: got {self.turns}, needed {FEWEST_TURNS} to {MOST_TURNS}")
        if not (math.isfinite(self.luck) and self.luck >= 0):
            raise ValueError(f"luck: got {self.luck}, needed a finite number of at least 0")

    @property
    def deals(self) -> int:
        """A turn for each but the first, which opens the market."""
        return self.turns - 1

    @property
    def turn_limit(self) -> int:
        """Turns of a day; there are never fewer."""
        return self.turns

    @property
    def success_return(self) -> float:
        """What only a lucky day without a wrong deal brings, half a deal spared for rounding.

        An unlucky day without a wrong deal brings less: the return tells skill from luck only
        on average. The score tells it each time.
        """
        return self.luck / 2 + 1 - 1 / (2 * self.deals)

    def size(self, split: Split) -> None:
        """Without end."""

    def task(self, split: Split, index: int) -> str:
        """The task with this index, from 0 on."""
        return numbered_task(split, index)

    def gold(self, task: str) -> str:
        """There is none: a day is many deals."""
        raise LookupError(f"market has no answer that ends {task} rightly: a day is many deals")

    async def open(self, task: str, seed: int) -> MarketEpisode:
        """Start an episode."""
        return MarketEpisode(task, self, seed)
