"""Groups as a run keeps them: with their text, what each answer was worth, and what came of it.

A run's directory holds one compressed file an iteration, `rollouts/step-N.jsonl.zst`, and one for
each evaluation, `rollouts/evaluation-N.jsonl.zst`: a line is a group, as JSON. Ids are exact.
"""

import io
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import zstandard

from retrograde.data.rows import Advantage
from retrograde.data.tree import End, Group, Tree
from retrograde.data.wire import group_of_record, record_of_group

ROLLOUTS = "rollouts"
EVALUATIONS = "evaluations.jsonl"
"""How each held-out task went: a line an evaluation, the tasks always in the same order."""
SUFFIX = ".jsonl.zst"
HEADER = 18
"""Bytes that the header of a compressed frame takes at most."""
LEVEL = 10
"""Of compression: beyond it files shrink little and writing slows down."""
Told = Callable[[str], None]
"""Told of what is damaged, and what of it is left out."""
T = TypeVar("T")
UNJUDGED = (End.FAILED, End.MERGED, End.SPARED)
"""Ends of leaves that neither succeeded nor failed at their task."""


class Played(StrEnum):
    """What rollouts were played for; begins the names of files."""

    TRAINING = "step"
    EVALUATION = "evaluation"


class Text(NamedTuple):
    """What one turn says; for people, never to be encoded again."""

    observed: str
    """What was said since the answer before, with the generation prompt behind it."""
    said: str


class Visit(NamedTuple):
    """What one visit to one turn was worth when an update was made of it."""

    turn: int
    leaf: int
    phase: int
    """The round of growth after which it was judged."""
    update: int | None
    """Number of the weights that this update published; None if the update was skipped."""
    advantage: Advantage
    """As trained: whatever is done over the whole update has been done."""
    before: tuple[float, ...] = ()
    """log pi that the ratio was taken to, where it is not the sampler's."""
    after: tuple[float, ...] = ()
    """log pi of each action token under the weights that the update published, in nats; empty
    for answers that carried no gradient."""
    values: tuple[float, ...] = ()
    """What a critic said; empty if none was asked."""

    @property
    def mean(self) -> float:
        """The advantage, over tokens if each has its own."""
        each = self.advantage
        return sum(each) / len(each) if isinstance(each, tuple) else each

    @property
    def carried_gradient(self) -> bool:
        """Whether the update was made and this visit had a part in it."""
        each = self.advantage
        informative = any(each) if isinstance(each, tuple) else each != 0
        return self.update is not None and informative


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A group with everything that is kept beside it."""

    step: int
    """The iteration; of an evaluation, the iterations made before it."""
    group: Group
    played: Played = Played.TRAINING
    greedy: bool = False
    """Whether each token was the likeliest; else they were sampled at the run's temperature."""
    texts: tuple[tuple[Text, ...], ...] = ()
    """For each tree, for each turn."""
    success: tuple[Mapping[int, bool], ...] = ()
    """For each tree, by leaf; leaves that say nothing of success (failed, merged, spared) are
    left out."""
    visits: tuple[tuple[Visit, ...], ...] = ()
    """For each tree, in the order of updates; empty for evaluations."""
    pieces: Mapping[int, str] = field(default_factory=dict[int, str])
    """The text of each token that occurs."""
    special: frozenset[int] = frozenset()
    """Tokens that stand outside the text: those of the chat template, and stops."""

    @property
    def pairs(self) -> Iterator[tuple[Tree, tuple[Text, ...]]]:
        """Each tree with its texts."""
        return zip(self.group.trees, self.texts, strict=True)


@dataclass(frozen=True)
class Scribe:
    """Knows what ids say."""

    decode: Callable[[Sequence[int]], str]
    special: Collection[int] = ()
    _pieces: dict[int, str] = field(default_factory=dict[int, str])

    def texts(self, group: Group) -> tuple[tuple[Text, ...], ...]:
        """What each turn of a group says."""
        return tuple(
            tuple(Text(self.decode(turn.observation), self.decode(turn.action)) for turn in t.turns)
            for t in group.trees
        )

    def pieces(self, group: Group) -> dict[int, str]:
        """The text of each token of a group."""
        ids = {i for tree in group.trees for t in tree.turns for i in (*t.fresh, *t.action)}
        for i in ids - self._pieces.keys():
            self._pieces[i] = self.decode([i])
        return {i: self._pieces[i] for i in sorted(ids)}


def success_of(group: Group, succeeded: Callable[[Tree, int], bool]) -> tuple[dict[int, bool], ...]:
    """What `StoredGroup.success` holds."""
    return tuple(
        {
            leaf: succeeded(tree, leaf)
            for leaf in tree.leaves
            if tree.turns[leaf].end not in UNJUDGED
        }
        for tree in group.trees
    )


def stored_file(run: Path, played: Played, step: int) -> Path:
    """Where a run keeps the groups of one iteration or evaluation."""
    return run / ROLLOUTS / f"{played}-{step:06d}{SUFFIX}"


def step_of(path: Path) -> int:
    """The iteration that a file's name says."""
    return int(path.name.removesuffix(SUFFIX).rpartition("-")[2])


def stored_files(run: Path, played: Played = Played.TRAINING) -> list[Path]:
    """The files of a run's iterations or evaluations, in order; none of a run that keeps none."""
    return sorted((run / ROLLOUTS).glob(f"{played}-*{SUFFIX}"), key=step_of)


def store_groups(path: Path, groups: Iterable[StoredGroup]) -> None:
    """Write a file, all or nothing."""
    lines = "".join(json.dumps(_to_record(g), ensure_ascii=False) + "\n" for g in groups)
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_bytes(zstandard.ZstdCompressor(level=LEVEL).compress(lines.encode()))
    unfinished.rename(path)


def stored_groups(
    path: Path, played: Played = Played.TRAINING, told: Told | None = None
) -> Iterator[StoredGroup]:
    """Read what a run keeps, iteration by iteration.

    Args:
        path: a run's directory, or one of its files.
        played: which files of a directory.
        told: told of each file that is damaged, of which the groups before that are read; None
            to refuse it.

    Raises:
        ValueError: there is nothing of the kind, or it is damaged and nobody is told.
    """
    files = [path] if path.is_file() else stored_files(path, played)
    if not files:
        raise ValueError(f"{path}: {ROLLOUTS}/{played}-*{SUFFIX} is needed, and there is none")
    for file in files:
        yield from _sound(_groups(file), told)


def stored_count(file: Path, told: Told | None = None) -> int:
    """How many groups a file holds; they are not read.

    Args:
        file: one of a run's.
        told: told if it is damaged, and the groups before that are counted; None to refuse it.

    Raises:
        ValueError: it is damaged and nobody is told.
    """
    return sum(1 for _ in _sound(_lines(file), told))


def _sound(each: Iterator[T], told: Told | None) -> Iterator[T]:
    """What comes before the damage."""
    number = 0
    try:
        for item in each:
            yield item
            number += 1
    except ValueError as cause:
        if told is None:
            raise
        told(f"{cause}; read are the {number} groups before that, what follows is left out")


def _groups(file: Path) -> Iterator[StoredGroup]:
    for number, line in enumerate(_lines(file), 1):
        try:
            group = _of_record(json.loads(line))
        except (KeyError, TypeError, ValueError) as cause:
            raise ValueError(f"{file}, line {number}, is no stored group: {cause!r}") from cause
        yield group


def _lines(file: Path) -> Iterator[str]:
    """Whole lines; a file that was cut short is one whose first bytes promise more than it has."""
    with file.open("rb") as packed:
        try:
            promised = zstandard.get_frame_parameters(packed.read(HEADER)).content_size
            packed.seek(0)
            reader = zstandard.ZstdDecompressor().stream_reader(packed)
            least = 0 if promised == zstandard.CONTENTSIZE_UNKNOWN else promised
            for line in io.TextIOWrapper(reader, encoding="utf-8"):
                if line.endswith("\n") or reader.tell() >= least:
                    yield line
            is_whole = reader.tell() >= least
        except (zstandard.ZstdError, UnicodeDecodeError) as cause:
            raise ValueError(f"{file} is damaged: {cause}") from cause
    if not is_whole:
        raise ValueError(f"{file} is damaged: it was cut short")


def _to_record(stored: StoredGroup) -> dict[str, Any]:
    record = record_of_group(stored.group)
    for turns, texts in zip(record["trees"], stored.texts, strict=False):
        for turn, text in zip(turns, texts, strict=True):
            turn["text"] = text._asdict()
    return record | {
        "step": stored.step,
        "played": stored.played,
        "greedy": stored.greedy,
        "success": stored.success,
        "visits": stored.visits,
        "pieces": stored.pieces,
        "special": sorted(stored.special & stored.pieces.keys()),
    }


def _of_record(record: dict[str, Any]) -> StoredGroup:
    return StoredGroup(
        step=record["step"],
        group=group_of_record(record),
        played=Played(record["played"]),
        greedy=record["greedy"],
        texts=tuple(
            tuple(Text(**turn["text"]) for turn in turns if "text" in turn)
            for turns in record["trees"]
        ),
        success=tuple({int(leaf): won for leaf, won in s.items()} for s in record["success"]),
        visits=tuple(tuple(_visit_of(*visit) for visit in tree) for tree in record["visits"]),
        pieces={int(i): piece for i, piece in record["pieces"].items()},
        special=frozenset(record["special"]),
    )


def _visit_of(
    turn: int,
    leaf: int,
    phase: int,
    update: int | None,
    advantage: float | list[float],
    *said: list[float],
) -> Visit:
    worth: Advantage = tuple(advantage) if isinstance(advantage, list) else advantage
    before, after, values = (tuple(each) for each in said)
    return Visit(turn, leaf, phase, update, worth, before, after, values)
