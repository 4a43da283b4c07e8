"""All groups of some runs, found by key, read when they are asked for."""

import base64
import gzip
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from retrograde.data.stored import (
    Played,
    StoredGroup,
    Told,
    stored_count,
    stored_file,
    stored_files,
    stored_groups,
)
from retrograde.report.payload import group_payload, index_entry
from retrograde.report.recorded import untold

KEY = re.compile(r"([0-9]{1,4})-(step|evaluation)-([0-9]{1,12})-([0-9]{1,6})")
"""Run, what it was played for, iteration, number in the file."""


AROUND = 80
"""Bytes of the element around a packed group."""
Wanted = tuple[bool, str]
"""Whether greedily, and the task."""


class _Sample:
    """Groups that are taken until there is no room."""

    def __init__(self, room: int) -> None:
        """Begin with none."""
        self.room = room
        self.is_full = False
        self.entries: list[dict[str, Any]] = []
        self.packed: dict[str, str] = {}

    def add(self, run: int, number: int, stored: StoredGroup, keep_free: int = 0) -> None:
        """Take a group if it is new and there is room for it."""
        entry = entry_of(run, number, stored)
        if entry["key"] in self.packed:
            return
        text = pack(group_payload(stored))
        taken = len(text) + len(json.dumps(entry)) + AROUND
        if taken > self.room - keep_free:
            self.is_full = not keep_free
            return
        self.entries.append(entry)
        self.packed[entry["key"]] = text
        self.room -= taken


class Shelf:
    """Remembers what each file holds until the file changes."""

    def __init__(self, runs: Sequence[Path], told: Told = untold) -> None:
        """Bind runs, in the order of their numbers.

        Args:
            runs: directories.
            told: told once of each file that is damaged, of which the groups before that are read.
        """
        self.runs = runs
        self._told = told
        self._damaged = set[str]()
        self._known: dict[Path, tuple[tuple[int, int], list[dict[str, Any]]]] = {}

    def files(self) -> Iterator[tuple[int, Played, Path]]:
        """Every file, run by run."""
        for number, run in enumerate(self.runs):
            for played in Played:
                for path in stored_files(run, played):
                    yield number, played, path

    def index(self) -> list[dict[str, Any]]:
        """What the page's list says, group by group."""
        found: list[dict[str, Any]] = []
        for number, played, path in self.files():
            try:
                found += self._entries(number, played, path)
            except FileNotFoundError:  # the run was resumed from an earlier state meanwhile
                continue
        return found

    def _entries(self, number: int, played: Played, path: Path) -> list[dict[str, Any]]:
        seen = path.stat()
        stamp = (seen.st_mtime_ns, seen.st_size)
        known = self._known.get(path)
        if known is None or known[0] != stamp:
            entries = [
                entry_of(number, i, stored) for i, stored in enumerate(self._groups(path, played))
            ]
            known = self._known[path] = (stamp, entries)
        return known[1]

    def count(self) -> int:
        """How many groups there are."""
        return sum(stored_count(path, self._note) for _, _, path in self.files())

    def _groups(self, path: Path, played: Played) -> Iterator[StoredGroup]:
        return stored_groups(path, played, self._note)

    def _note(self, damage: str) -> None:
        if damage not in self._damaged:
            self._damaged.add(damage)
            self._told(damage)

    def group(self, key: str) -> dict[str, Any]:
        """A group by its key.

        Raises:
            KeyError: there is none.
        """
        match = KEY.fullmatch(key)
        if match is None or int(match[1]) >= len(self.runs):
            raise KeyError(key)
        played = Played(match[2])
        path = stored_file(self.runs[int(match[1])], played, int(match[3]))
        if path.is_file():
            for i, stored in enumerate(self._groups(path, played)):
                if i == int(match[4]):
                    return group_payload(stored)
        raise KeyError(key)

    def sampled(
        self, most_bytes: int, wanted: Sequence[Sequence[Wanted]] = ()
    ) -> tuple[list[dict[str, Any]], dict[str, str]]:
        """As many groups as there is room for: the entries of a list, and each packed.

        First how held-out tasks were played that changed, at a third of the room at most. Then
        training, from the whole length of a run: the first and last iterations before those
        between. Then what else was played of evaluations.

        Args:
            most_bytes: of all that is packed, with the entries.
            wanted: for each run, tasks whose first and last evaluation matter, the first most.
        """
        sample = _Sample(most_bytes)
        for number, i, stored in self._changed(wanted):
            sample.add(number, i, stored, keep_free=most_bytes * 2 // 3)
        for played in Played:
            for number, path in self._spread(played):
                if sample.is_full:
                    break
                for i, stored in enumerate(self._groups(path, played)):
                    sample.add(number, i, stored)
        return sorted(sample.entries, key=_order), sample.packed

    def _changed(
        self, wanted: Sequence[Sequence[Wanted]]
    ) -> Iterator[tuple[int, int, StoredGroup]]:
        """The rollouts before and after of tasks that changed, of all runs in turn."""
        found: list[tuple[int, int, int, StoredGroup]] = []
        for number, tasks in enumerate(wanted):
            files = stored_files(self.runs[number], Played.EVALUATION)
            ranks = {task: rank for rank, task in enumerate(tasks)}
            for path in dict.fromkeys((*files[:1], *files[-1:])):
                for i, stored in enumerate(self._groups(path, Played.EVALUATION)):
                    rank = ranks.get((stored.greedy, stored.group.task))
                    if rank is not None:
                        found.append((rank, number, i, stored))
        found.sort(key=lambda each: each[:2])
        for _, number, i, stored in found:
            yield number, i, stored

    def _spread(self, played: Played) -> list[tuple[int, Path]]:
        """Files of all runs, so that the first few are from everywhere."""
        ranked: list[tuple[int, int, Path]] = []
        for number, run in enumerate(self.runs):
            files = stored_files(run, played)
            for rank, i in enumerate(spread(len(files))):
                ranked.append((rank, number, files[i]))
        ranked.sort(key=lambda entry: entry[:2])
        return [(number, path) for _, number, path in ranked]


def spread(count: int) -> list[int]:
    """Numbers below `count`, ordered so that any first few lie evenly: the ends, then the middle.

    Example:
        >>> spread(5)
        [0, 4, 2, 1, 3]
    """
    if count == 0:
        return []
    order = dict.fromkeys((0, count - 1))
    gaps = 1
    while len(order) < count:
        gaps *= 2
        order |= dict.fromkeys(round(i * (count - 1) / gaps) for i in range(gaps))
    return list(order)


def entry_of(run: int, number: int, stored: StoredGroup) -> dict[str, Any]:
    """An entry of the list, with the key its group is found by."""
    key = f"{run}-{stored.played}-{stored.step}-{number}"
    return {"key": key, "run": run} | index_entry(stored)


def pack(record: dict[str, Any]) -> str:
    """Plain data as text that needs no escaping anywhere: compressed, in base64."""
    raw = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()
    return base64.b64encode(gzip.compress(raw, 9, mtime=0)).decode()


def _order(entry: dict[str, Any]) -> tuple[int, bool, int, int]:
    number = int(entry["key"].rpartition("-")[2])
    return entry["run"], entry["played"] != "training", entry["step"], number
