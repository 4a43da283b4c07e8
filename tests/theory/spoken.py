"""A small world as an environment, and its policy as one that is asked: what `Grower` needs.

Messages are a turn and a state, an answer is the letters of a word. The world must leave nothing
to chance, so that what is drawn are answers alone.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from retrograde.data.message import Message
from retrograde.data.tree import End
from retrograde.environments.protocol import Forking, Observation
from retrograde.policies.protocol import Answer, Ids, Sampling

from .chances import Draw
from .mdp import STATE, Step
from .nursery import Teller

TURN = 50
"""Token id of turn 0."""


class Letters:
    """A tokenizer of turns, states and letters."""

    end_of_turn = end_of_earlier_turn = 99
    rewrites = False
    stop_ids = frozenset(range(10))
    """Any letter may be a word's last."""

    def opening(self, messages: Sequence[Message]) -> Ids:
        ((turn, state),) = (map(int, message.content.split()) for message in messages)
        return TURN + turn, STATE + state

    def reply(self, messages: Sequence[Message]) -> Ids:
        return self.opening(messages)

    def rewritten(self, chat: Sequence[Message | Ids]) -> Ids:
        raise NotImplementedError

    def decode(self, ids: Ids) -> str:
        return " ".join(map(str, ids))


@dataclass
class SpokenEpisode:
    """Where in the world it stands."""

    teller: Teller
    turn: int = 0
    state: int = 0

    def opening(self) -> tuple[Message, ...]:
        return (Message("user", f"{self.turn} {self.state}"),)

    async def act(self, text: str) -> Observation:
        word = tuple(map(int, text.split()))
        step = self._step(self.teller.policy.words.index(word))
        score = self.teller.score(step, self.turn)
        self.turn += 1
        if step.onwards is None:
            return Observation((), step.reward, End.FINISHED, score)
        self.state = step.onwards
        return Observation(self.opening(), step.reward, score=score)

    def _step(self, action: int) -> Step:
        ((_, step),) = self.teller.world.outcomes(self.turn, self.state, action)
        return step

    def fork(self, seed: int) -> "SpokenEpisode":
        return replace(self)

    def state_key(self) -> Hashable:
        return self.state

    async def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True)
class Spoken:
    """The world as an environment."""

    teller: Teller
    name = "spoken"
    forking = Forking.FORK
    turn_limit = 100
    context = "markov"

    async def open(self, task: str, seed: int) -> SpokenEpisode:
        return SpokenEpisode(self.teller)


class Tabular:
    """Answers as the world's policy does, by lots that are given to it."""

    def __init__(self, teller: Teller, draw: Draw) -> None:
        self.teller = teller
        self.draw = draw
        self.version = 0

    async def sample(self, contexts: Sequence[Ids], sampling: Sampling, seed: int) -> list[Answer]:
        return [self._answer(turn - TURN, state - STATE) for turn, state in contexts]

    def _answer(self, turn: int, state: int) -> Answer:
        chosen = self.draw(self.teller.choice[turn][state])
        told = self.teller.told(Step(state, chosen, 0.0, 0), turn, turn - 1, 0)
        return Answer(told.action, told.logprobs, stopped=True, entropies=told.entropies)
