"""Any Gymnasium environment whose actions can be said: `gym:FrozenLake-v1`.

A task is a seed for `reset`. What is drawn after the reset comes from the episode's own seed:
every generator of random numbers that the environment holds is seeded anew once it is reset.
"""

import copy
import json
import random
import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Literal, Self, cast

from retrograde.data.message import ContextPolicy, Message, spoken
from retrograde.data.offer import Offer
from retrograde.data.places import found_at
from retrograde.data.seeds import derived
from retrograde.data.tree import End
from retrograde.data.vocabulary import Vocabulary
from retrograde.environments.plain import PlainEpisode, PlainTasks
from retrograde.environments.protocol import Forking, Observation
from retrograde.environments.spaces import ActionWords, action_words, check_sight, sight
from retrograde.environments.tasks import parts_of_task
from retrograde.environments.toy_text import Sight, known_of
from retrograde.environments.twin import copied, reseed

MISUNDERSTOOD = "Not understood."
USUAL_TURNS = 100
"""If the environment has no limit of its own."""
PROBED, PROBED_AHEAD = 24, 4
"""Steps that are tried to find out whether a copy behaves like the original, and steps before."""
HEARD = 20
"""Episodes that are played at random to learn an environment's words."""
CANNOT_COPY = (TypeError, AttributeError, ValueError, RuntimeError)
"""What copying raises where it cannot be done."""

Make = Callable[[], Any]


class GymEpisode(PlainEpisode):
    """One episode of a Gymnasium environment."""

    def __init__(self, task: str, environment: "Gym", seed: int) -> None:
        """Make the environment and reset it."""
        self.task = task
        self.environment = environment
        self.world = environment.made()
        self.known = known_of(self.world)
        self.words = environment.words_of(self.world)
        self.used = 0
        """Turns so far."""
        self.steps = 0
        """Those that were understood."""
        self.over = False
        first, _ = self.world.reset(seed=environment.reset_seed(task))
        reseed(self.world, seed)
        self.shown = environment.shown(self.world, first)
        """The last observation, in words."""

    def opening(self) -> tuple[Message, ...]:
        """Rules, and what is seen first."""
        about = self.known.about(self.world.unwrapped) if self.known else ""
        name = f"The environment is {self.environment.env_id}."
        rules = "\n".join(part for part in (name, about, self.words.rule) if part)
        return Message("system", rules, lasting=True), Message("user", self.shown)

    async def act(self, text: str) -> Observation:
        """Take a step, or none if nothing was understood."""
        if self.over:
            raise RuntimeError(f"the episode of {self.task!r} is over: open the task again")
        self.used += 1
        action = self.words.read(spoken(text))
        late = self.used == self.environment.turns
        if action is None:
            self.over = late
            events = ("action/malformed",)
            if late:
                return Observation((), end=End.TRUNCATED, events=events)
            heard = f"{MISUNDERSTOOD} {self.words.rule}\n{self.shown}"
            return Observation((Message("user", heard),), events=events)
        seen, reward, terminated, truncated, _ = self.world.step(action)
        self.steps += 1
        self.over = bool(terminated or truncated or late)
        if self.over:
            end = End.FINISHED if terminated else End.TRUNCATED
            return Observation((), float(reward), end)
        self.shown = self.environment.shown(self.world, seen)
        return Observation((Message("user", self.shown),), float(reward))

    def fork(self, seed: int) -> Self:
        """An independent copy; all its generators of random numbers are seeded anew."""
        if self.environment.forking is not Forking.FORK:
            return super().fork(seed)
        twin = copy.copy(self)
        twin.world = copied(self.world)
        reseed(twin.world, seed)
        return twin

    def state_key(self) -> Hashable | None:
        """Known for some of Gymnasium's own environments; for others nobody can tell."""
        if self.known is None:
            return None
        return self.task, self.used, self.steps, self.known.state(self.world.unwrapped)

    def demonstrate(self, seed: int) -> str:
        """What a teacher says who knows the words and nothing else: any action."""
        return self.words.example(random.Random(seed))

    async def close(self) -> None:
        """Close the environment."""
        self.world.close()


def _sight(renderer: str | Sight) -> Sight | None:
    if not isinstance(renderer, str):
        return renderer
    return found_at(renderer, "renderer") if renderer else None


@dataclass(frozen=True, init=False)
class Gym(PlainTasks):
    """Any Gymnasium environment with actions that can be said, such as gym:FrozenLake-v1."""

    name = "gym"
    max_new_tokens = 24
    offers = frozenset({Offer.TURN_REWARDS})

    env_id: str
    """What `gymnasium.make` calls it."""
    options: str
    """More arguments for `gymnasium.make`, as a JSON object."""
    actions: str
    """Names of the actions of a discrete space, with commas between them."""
    renderer: str
    """Where a function is that puts an observation into words, given it and the environment."""
    turns: int
    """Actions until an episode is cut off."""
    success_return: float
    """A rollout whose return reaches this is a success."""
    forking: Forking
    """How an episode is continued twice."""
    context: ContextPolicy
    """What the policy is shown of the past."""
    make: Make | None = field(compare=False, repr=False)
    """Makes the environment, if `gymnasium.make` does not."""

    def __init__(
        self,
        env_id: str = "",
        *,
        make: Make | None = None,
        options: str = "{}",
        actions: str = "",
        renderer: str | Sight = "",
        turns: int | None = None,
        success_return: float | None = None,
        forking: Literal["fork", "replay", "none"] | None = None,
        context: ContextPolicy = "markov",
    ) -> None:
        """What is not said is found out by making the environment once.

        Args:
            env_id: what `gymnasium.make` calls it; with `make`, what to call it here.
            make: makes the environment, if `gymnasium.make` does not.
            options: more arguments for `gymnasium.make`, as a JSON object.
            actions: names of the actions of a discrete space, with commas between them; empty
                for the names of a known environment, else numbers.
            renderer: a function from an observation and the environment, unwrapped, to words, or
                where it is (FILE.py:NAME); empty goes by the observation space.
            turns: actions until an episode is cut off; None takes the environment's own limit.
            success_return: of a rollout that is a success; None takes what is known of the
                environment, else the threshold it is registered with, else 1.
            forking: None finds out by a trial whether copies behave like the original, else
                whether two episodes of one task do, else nothing can branch.
            context: what the policy is shown of the past; `full` if one observation does not
                tell the state.

        Raises:
            ValueError: there is no such environment, or its spaces cannot be put into words.
        """
        set_ = object.__setattr__
        label = env_id or (f"{make.__module__}:{make.__qualname__}" if make else "")
        parts = {"env_id": label, "options": options, "actions": actions, "make": make}
        for name, value in parts.items():
            set_(self, name, value)
        set_(self, "renderer", renderer if isinstance(renderer, str) else "given")
        given = _sight(renderer)
        for name, value in (("_sight", given), ("context", context)):
            set_(self, name, value)
        world = self.made()
        try:
            spec, known = world.spec, known_of(world)
            self.words_of(world)
            if not (given or known):
                check_sight(world.observation_space)
            limit = spec.max_episode_steps if spec is not None else None
        finally:
            world.close()
        threshold = spec.reward_threshold if spec is not None else None
        usual = known.success_return if known else 1.0 if threshold is None else threshold
        set_(self, "turns", turns if turns is not None else limit or USUAL_TURNS)
        set_(self, "success_return", usual if success_return is None else success_return)
        if self.turns < 1:
            raise ValueError(f"turns: got {turns}, needed 1 or more")
        set_(self, "forking", Forking(forking) if forking else forking_of(self))

    def made(self) -> Any:
        """A new environment.

        Raises:
            ValueError: Gymnasium has none of that name, or it does not take the options.
        """
        import gymnasium

        if self.make is not None:
            return self.make()
        if not self.env_id:
            raise ValueError("gym: the id of an environment is needed, such as gym:FrozenLake-v1")
        try:
            options = json.loads(self.options)
            return gymnasium.make(self.env_id, disable_env_checker=True, **options)
        except (gymnasium.error.Error, TypeError, json.JSONDecodeError) as cause:
            raise ValueError(f"gym:{self.env_id} with options {self.options}: {cause}") from cause

    def words_of(self, world: Any) -> ActionWords:
        """What the policy says for an action of this environment."""
        known = known_of(world)
        names = tuple(name.strip() for name in self.actions.split(",") if name.strip())
        return action_words(world.action_space, names or (known.actions if known else ()))

    def shown(self, world: Any, seen: Any) -> str:
        """An observation in words."""
        known, given = known_of(world), cast("Sight | None", self.__dict__["_sight"])
        if given is not None:
            return str(given(seen, world.unwrapped))
        if known is not None:
            return known.sight(seen, world.unwrapped)
        return sight(world.observation_space, seen)

    def reset_seed(self, task: str) -> int:
        """The seed that a task is reset with; even in training, odd in test.

        Raises:
            ValueError: there is no such task.
        """
        split, index = parts_of_task(task, self.name)
        return 2 * (derived(self.name, index) % 2**30) + (split == "test")

    @property
    def turn_limit(self) -> int:
        """Actions until an episode is cut off."""
        return self.turns

    @property
    def vocabulary(self) -> Vocabulary:
        """Every word of an action, and what is heard in some episodes that are played at random."""
        heard: dict[str, None] = {}
        rules: dict[str, None] = {MISUNDERSTOOD: None}
        for number in range(HEARD):
            chance = random.Random(number)
            episode = GymEpisode(self.task("train", number), self, number)
            system, first = episode.opening()
            rules |= dict.fromkeys((system.content, episode.words.rule))
            texts = [first.content]
            for _ in range(self.turns):
                action = episode.words.read(episode.words.example(chance))
                seen, _, terminated, truncated, _ = episode.world.step(action)
                if terminated or truncated:
                    break
                texts.append(self.shown(episode.world, seen))
            heard |= dict.fromkeys(re.findall(r"\w+|[^\w\s]+", " ".join(texts)))
            episode.world.close()
        digits = (f"{n:0{width}}" for width in (1, 2, 3) for n in range(10**width))
        numbers = digits if any(word.isdigit() for word in heard) else ()
        words = self.words_of_all()
        return Vocabulary(tuple(rules), tuple(dict.fromkeys((*words, *sorted(heard), *numbers))))

    def words_of_all(self) -> tuple[str, ...]:
        """Every word of an action, as the tokenizer divides them."""
        world = self.made()
        try:
            return tuple(re.findall(r"\w+|[^\w\s]+", " ".join(self.words_of(world).words)))
        finally:
            world.close()

    async def open(self, task: str, seed: int) -> GymEpisode:
        """Start an episode."""
        return GymEpisode(task, self, seed)


def gym(
    env_id: str = "",
    *,
    options: str = "{}",
    actions: str = "",
    renderer: str = "",
    turns: int | None = None,
    success_return: float | None = None,
    forking: Literal["fork", "replay", "none"] | None = None,
    context: ContextPolicy = "markov",
) -> Gym:
    """Any Gymnasium environment with actions that can be said, such as gym:FrozenLake-v1.

    Args:
        env_id: what `gymnasium.make` calls it.
        options: more arguments for `gymnasium.make`, as a JSON object.
        actions: names of the actions of a discrete space, with commas between them; empty for
            the names of a known environment, else numbers.
        renderer: where a function is (FILE.py:NAME) that puts an observation into words, given
            it and the environment, unwrapped; empty goes by the observation space.
        turns: actions until an episode is cut off; None takes the environment's own limit.
        success_return: a rollout whose return reaches this is a success; None takes what is known
            of the environment, else the threshold it is registered with, else 1.
        forking: None finds out by a trial.
        context: what the policy is shown of the past; `full` if one observation does not tell
            the state.
    """
    return Gym(
        env_id,
        options=options,
        actions=actions,
        renderer=renderer,
        turns=turns,
        success_return=success_return,
        forking=forking,
        context=context,
    )


def forking_of(environment: Gym) -> Forking:
    """Find out how an environment's episodes can be continued twice.

    FORK if a deep copy goes on like its original, and leaves it alone; else REPLAY if two
    episodes of one task with different seeds go alike; else NONE. A trial of a few steps can be
    wrong: whoever knows better says so (`--environment.forking`).
    """
    if _copies_alike(environment):
        return Forking.FORK
    futures = [_future(_started(environment, seed), 0) for seed in (1, 2)]
    return Forking.REPLAY if futures[0] == futures[1] else Forking.NONE


def _started(environment: Gym, seed: int) -> GymEpisode:
    return GymEpisode(environment.task("train", 0), environment, seed)


def _copies_alike(environment: Gym) -> bool:
    original = _started(environment, 1)
    chance = random.Random(0)
    for _ in range(PROBED_AHEAD):
        _, _, *ended, _ = original.world.step(_drawn(original, chance))
        if any(ended):
            original.world.reset(seed=1)
    try:
        twins = [copied(original.world) for _ in range(2)]
    except CANNOT_COPY:
        original.world.close()
        return False
    for world in (*twins, original.world):
        reseed(world, 5)
    episodes = [copy.copy(original) for _ in twins]
    for episode, world in zip(episodes, twins, strict=True):
        episode.world = world
    first, second = (_future(episode, 1) for episode in episodes)
    return first == second == _future(original, 1)


def _drawn(episode: GymEpisode, chance: random.Random) -> Any:
    return episode.words.read(episode.words.example(chance))


def _future(episode: GymEpisode, seed: int) -> list[object]:
    """What happens if some drawn actions are taken."""
    chance, told = random.Random(seed), list[object]()
    for _ in range(PROBED):
        seen, reward, terminated, truncated, _ = episode.world.step(_drawn(episode, chance))
        told.append((episode.environment.shown(episode.world, seen), float(reward), terminated))
        if terminated or truncated:
            break
    episode.world.close()
    return told
