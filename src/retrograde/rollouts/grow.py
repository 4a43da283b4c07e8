"""Runs a plan's forks: every live rollout of a round answers in lockstep.

The past of a rollout is kept as token ids and never rendered again from text; what is
stored in a turn is what the policy was given and what it gave back.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from retrograde.data.seeds import derived
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn, shared_length
from retrograde.environments.protocol import Environment, Observation
from retrograde.policies.protocol import Answer, Policy, Sampling
from retrograde.rendering.history import History, Renderer
from retrograde.rollouts.line import Line
from retrograde.rollouts.merge import Merge, merged
from retrograde.rollouts.plans import NEW_TREE, Fork

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass
class Walk:
    """A rollout under way: where in which tree it stands and what it is shown next."""

    group: int
    tree: int
    parent: int
    fork: Fork
    fork_number: int
    line: Line
    history: History
    context: tuple[int, ...]
    before: tuple[int, ...]
    """The parent's context and action, which the tree already holds."""

    @property
    def place(self) -> tuple[int, int, int]:
        """The turn it stands behind: group, tree, turn."""
        return self.group, self.tree, self.parent

    def stop(self) -> "Boundary":
        """Where it stands, to be gone on with in a later round."""
        return Boundary(self.line, self.history, self.context, self.before, stopped=True)


@dataclass(frozen=True)
class Boundary:
    """The state before a turn, never acted in: what siblings are forked from."""

    line: Line
    history: History
    context: tuple[int, ...]
    before: tuple[int, ...]
    stopped: bool = False
    """Whether a rollout waits here to be gone on with."""


@dataclass
class Draft:
    """An answer and what came of it, before it is known how the rollout goes on."""

    walk: Walk
    answer: Answer
    outcome: Observation | Exception
    history: History | None = None
    context: tuple[int, ...] = ()

    @property
    def end(self) -> End | None:
        """Why the rollout is over, as far as the environment says."""
        return End.FAILED if isinstance(self.outcome, Exception) else self.outcome.end


class Grower:
    """Grows the groups of one iteration and remembers their boundaries while it does."""

    def __init__(
        self,
        environment: Environment,
        renderer: Renderer,
        policy: Policy,
        sampling: Sampling,
        *,
        turn_seconds: float = 60.0,
    ) -> None:
        """Bind the parts; `turn_seconds` limits each call into the environment."""
        self.environment = environment
        self.renderer = renderer
        self.policy = policy
        self.sampling = sampling
        self.turn_seconds = turn_seconds
        self.counts: Counter[str] = Counter()
        """What happened since the caller last cleared it."""
        self._boundaries: dict[tuple[int, int, int], Boundary] = {}

    async def grow(
        self,
        groups: Sequence[Group],
        forks: Sequence[Sequence[Fork]],
        grown_in: int,
        seed: int,
    ) -> list[Group]:
        """The groups with a round more in them. Round 0 forgets all earlier boundaries.

        Raises:
            RuntimeError: every rollout of the iteration failed. A late round may be a single
                rollout, whose failure says little about the world.
        """
        if grown_in == 0:
            await self.forget()
        sprouts = [[list(tree.turns) for tree in group.trees] for group in groups]
        live = await self._start(groups, sprouts, forks, derived(seed, "world", grown_in))
        tick, ended = 0, Counter[End]()
        while live:
            await self._keep(live, derived(seed, "kept", grown_in, tick))
            drafts = await self._answer(live, derived(seed, "policy", grown_in, tick))
            merges = merged(drafts) if tick == 0 else {}
            tick += 1
            live = await self._settle(drafts, merges, sprouts, (grown_in, tick), ended, seed)
        grown = [
            Group(group.task, tuple(Tree(tuple(turns)) for turns in trees))
            for group, trees in zip(groups, sprouts, strict=True)
        ]
        if ended and not any(_has_sound(group) for group in grown):
            raise RuntimeError(
                f"all {ended[End.FAILED]} rollouts of round {grown_in} failed in "
                f"{self.environment.name}, and none before succeeded; the reasons are in the log"
            )
        return grown

    async def forget(self) -> None:
        """Close every kept boundary."""
        lines = [boundary.line for boundary in self._boundaries.values()]
        self._boundaries.clear()
        await self._close(lines)

    async def _close(self, lines: Sequence[Line]) -> None:
        for outcome in await _all(line.close() for line in lines):
            if isinstance(outcome, Exception):
                self.counts[f"close_failed/{type(outcome).__name__}"] += 1
                log.warning("%s could not be closed: %r", self.environment.name, outcome)

    async def _start(
        self,
        groups: Sequence[Group],
        sprouts: Sequence[list[list[Turn]]],
        forks: Sequence[Sequence[Fork]],
        seed: int,
    ) -> list[Walk]:
        """Open the episodes of new trees, fork those of old ones, go on where one was stopped."""
        openings: list[Awaitable[Walk]] = []
        number = 0
        wanted_at = Counter(
            (g, fork.tree, fork.parent)
            for g, wanted in enumerate(forks)
            for fork in wanted
            for _ in range(fork.answers)
        )
        for g, (group, wanted) in enumerate(zip(groups, forks, strict=True)):
            for fork in wanted:
                number += 1
                for _ in range(fork.answers):
                    own = derived(seed, g, number, len(openings))
                    if fork.tree == NEW_TREE:
                        sprouts[g].append([])
                        tree = len(sprouts[g]) - 1
                        openings.append(self._plant(group.task, (g, tree), fork, number, own))
                    else:
                        _reopen(sprouts[g], fork)
                        once = wanted_at[g, fork.tree, fork.parent] == 1
                        openings.append(self._branch(g, fork, number, own, once=once))
        return _sound(await _all(openings))

    async def _plant(
        self, task: str, place: tuple[int, int], fork: Fork, number: int, seed: int
    ) -> Walk:
        line = await Line.open(self.environment, task, seed, self.turn_seconds)
        history = self.renderer.open(line.episode.opening())
        context = self.renderer.context(history)
        return Walk(*place, ROOT_PARENT, fork, number, line, history, context, ())

    async def _branch(self, g: int, fork: Fork, number: int, seed: int, *, once: bool) -> Walk:
        place = (g, fork.tree, fork.parent)
        boundary = self._boundaries.get(place)
        if boundary is None:
            raise LookupError(
                f"group {g}, tree {fork.tree} has no kept boundary behind turn {fork.parent}; "
                f"a plan can fork only what an earlier fork of this iteration grew with keep=True"
            )
        if once and boundary.stopped:  # nobody else comes this way: no copy is needed
            line = self._boundaries.pop(place).line
        else:
            self._boundaries[place] = replace(boundary, stopped=False)  # a boundary like others
            line = await boundary.line.fork(seed)
        here = (g, fork.tree, fork.parent, fork, number)
        return Walk(*here, line, boundary.history, boundary.context, boundary.before)

    async def _keep(self, live: Sequence[Walk], seed: int) -> None:
        """Copy what stands before a turn; once for each place, however many answer it."""
        waiting = {walk.place: walk for walk in reversed(live) if walk.fork.keep}
        kept = [
            walk
            for walk in live
            if waiting.get(walk.place) is walk and walk.place not in self._boundaries
        ]
        copies = await _all(walk.line.fork(derived(seed, i)) for i, walk in enumerate(kept))
        for walk, copy in zip(kept, _sound(copies), strict=True):
            boundary = Boundary(copy, walk.history, walk.context, walk.before)
            self._boundaries[walk.place] = boundary

    async def _answer(self, live: Sequence[Walk], seed: int) -> list[Draft]:
        """Sample an answer for each walk and let the worlds say what comes of it."""
        contexts = [walk.context for walk in live]
        answers = await self.policy.sample(contexts, self.sampling, seed)
        texts = [self.renderer.tokenizer.decode(answer.ids) for answer in answers]
        outcomes = await _all(
            walk.line.act(text) if answer.ids else _unanswered()
            for walk, answer, text in zip(live, answers, texts, strict=True)
        )
        drafts: list[Draft] = []
        for walk, answer, outcome in zip(live, answers, outcomes, strict=True):
            draft = Draft(walk, answer, outcome)
            if not isinstance(outcome, Exception) and outcome.end is None:
                draft.history = self.renderer.answered(walk.history, answer.ids, outcome.messages)
                draft.context = self.renderer.context(draft.history)
            drafts.append(draft)
            self.counts["turns"] += 1
            self.counts["tokens"] += len(answer.ids)
            self.counts["context_tokens"] += len(walk.context)
            self.counts["unstopped"] += not answer.stopped
            if isinstance(outcome, Exception):
                self.counts[f"failed/{type(outcome).__name__}"] += 1
                log.warning("%s, task %s: %r", self.environment.name, walk.line.task, outcome)
        return drafts

    async def _settle(
        self,
        drafts: Sequence[Draft],
        merges: dict[int, Merge],
        sprouts: Sequence[list[list[Turn]]],
        when: tuple[int, int],
        ended: Counter[End],
        seed: int,
    ) -> list[Walk]:
        """Write the turns down; return the walks that go on. `when` is round and turns taken."""
        grown_in, taken = when
        live: list[Walk] = []
        over: list[Line] = []
        numbers: list[int] = []
        for i, draft in enumerate(drafts):
            walk, merge = draft.walk, merges.get(i)
            turns = sprouts[walk.group][walk.tree]
            end = draft.end if merge is None or merge.end is None else merge.end
            if end is None and taken == walk.fork.turns:
                end = End.STOPPED
            twin = numbers[merge.into] if merge is not None and merge.into is not None else None
            turns.append(self._turn(draft, grown_in, end, twin))
            numbers.append(len(turns) - 1)
            if end is not None:
                ended[end] += 1
                self.counts[f"ended/{end}"] += 1
                if end is End.STOPPED:
                    place = (walk.group, walk.tree, numbers[-1])
                    self._boundaries[place] = self._onwards(draft, walk.line, numbers[-1]).stop()
                else:
                    over.append(walk.line)
                continue
            lines = [walk.line]
            for copy in range(1, 1 if merge is None else merge.continuations):
                own = derived(seed, "more", grown_in, walk.fork_number, i, copy)
                lines.append(await walk.line.fork(own))
            live += [self._onwards(draft, line, numbers[-1]) for line in lines]
        await self._close(over)
        return live

    def _turn(self, draft: Draft, grown_in: int, end: End | None, twin: int | None) -> Turn:
        walk = draft.walk
        shared = shared_length(walk.before, walk.context)
        said = None if isinstance(draft.outcome, Exception) else draft.outcome
        return Turn(
            parent=walk.parent,
            shared=shared,
            fresh=walk.context[shared:],
            observation=walk.history.observation,
            action=draft.answer.ids,
            logprobs=draft.answer.logprobs,
            grown_in=grown_in,
            policy_version=self.policy.version,
            reward=0.0 if said is None else said.reward,
            end=end,
            merged_into=twin,
            score=None if said is None else said.score,
            entropies=draft.answer.entropies,
        )

    def _onwards(self, draft: Draft, line: Line, turn: int) -> Walk:
        walk = draft.walk
        if draft.history is None:
            raise AssertionError("a rollout that goes on has a history")
        return Walk(
            walk.group,
            walk.tree,
            turn,
            walk.fork,
            walk.fork_number,
            line,
            draft.history,
            draft.context,
            walk.context + draft.answer.ids,
        )


def _has_sound(group: Group) -> bool:
    """Whether any rollout of a group is worth something."""
    return any(
        tree.turns[leaf].end is not End.FAILED for tree in group.trees for leaf in tree.leaves
    )


class NoAnswerError(RuntimeError):
    """A policy answered with no token at all, not even one that stops."""


async def _unanswered() -> Observation:
    raise NoAnswerError("the policy answered with no token")


def _reopen(trees: Sequence[list[Turn]], fork: Fork) -> None:
    """A stopped turn that is gone on from has not ended."""
    if fork.parent == ROOT_PARENT or not 0 <= fork.tree < len(trees):
        return
    turns = trees[fork.tree]
    if fork.parent < len(turns) and turns[fork.parent].end is End.STOPPED:
        turns[fork.parent] = replace(turns[fork.parent], end=None)


async def _all(calls: Iterable[Awaitable[T]]) -> list[T | Exception]:
    """Await everything; what raises is returned, except what is meant to stop the program."""
    results: list[T | Exception] = []
    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(outcome, BaseException) and not isinstance(outcome, Exception):
            raise outcome
        results.append(outcome)
    return results


def _sound(outcomes: Iterable[T | Exception]) -> list[T]:
    """The outcomes, if none of them is an exception; otherwise the first exception."""
    sound: list[T] = []
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
        sound.append(outcome)
    return sound
