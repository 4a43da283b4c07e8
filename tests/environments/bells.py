"""A small environment that keeps its contract, and for each rule some that break this one alone."""

import copy
import itertools
import random
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import ClassVar

from retrograde.data.message import Message
from retrograde.data.offer import Offer
from retrograde.data.seeds import derived
from retrograde.data.tree import End
from retrograde.environments.plain import PlainEnvironment, PlainEpisode
from retrograde.environments.protocol import Forking, Observation
from retrograde.environments.tasks import parts_of_task

LIMIT = 6


class BellEpisode(PlainEpisode):
    """Ring so many times, then say done. How a bell sounds is chance."""

    def __init__(self, task, seed, world):
        split, index = parts_of_task(task, "bells")
        self.task, self.world = task, world
        self.bell = f"{split} bell {index}"
        self.wanted = 1 + derived("bells", self.bell) % 3
        self.rung = self.used = 0
        self.over = False
        self.chance = random.Random(seed)

    def opening(self):
        return (Message("user", f"Ring the {self.bell} {self.wanted} times, then say done."),)

    def score(self):
        return 0.5 * min(self.rung, self.wanted) / self.wanted

    async def act(self, text):
        self.used += 1
        if text.strip() == "done":
            self.over, right = True, self.rung == self.wanted
            return Observation((), float(right), End.FINISHED, 1.0 if right else self.score())
        if self.used == LIMIT:
            self.over = True
            return Observation((), 0.0, End.TRUNCATED, self.score())
        self.rung += text.strip() == "ring"
        sound = self.chance.choice(("high", "low"))
        return Observation((Message("user", f"It sounds {sound}."),), score=self.score())

    def fork(self, seed):
        twin = copy.copy(self)
        twin.chance = random.Random(seed)
        return twin

    def state_key(self) -> Hashable:
        return self.task, self.used, self.rung

    def demonstrate(self, seed):
        errs = random.Random(seed).random() < 0.2
        return "done" if (self.rung == self.wanted) != errs else "ring"


@dataclass(frozen=True)
class Bells(PlainEnvironment):
    """Ring, and say when you are done."""

    name = "bells"
    forking = Forking.FORK
    turn_limit = LIMIT
    offers = frozenset({Offer.SCORES, Offer.GOLD})
    episode: ClassVar[type] = BellEpisode

    loud: bool = True
    """Whether it is."""

    def gold(self, task):
        return "done"

    async def open(self, task, seed):
        return self.episode(task, seed, self)


# --- one for each rule ----------------------------------------------------------------------

BROKEN: dict[str, list[type[Bells]]] = {}
"""Environments that break a rule, by its name."""
COUNT = itertools.count()


def breaks(rule):
    def note(kind):
        BROKEN.setdefault(rule, []).append(kind)
        return kind

    return note


def acting(rule):
    """An environment whose episodes are of this class breaks the rule."""

    def note(episode):
        kind = type(episode.__name__, (Bells,), {"episode": episode, "__doc__": episode.__doc__})
        return breaks(rule)(dataclass(frozen=True)(kind))

    return note


@breaks("data")
@dataclass(frozen=True)
class Unplain(Bells):
    """Has a field that no file can hold."""

    words: frozenset[str] = frozenset({"ring"})


@breaks("data")
@dataclass
class Fluid(PlainEnvironment):
    """Can be changed."""

    name = "bells"
    forking = Forking.FORK
    turn_limit = LIMIT
    offers = Bells.offers
    gold = Bells.gold
    open = Bells.open
    episode: ClassVar[type] = BellEpisode


@breaks("data")
@dataclass(frozen=True)
class Forgetful(Bells):
    """Is another every time it is made."""

    number: int = field(default_factory=COUNT.__next__, compare=True)

    def __post_init__(self):
        object.__setattr__(self, "number", next(COUNT))


@breaks("data")
@dataclass(frozen=True)
class Nameless(Bells):
    """Has no name."""

    name = ""


@breaks("sizes")
@dataclass(frozen=True)
class Sizeless(Bells):
    """Says it has 5 tasks, and has more."""

    def size(self, split):
        return 5

    def task(self, split, index):
        if index < 0:
            raise ValueError(index)
        return f"{split}-{index}"


@breaks("sizes")
@dataclass(frozen=True)
class Twins(Bells):
    """Has two tasks of one name."""

    def task(self, split, index):
        return super().task(split, index // 2 * 2 if index > 4 else index)


@breaks("unknown")
@dataclass(frozen=True)
class Welcoming(Bells):
    """Opens whatever it is asked for."""

    async def open(self, task, seed):
        return BellEpisode(task if "-" in task else "train-0", seed, self)


@acting("opening")
class Fickle(BellEpisode):
    """Opens with other words each time it is asked."""

    def opening(self):
        return (Message("user", f"{next(COUNT)} bells"),)


@acting("opening")
class Silent(BellEpisode):
    """Opens without a word."""

    def opening(self):
        return ()


@acting("observations")
class Nothing(BellEpisode):
    """Says nothing at all in its third turn."""

    async def act(self, text):
        said = await super().act(text)
        return None if self.used == 2 and not self.over else said


@acting("observations")
class Mute(BellEpisode):
    """Goes on without a word."""

    async def act(self, text):
        said = await super().act(text)
        return said if self.over else Observation((), score=said.score)


@acting("limits")
class Endless(BellEpisode):
    """Goes on and on."""

    async def act(self, text):
        self.used = min(self.used, LIMIT - 2)
        return await super().act(text)


@acting("strange")
class Touchy(BellEpisode):
    """Will have nothing to do with thoughts."""

    async def act(self, text):
        if "<think>" in text:
            raise ValueError("what was that?")
        return await super().act(text)


@acting("closing")
class Sticky(BellEpisode):
    """Cannot be closed once the bell has rung, and before anything else happens."""

    async def close(self):
        if self.used == self.rung == 1 and not self.over:
            raise OSError("it is still ringing")

    def demonstrate(self, seed):
        return "ring" if self.used == 0 else super().demonstrate(seed)


@acting("teacher")
class Moody(BellEpisode):
    """Has a teacher who says now this, now that."""

    def demonstrate(self, seed):
        return super().demonstrate(next(COUNT))


@acting("teacher")
class Meddling(BellEpisode):
    """Has a teacher whose every word is noted."""

    asked = 0

    def state_key(self):
        return (*super().state_key(), self.asked)

    def demonstrate(self, seed):
        self.asked += 1
        return super().demonstrate(seed)


@acting("determinism")
class Random(BellEpisode):
    """Sounds otherwise each time, whatever the seed."""

    def __init__(self, task, seed, world):
        super().__init__(task, derived(seed, next(COUNT)), world)


@acting("start")
class Scattered(BellEpisode):
    """Starts otherwise with another seed."""

    def opening(self):
        return (*super().opening(), Message("user", f"It is {self.hour} o'clock."))

    def __init__(self, task, seed, world):
        super().__init__(task, seed, world)
        self.hour = seed


@acting("splits")
class Leaky(BellEpisode):
    """Asks for the same bells in both splits."""

    def __init__(self, task, seed, world):
        super().__init__(task.replace("test", "train"), seed, world)
        self.task = task


@acting("fork")
class Joined(BellEpisode):
    """Shares with its copies how often the bell has rung."""

    def __init__(self, task, seed, world):
        super().__init__(task, seed, world)
        self.shared = [0]

    @property
    def rung(self):
        return self.shared[0]

    @rung.setter
    def rung(self, number):
        if hasattr(self, "shared"):
            self.shared[0] = number


@acting("fork")
class Shared(BellEpisode):
    """Shares its chance with its copies."""

    def fork(self, seed):
        return copy.copy(self)


@acting("fork")
class Selfsame(BellEpisode):
    """Is its own copy."""

    def fork(self, seed):
        return self


@acting("fork")
class Fresh(BellEpisode):
    """Gives a copy that has forgotten what happened."""

    def fork(self, seed):
        return type(self)(self.task, seed, self.world)


@acting("chance")
class Lying(BellEpisode):
    """Gives every copy the same chance."""

    def fork(self, seed):
        return super().fork(0)


@acting("chance")
class Copying(BellEpisode):
    """Gives every copy its own chance, as it stands."""

    def fork(self, seed):
        return copy.deepcopy(self)


@breaks("replay")
@dataclass(frozen=True)
class Repeating(Bells):
    """Says it leaves nothing to chance."""

    forking = Forking.REPLAY


@acting("scores")
class Early(BellEpisode):
    """Scores 1 when only the last word is missing."""

    def score(self):
        return 1.0 if self.rung == self.wanted else super().score()


@acting("scores")
class Flattering(BellEpisode):
    """Scores 1 whenever one says to be done."""

    async def act(self, text):
        said = await super().act(text)
        score = 1.0 if said.end is End.FINISHED else said.score
        return Observation(said.messages, said.reward, said.end, score)


@breaks("scores")
@dataclass(frozen=True)
class Modest(Bells):
    """Does not offer the scores it gives."""

    offers = frozenset({Offer.GOLD})


@acting("turn_rewards")
class Generous(BellEpisode):
    """Pays for each sound."""

    async def act(self, text):
        said = await super().act(text)
        return Observation(said.messages, said.reward + 0.01, said.end, said.score)


@breaks("gold")
@dataclass(frozen=True)
class Wrong(Bells):
    """Has a gold answer that ends nothing."""

    def gold(self, task):
        return "well done"


@acting("gold")
class Never(BellEpisode):
    """Takes its gold answer for none where the time for it has come."""

    async def act(self, text):
        if text == "done!":
            self.over = True
            return Observation((), 0.0, End.FINISHED, self.score())
        return await super().act(text)


Never.gold = lambda _self, _task: "done!"


@breaks("gold")
@dataclass(frozen=True)
class Secretive(Bells):
    """Does not offer the gold answer it gives."""

    offers = frozenset({Offer.SCORES})


@acting("transcript")
class Exact(BellEpisode):
    """Hears spaces that nobody sees."""

    def demonstrate(self, seed):
        return super().demonstrate(seed) + " "

    async def act(self, text):
        said = await super().act(text)
        if said.end is None:
            message = Message("user", f"You said {len(text)} letters.")
            return Observation((*said.messages, message), score=said.score)
        return said
