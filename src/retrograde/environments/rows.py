"""Tasks from a file or from Python: messages to begin with, and columns of any kind.

Files are jsonl or parquet. verl's layout (`prompt` with messages, `data_source`, `reward_model`,
`extra_info`) and TRL's (`prompt` as text or messages, other columns) are read as they are.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

from retrograde.data.message import Message
from retrograde.data.seeds import derived
from retrograde.environments.extras import extra

PROMPTS = ("messages", "prompt")
"""Columns that may hold what an episode begins with, in the order in which they are looked for."""
ROLES = get_args(Message.__annotations__["role"])
BATCH = 1024
"""Rows of a parquet file that are in memory twice."""
SHARES = 10_000
"""Steps in which a share of the rows is told."""


class RowError(ValueError):
    """A row is not what it should be; the row and the field are named."""


@dataclass(frozen=True, slots=True)
class Row:
    """A task: how it begins, and everything else that is known of it."""

    messages: tuple[Message, ...]
    columns: Mapping[str, Any]
    """All of the row, the messages too, as they were written."""
    where: str
    """File and line, for people."""
    identity: int
    """A hash of the row; equal rows have the same."""


def read_rows(path: Path, prompt: str = "", *, optional: bool = False) -> list[Row]:
    """Read and check every row of a file.

    Args:
        path: a `.jsonl` or `.parquet` file.
        prompt: the column that holds messages or text; `messages` or `prompt` if not said.
        optional: whether a row may have no such column, because something else begins its episode.

    Raises:
        ValueError: there is no such file, or a row is not what it should be; the row and the
            field are named.
    """
    readers = {".jsonl": _lines, ".parquet": _parquet}
    if path.suffix not in readers:
        raise RowError(f"{path}: a .jsonl or .parquet file is needed")
    if not path.is_file():
        raise RowError(f"{path}: there is no such file")
    return _checked(readers[path.suffix](path), str(path), prompt, optional=optional)


def rows_of(
    tasks: Iterable[Mapping[str, Any]], prompt: str = "", *, optional: bool = False
) -> list[Row]:
    """The same for rows made in Python."""
    numbered = ((f"task {number}", dict(task)) for number, task in enumerate(tasks))
    return _checked(numbered, "tasks", prompt, optional=optional)


def split_rows(rows: Sequence[Row], share: float) -> tuple[list[Row], list[Row]]:
    """Training rows and held-out rows: which a row is goes by its hash, not by its place.

    So equal rows are never in both, and a row stays where it is when others are added.

    Args:
        rows: all of them.
        share: of held-out rows, between 0 and 1. At least one row is held out.

    Raises:
        ValueError: nothing would be left to train on.
    """
    place = {row.identity: derived("split", row.identity) % SHARES for row in rows}
    bound = max(share * SHARES, min(place.values()) + 1)
    train = [row for row in rows if place[row.identity] >= bound]
    if not train:
        raise RowError(
            f"all {len(rows)} rows would be held out, and none left to train on; give more rows, "
            "or held-out rows of their own"
        )
    return train, [row for row in rows if place[row.identity] < bound]


def check_apart(train: Sequence[Row], test: Sequence[Row]) -> None:
    """Refuse held-out rows that are trained on.

    Raises:
        ValueError: a row is in both; both places are named.
    """
    trained = {row.identity: row.where for row in train}
    for row in test:
        if row.identity in trained:
            raise RowError(
                f"{row.where} is held out and is also trained on: {trained[row.identity]}"
            )


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            where = f"{path}, line {number}"
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as cause:
                raise RowError(f"{where}: it is not UTF-8: {cause}") from cause
            if not text.strip():
                continue
            try:
                yield where, json.loads(text)
            except (ValueError, RecursionError) as cause:
                raise RowError(f"{where}: it is not JSON: {cause}") from cause


def _parquet(path: Path) -> Iterator[tuple[str, Any]]:
    parquet = extra("pyarrow.parquet", "data")
    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=BATCH):
                for row in _of_batch(batch, path, number):
                    number += 1
                    yield f"{path}, row {number}", row
    except (OSError, extra("pyarrow", "data").ArrowException) as cause:
        raise RowError(f"{path}: it cannot be read as parquet: {cause}") from cause


def _of_batch(batch: Any, path: Path, before: int) -> list[Any]:
    try:
        return batch.to_pylist()
    except UnicodeDecodeError as cause:
        for i in range(batch.num_rows):
            for column in batch.schema.names:
                try:
                    batch.slice(i, 1).column(column).to_pylist()
                except UnicodeDecodeError:
                    where = f"{path}, row {before + i + 1}"
                    raise RowError(f"{where}, {column}: it is not UTF-8: {cause}") from cause
        raise


def _checked(
    found: Iterable[tuple[str, Any]], place: str, prompt: str, *, optional: bool
) -> list[Row]:
    rows: list[Row] = []
    first: Mapping[str, Any] | None = None
    for where, value in found:
        if not isinstance(value, dict):
            raise RowError(f"{where}: an object is needed, got a {type(value).__name__}")
        columns = cast("dict[str, Any]", value)
        first = columns if first is None else first
        if columns.keys() != first.keys():
            odd = sorted(columns.keys() ^ first.keys())
            raise RowError(
                f"{where}: columns differ from those of the first row ({', '.join(first)}): "
                f"only one of the two has {', '.join(odd)}"
            )
        said = json.dumps(columns, sort_keys=True, default=str)
        messages = _opening(columns, where, prompt, optional=optional)
        rows.append(Row(messages, columns, where, derived(said)))
    if not rows:
        raise RowError(f"{place}: it is empty; at least one row is needed")
    return rows


def _opening(
    columns: Mapping[str, Any], where: str, prompt: str, *, optional: bool
) -> tuple[Message, ...]:
    name = prompt or next((one for one in PROMPTS if one in columns), "")
    if name not in columns:
        if optional and not prompt:
            return ()
        looked_for, there_are = prompt or " or ".join(PROMPTS), ", ".join(columns) or "no columns"
        raise RowError(
            f"{where}: there is no column {looked_for} to begin with (there are {there_are}); "
            "the option `prompt` can name another"
        )
    value = columns[name]
    if isinstance(value, str):
        return (Message("user", _encodable(value, f"{where}, {name}"), lasting=True),)
    if not isinstance(value, list) or not value:
        raise RowError(f"{where}, {name}: text or a list of messages is needed, got {value!r:.80}")
    listed = enumerate(cast("list[Any]", value))
    messages = tuple(_message(one, f"{where}, {name}[{i}]") for i, one in listed)
    if messages[-1].role in ("system", "assistant"):
        last = messages[-1].role
        raise RowError(f"{where}, {name}: the last message must be the user's, got the {last}'s")
    if any(message.role == "system" for message in messages[1:]):
        raise RowError(f"{where}, {name}: only the first message may be the system's")
    return messages


def _message(value: Any, where: str) -> Message:
    if not isinstance(value, dict):
        raise RowError(f"{where}: a message is an object, got a {type(value).__name__}")
    found = cast("Mapping[str, Any]", value)
    role: Any = found.get("role")
    if role not in ROLES:
        raise RowError(f"{where}.role: needed is one of {', '.join(ROLES)}, got {role!r}")
    if found.get("tool_calls"):
        raise RowError(f"{where}.tool_calls: calls in a prompt cannot be rendered yet")
    name = found.get("name")
    content = _text(found.get("content"), f"{where}.content")
    return Message(role, content, lasting=True, name=name if isinstance(name, str) else None)


def _text(content: Any, where: str) -> str:
    if isinstance(content, str):
        return _encodable(content, where)
    if content is None:
        raise RowError(f"{where}: it is missing")
    if not isinstance(content, list):
        raise RowError(f"{where}: text is needed, got a {type(content).__name__}")
    texts: list[str] = []
    for i, part in enumerate(cast("list[Any]", content)):
        text = cast("Mapping[str, Any]", part).get("text") if isinstance(part, dict) else None
        if not isinstance(text, str):
            raise RowError(f"{where}[{i}]: only parts of text can be read, got {part!r:.80}")
        texts.append(_encodable(text, f"{where}[{i}]"))
    return "".join(texts)


def _encodable(text: str, where: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as cause:
        raise RowError(f"{where}: it holds what is no character: {cause}") from cause
    return text
