"""What every environment keeps to. Each rule says what it looked at, or what it found."""

import dataclasses
import json
from typing import Any, cast

from retrograde.data.message import Message
from retrograde.environments.description import described
from retrograde.environments.ground import (
    SPLITS,
    Ground,
    NotApplicableError,
    ViolationError,
    check_alike,
    outcome,
)
from retrograde.environments.heard import told
from retrograde.environments.player import Played
from retrograde.environments.protocol import Forking
from retrograde.environments.transcript import answers_in, transcript

CONTEXTS = ("full", "drop_thinking", "window", "markov")
NAMES = 40
"""Tasks of a split whose names are compared."""
SPLIT_SHARE = 4
"""Times as many tasks of a split as are played otherwise are looked at, to see that none is in
the other."""
STRANGE = (
    "", " ", "\n\n", "?", "no such thing", "x" * 100_000, "word " * 20_000,
    "\x00\x07\x1b[31m", "\u202eabc\u202c \u0301\u0301 \U0001f9ca \u4f60\u597d",
    "<think>", "</think>", "<think></think>", "<answer></answer>", "<|im_end|><|im_start|>user",
    "<|end|><|assistant|>", '<tool_call>{"name": ', '{"name": null, "arguments": []}',
    "[f(x=", "'; --", "../../etc/passwd", "%s %d {0} {{", "-1", "1e999", "nan",
)  # fmt: skip
"""What a policy may say when it knows no better."""


async def data(ground: Ground) -> str:
    """Its settings are plain data: a frozen dataclass that its own fields make again."""
    environment: Any = ground.environment
    _check_facts(environment)
    told_by_itself = described(environment)
    if told_by_itself is None:
        raise NotApplicableError("no dataclass, so that a run's manifest holds no settings of it")
    try:
        plain = json.dumps(told_by_itself)
    except TypeError as cause:
        raise ViolationError(f"its fields are no JSON data: {cause}") from cause
    if not dataclasses.is_dataclass(environment) or isinstance(environment, type):
        return plain
    settings = {
        field.name: getattr(environment, field.name)
        for field in dataclasses.fields(environment)
        if field.init
    }
    if type(environment)(**settings) != environment:
        raise ViolationError("made again from its own fields it is another")
    if not cast("Any", environment).__dataclass_params__.frozen:
        raise ViolationError("it is not frozen: @dataclass(frozen=True)")
    return plain


def _check_facts(environment: Any) -> None:
    if not (environment.name and isinstance(environment.name, str)):
        raise ViolationError(f"name is {environment.name!r}")
    for name in ("turn_limit", "max_new_tokens"):
        value = getattr(environment, name)
        if not (isinstance(value, int) and value > 0):
            raise ViolationError(f"{name} is {value!r}; a whole number above 0 is needed")
    if environment.context not in CONTEXTS:
        raise ViolationError(f"context is {environment.context!r}; known: {', '.join(CONTEXTS)}")
    if not isinstance(environment.forking, Forking):
        raise ViolationError(f"forking is {environment.forking!r}, which is no Forking")


async def sizes(ground: Ground) -> str:
    """A split has as many tasks as it says, each with a name of its own."""
    environment = ground.environment
    found: list[str] = []
    for split in SPLITS:
        size: Any = environment.size(split)
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ViolationError(f"size({split!r}) is {size!r}")
        names = ground.tasks(split, NAMES)
        if len(set(names)) < len(names):
            raise ViolationError(f"two of the first {len(names)} {split} tasks have one name")
        for index in (-1, size):
            if index is None:
                continue
            try:
                task = environment.task(split, index)
            except ValueError:
                continue
            raise ViolationError(f"task({split!r}, {index}) is {task!r}; ValueError is needed")
        found.append(f"{split}: {size or 'without end'}")
    return ", ".join(found)


async def unknown(ground: Ground) -> str:
    """What is no task is refused with ValueError."""
    try:
        episode = await ground.environment.open("no such task", 0)
    except ValueError:
        return "'no such task' is refused"
    await episode.close()
    raise ViolationError("open('no such task', 0) opened an episode; ValueError is needed")


async def opening(ground: Ground) -> str:
    """An episode opens with messages, the same ones however often it is asked for them."""
    for task in ground.sample:
        async with ground.opened(task, 0) as episode:
            first, second = told(episode.opening()), told(episode.opening())
        if not first:
            raise ViolationError(f"the opening of {task} is empty")
        if first != second:
            raise ViolationError(f"asked twice, {task} opens with {first!r} and {second!r}")
    return f"{len(ground.sample)} openings"


async def observations(ground: Ground) -> str:
    """Every action is answered by an Observation that holds what it should."""
    number = 0
    for task in ground.sample:
        for way in range(2):
            walk = await outcome(ground.walk(task, 0, way))
            if isinstance(walk, Exception):
                raise ViolationError(f"{task}: {walk!r}")
            number += len(walk.heard)
    return f"{number} turns"


async def limits(ground: Ground) -> str:
    """An episode ends within its turn limit, whatever is said."""
    limit, number = ground.environment.turn_limit, 0
    for task in ground.sample:
        walks = [await ground.walk(task, 0, way) for way in range(2)]
        walks += [await ground.again(task, 0, [words] * limit) for words in ("?", "no such thing")]
        for walk in walks:
            number += 1
            if not walk.is_over:
                raise ViolationError(
                    f"{task} goes on after {len(walk.said)} actions, and turn_limit is {limit}; "
                    f"the last was {walk.said[-1]!r:.80}"
                )
    return f"{number} walks of at most {limit} turns"


async def strange_text(ground: Ground) -> str:
    """Text that means nothing is answered, never raised about."""
    task = ground.tasks("train")[0]
    for words in STRANGE:
        for before in (0, 1):
            async with ground.opened(task, 0) as episode:
                walk = Played(episode.opening())
                await walk.play(episode, ground.player, task, ground.seed, before)
                if walk.is_over:
                    continue
                said = await outcome(walk.go(episode, words))
            if isinstance(said, Exception):
                raise ViolationError(f"{words!r:.40} raised {said!r}")
    return f"{len(STRANGE)} texts"


async def closing(ground: Ground) -> str:
    """An episode can be closed before its first turn, on the way, and at its end."""
    task = ground.tasks("train")[0]
    for turns, when in ((0, "before its first turn"), (1, "on the way"), (None, "at its end")):
        episode = await ground.environment.open(task, 0)
        most = ground.environment.turn_limit if turns is None else turns
        walk = Played(episode.opening())
        await walk.play(episode, ground.player, task, ground.seed, most)
        closed = await outcome(episode.close())
        if closed is not None:
            raise ViolationError(f"closed {when}, {task} came to {closed!r}")
    return "before, on the way, at the end"


async def teacher(ground: Ground) -> str:
    """A teacher says the same for the same seed, and saying it changes nothing."""
    for task in ground.sample:
        async with ground.opened(task, 0) as episode:
            try:
                words: Any = episode.demonstrate(5)
            except LookupError as cause:
                raise NotApplicableError("no teacher") from cause
            if not isinstance(words, str):
                raise ViolationError(f"{task}: demonstrate(5) gave {words!r:.80}")
            before = episode.state_key()
            if episode.demonstrate(5) != words:
                raise ViolationError(f"{task}: demonstrate(5) said two things")
            episode.demonstrate(6)
            if episode.state_key() != before or episode.demonstrate(5) != words:
                raise ViolationError(f"{task}: demonstrating changed the episode")
    return f"{len(ground.sample)} tasks"


async def determinism(ground: Ground) -> str:
    """One task, one seed, one way to act: one episode."""
    number = 0
    for task in ground.sample:
        for seed in (0, 1):
            walk = await ground.walk(task, seed, seed)
            again = await ground.again(task, seed, walk.said)
            check_alike(walk, again, f"{task} with seed {seed}")
            number += 1
    return f"{number} walks, twice each"


async def start(ground: Ground) -> str:
    """One task starts in one state, whatever the seed: a group has one start."""
    for task in ground.sample:
        starts: list[tuple[object, object]] = []
        for seed in range(3):
            async with ground.opened(task, seed) as episode:
                starts.append((episode.opening(), episode.state_key()))
        if any(each != starts[0] for each in starts):
            raise ViolationError(f"{task} starts otherwise with another seed")
    return f"{len(ground.sample)} tasks, 3 seeds"


async def splits(ground: Ground) -> str:
    """No task is in both splits."""
    train, test = (ground.tasks(split, NAMES) for split in SPLITS)
    shared = set(train) & set(test)
    if shared:
        raise ViolationError(f"{min(shared)!r} is in both")
    wanted = SPLIT_SHARE * ground.number
    openings: dict[tuple[Message, ...], list[str]] = {}
    for task in train[:wanted]:
        async with ground.opened(task, 0) as episode:
            openings.setdefault(episode.opening(), []).append(task)
    pairs = 0
    for task in test[:wanted]:
        async with ground.opened(task, 0) as episode:
            alike = openings.get(episode.opening(), [])
        for other in alike:
            pairs += 1
            if await _are_one(ground, task, other):
                raise ViolationError(f"{task} and {other} look the same on every walk")
    return f"{min(len(train), wanted)} against {min(len(test), wanted)} tasks"


async def _are_one(ground: Ground, task: str, other: str) -> bool:
    for way in range(3):
        for one, two in ((task, other), (other, task)):
            walk = await ground.walk(one, 0, way)
            if walk.heard != (await ground.again(two, 0, walk.said)).heard:
                return False
    return True


async def round_trip(ground: Ground) -> str:
    """A transcript can be played again from itself."""
    for task in ground.sample:
        walk = await ground.walk(task, 0)
        text = await transcript(ground.environment, task, 0, walk.said)
        again = await transcript(ground.environment, task, 0, answers_in(text))
        if text != again:
            raise ViolationError(f"{task}: it reads\n{text}\nonce, and then\n{again}")
    return f"{len(ground.sample)} transcripts"
