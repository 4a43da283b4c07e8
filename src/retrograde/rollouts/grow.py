"""Runs a plan's forks: every live rollout of a round answers in lockstep.

The past of a rollout is kept as token ids and never rendered again from text; what is
stored in a turn is what the policy was given and what it gave back. What breaks in a world
costs one rollout: it gets a leaf that says so and never trains.
"""

from collections import Counter
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, NamedTuple

from retrograde.data.seeds import derived
from retrograde.data.tree import End, Group
from retrograde.environments.protocol import Environment
from retrograde.policies.protocol import Policy, Sampling
from retrograde.rendering.history import Renderer
from retrograde.rewards.weighted import Rewards
from retrograde.rollouts.acting import Acting
from retrograde.rollouts.judging import Judging
from retrograde.rollouts.limits import Limits
from retrograde.rollouts.line import Line
from retrograde.rollouts.merge import Merge, merged
from retrograde.rollouts.patience import heeding_alarms
from retrograde.rollouts.plans import NEW_TREE, Fork
from retrograde.rollouts.progress import Progress, Watch, unwatched
from retrograde.rollouts.round import Round, has_sound
from retrograde.rollouts.walk import Boundary, Draft, Lost, Place, Walk
from retrograde.rollouts.world import BrokenError, World, settled, survived


class Figure(NamedTuple):
    """Something to be averaged by name, and the turn it is of."""

    place: Place
    name: str
    value: float


class Grower:
    """Grows the groups of one iteration and remembers their boundaries while it does."""

    def __init__(
        self,
        environment: Environment,
        renderer: Renderer,
        policy: Policy,
        sampling: Sampling,
        *,
        limits: Limits | None = None,
        rewards: Rewards | None = None,
        watch: Watch = unwatched,
    ) -> None:
        """Bind the parts.

        Args:
            environment: where rollouts grow.
            renderer: shows the policy what the environment says.
            policy: answers.
            sampling: how.
            limits: of time and length; None for the defaults.
            rewards: what turns earn; None for what the environment gives.
            watch: told before each turn how far the growing is.
        """
        self.environment = environment
        self.renderer = renderer
        self.policy = policy
        self.sampling = sampling
        self.limits = limits or Limits()
        self.watch = watch
        self.world = World(environment, self.limits)
        self.counts = self.world.counts
        """What happened since the caller last cleared it."""
        self.figures: list[Figure] = []
        """What is to be averaged, since the caller last cleared it."""
        room = sampling.max_new_tokens
        seconds = self.limits.reward_seconds
        judging = None if rewards is None else Judging(environment, rewards, room, seconds)
        self._acting = Acting(self.world, renderer, room, judging)
        self._boundaries: dict[Place, Boundary | Lost] = {}

    async def grow(
        self,
        groups: Sequence[Group],
        forks: Sequence[Sequence[Fork]],
        grown_in: int,
        seed: int,
    ) -> list[Group]:
        """The groups with a round more in them. Round 0 forgets all earlier boundaries.

        If this is interrupted, whatever by, every episode is closed.

        Raises:
            RuntimeError: every rollout of the iteration failed. A late round may be a single
                rollout, whose failure says little about the world.
        """
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.abandon)
            if grown_in == 0:
                await self.forget()
            self.world.reasons.clear()
            round_ = Round(groups, grown_in, self.policy.version)
            with heeding_alarms():
                await self._grow(round_, forks, seed)
            grown = round_.groups()
            if round_.ended and not any(has_sound(group) for group in grown):
                raise RuntimeError(
                    f"all {round_.ended[End.FAILED]} rollouts of round {grown_in} failed in "
                    f"{self.environment.name}, and none before succeeded: "
                    f"{self.world.said_reasons}; the log says more"
                )
            stack.pop_all()
        return grown

    async def forget(self) -> None:
        """Close every kept boundary."""
        kept = [each for each in self._boundaries.values() if isinstance(each, Boundary)]
        self._boundaries.clear()
        await self.world.close(boundary.line for boundary in kept)

    async def abandon(self) -> None:
        """Close everything."""
        self._boundaries.clear()
        await self.world.close(self.world.lines)

    async def _grow(self, grown: Round, forks: Sequence[Sequence[Fork]], seed: int) -> None:
        tick, number = 0, grown.number
        live = await self._start(grown, forks, derived(seed, "world", number))
        while live:
            turn = max(map(grown.depth, {walk.place for walk in live})) + 1
            self.watch(Progress(number, turn, len(live), grown.last_ended()))
            await self._keep(live, derived(seed, "kept", number, tick))
            drafts = await self._answer(live, derived(seed, "policy", number, tick), first=not tick)
            merges = merged(drafts) if tick == 0 else {}
            tick += 1
            live = await self._settle(grown, drafts, merges, tick, seed)
        for end, times in grown.ended.items():
            self.counts[f"ended/{end}"] += times

    async def _start(self, grown: Round, forks: Sequence[Sequence[Fork]], seed: int) -> list[Walk]:
        """Open the episodes of new trees, fork those of old ones, go on where one was stopped."""
        openings: list[Coroutine[Any, Any, Walk]] = []
        places: list[Place] = []
        number = 0
        wanted_at = Counter[Place]()
        for g, wanted in enumerate(forks):
            for fork in wanted:
                wanted_at[Place(g, fork.tree, fork.parent)] += fork.answers
        for g, wanted in enumerate(forks):
            for fork in wanted:
                number += 1
                for _ in range(fork.answers):
                    own = derived(seed, g, number, len(openings))
                    place = grown.start(g, fork)
                    places.append(place)
                    if fork.tree == NEW_TREE:
                        task = grown.tasks[g]
                        openings.append(self._plant(task, place, fork, number, own))
                    else:
                        once = wanted_at[place] == 1
                        openings.append(self._branch(place, fork, number, own, once=once))
        live: list[Walk] = []
        for place, outcome in zip(places, survived(await settled(openings)), strict=True):
            if isinstance(outcome, BrokenError):
                self._lose(grown, place, outcome)
            else:
                live.append(outcome)
        return live

    async def _plant(self, task: str, place: Place, fork: Fork, number: int, seed: int) -> Walk:
        line = await self.world.open(task, seed)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.world.close, [line])
            standing = self._acting.begin(line)
            stack.pop_all()
        return Walk(place, fork, number, line, standing)

    async def _branch(
        self, place: Place, fork: Fork, number: int, seed: int, *, once: bool
    ) -> Walk:
        boundary = self._boundaries.get(place)
        if boundary is None:
            raise LookupError(
                f"group {place.group}, tree {place.tree} has no kept boundary behind turn "
                f"{place.turn}; a plan can fork only what an earlier fork of this iteration grew "
                f"with keep=True"
            )
        if isinstance(boundary, Lost):
            raise boundary.why
        if once and boundary.stopped:  # nobody else comes this way: no copy is needed
            del self._boundaries[place]
            line = boundary.line
        else:
            if boundary.stopped:  # from now on a boundary like others
                self._boundaries[place] = replace(boundary, stopped=False)
            line = await self.world.fork(boundary.line, seed)
        return Walk(place, fork, number, line, boundary.standing)

    def _lose(self, grown: Round, place: Place, broken: BrokenError) -> None:
        """Take down a rollout that could not begin."""
        boundary = self._boundaries.get(place)
        if isinstance(boundary, Lost) and boundary.why is broken:
            self.counts[f"dropped/{broken.kind}"] += 1
        else:
            self.world.note(broken, grown.tasks[place.group])
        if boundary is None:
            boundary = self._boundaries[place] = Lost(None, broken)
        grown.lose(place, boundary.standing)

    async def _keep(self, live: Sequence[Walk], seed: int) -> None:
        """Copy what stands before a turn; once for each place, however many answer it."""
        waiting = {walk.place: walk for walk in reversed(live) if walk.fork.keep}
        kept = [
            walk
            for walk in live
            if waiting.get(walk.place) is walk and walk.place not in self._boundaries
        ]
        copies = await settled(
            self.world.fork(walk.line, derived(seed, i)) for i, walk in enumerate(kept)
        )
        for walk, copy in zip(kept, survived(copies), strict=True):
            if isinstance(copy, BrokenError):
                self.world.note(copy, walk.line.task)
                self._boundaries[walk.place] = Lost(walk.standing, copy)
            else:
                self._boundaries[walk.place] = Boundary(walk.standing, copy)

    async def _answer(self, live: Sequence[Walk], seed: int, *, first: bool) -> list[Draft]:
        """Sample an answer for each walk and let the worlds say what comes of it."""
        contexts = [walk.context for walk in live]
        answers = await self.policy.sample(contexts, self.sampling, seed)
        taken = await settled(
            self._acting.act(walk, answer, merging=first and walk.fork.continuations > 0)
            for walk, answer in zip(live, answers, strict=True)
        )
        drafts: list[Draft] = []
        for walk, answer, outcome in zip(live, answers, survived(taken), strict=True):
            if isinstance(outcome, BrokenError):
                self.world.note(outcome, walk.line.task)
                drafts.append(Draft(walk, answer, None, end=End.FAILED))
            else:
                drafts.append(outcome)
        self.counts["turns"] += len(answers)
        self.counts["tokens"] += sum(len(answer.ids) for answer in answers)
        self.counts["context_tokens"] += sum(map(len, contexts))
        self.counts["unstopped"] += sum(not answer.stopped for answer in answers)
        return drafts

    async def _settle(
        self,
        grown: Round,
        drafts: Sequence[Draft],
        merges: dict[int, Merge],
        taken: int,
        seed: int,
    ) -> list[Walk]:
        """Write the turns down; return the walks that go on. `taken` turns so far each."""
        live: list[Walk] = []
        over: list[Line] = []
        places: list[Place] = []
        for i, draft in enumerate(drafts):
            walk, merge = draft.walk, merges.get(i)
            end = draft.end if merge is None or merge.end is None else merge.end
            if end is None and taken == walk.fork.turns:
                end = End.STOPPED
            twin = None if merge is None or merge.into is None else places[merge.into].turn
            place = grown.add(draft, end, twin)
            places.append(place)
            if draft.figures:
                self.figures += [Figure(place, name, value) for name, value in draft.figures]
            if end is End.STOPPED:
                self._boundaries[place] = draft.onwards(place).stop()
            elif end is not None:
                over.append(walk.line)
            else:
                onwards = draft.onwards(place)
                live.append(onwards)
                for copy in range(1, 1 if merge is None else merge.continuations):
                    own = derived(seed, "more", grown.number, walk.fork_number, i, copy)
                    live += await self._copied(grown, onwards, own)
        await self.world.close(over)
        return live

    async def _copied(self, grown: Round, walk: Walk, seed: int) -> list[Walk]:
        """The same rollout once more; none if that cannot be."""
        (copy,) = survived(await settled([self.world.fork(walk.line, seed)]))
        if isinstance(copy, BrokenError):
            self.world.note(copy, walk.line.task)
            grown.lose(walk.place, walk.standing)
            return []
        return [replace(walk, line=copy)]
