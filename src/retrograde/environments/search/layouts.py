"""Rows of question sets, as they are published, read into questions, answers and passages.

A layout is known by the fields that only it has. What a row needs and lacks is said with the
file, the number of the row (from 1) and the field.
"""

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, cast

from retrograde.environments.extras import extra
from retrograde.environments.search.retriever import Passage

Layout = Literal["auto", "plain", "hotpotqa", "2wiki", "musique", "nq", "triviaqa", "popqa"]
Row = Mapping[str, Any]
SUFFIXES = (".jsonl", ".json", ".parquet", ".tsv", ".csv")
DATA_EXTRA = "data"
LONGEST_FIELD = 1 << 27
"""Characters in a field of a table; Python's own limit is 131072."""


class RowError(ValueError):
    """A row of a file that cannot be used."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its right answers, any of which will do, and what came with it."""

    question: str
    golds: tuple[str, ...]
    passages: tuple[Passage, ...] = ()


def rows_of(path: Path) -> Iterator[Row]:
    """The rows of a file.

    Raises:
        ValueError: it is of no known kind, or not what its name says.
        OSError: it cannot be read.
    """
    if path.suffix not in SUFFIXES:
        raise ValueError(f"{path}: a file that ends in {', '.join(SUFFIXES)} is needed")
    if path.suffix == ".parquet":
        table: Any = extra("pyarrow.parquet", DATA_EXTRA).read_table(path)
        yield from cast("list[Row]", table.to_pylist())
    elif path.suffix in (".tsv", ".csv"):
        csv.field_size_limit(LONGEST_FIELD)
        with path.open(encoding="utf-8", newline="") as file:
            yield from csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ",")
    elif path.suffix == ".json":
        yield from _rows_of_json(path)
    else:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield _object(_parsed(line, f"{path}, row {number}"), f"{path}, row {number}")


def _rows_of_json(path: Path) -> Iterator[Row]:
    """An array, or an object whose `Data` is one, which is how TriviaQA comes."""
    whole = _parsed(path.read_text(encoding="utf-8"), str(path))
    rows: Any = cast("Row", whole).get("Data") if isinstance(whole, dict) else whole
    if not isinstance(rows, list):
        raise RowError(f"{path}: an array of rows is needed, or an object with one as its Data")
    for number, row in enumerate(cast("list[Any]", rows), start=1):
        yield _object(row, f"{path}, row {number}")


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as cause:
        raise RowError(f"{where}: not JSON: {cause}") from cause


def _object(row: Any, where: str) -> Row:
    if not isinstance(row, dict):
        raise RowError(f"{where}: an object is needed, got {type(row).__name__}")
    return cast("Row", row)


def _text(row: Row, *names: str) -> str:
    """A field that has to hold words; the first of these names that there is."""
    name = next((name for name in names if name in row), names[0])
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise RowError(f"{name}: words are needed, got {value!r}")
    return value.strip()


def _texts(row: Row, name: str) -> tuple[str, ...]:
    """A field that has to hold a list of words, or that list as JSON text."""
    value: Any = row.get(name)
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = _parsed(value, name)
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, Sequence) or not words:
        raise RowError(f"{name}: a list of words is needed, got {value!r}")
    for word in cast("Sequence[Any]", words):
        if not isinstance(word, str) or not word.strip():
            raise RowError(f"{name}: words are needed in the list, got {word!r}")
    return tuple(cast("str", word).strip() for word in cast("Sequence[Any]", words))


def _paragraphs(row: Row) -> tuple[Passage, ...]:
    """HotpotQA's `context`: pairs of title and sentences, or the two lists apart."""
    context: Any = row.get("context")
    if isinstance(context, str):
        context = _parsed(context, "context")
    if isinstance(context, dict):
        apart = cast("dict[str, Any]", context)
        sentences: Any = apart.get("sentences", apart.get("content"))
        context = list(zip(apart.get("title", ()), sentences or (), strict=False))
    if not isinstance(context, list):
        raise RowError(f"context: pairs of title and sentences are needed, got {context!r}")
    found: list[Passage] = []
    for pair in cast("list[Any]", context):
        try:
            title, sentences = pair
            found.append(Passage(" ".join(s.strip() for s in sentences).strip(), str(title)))
        except (TypeError, ValueError, AttributeError) as cause:
            raise RowError(f"context: a title and sentences are needed, got {pair!r}") from cause
    return tuple(passage for passage in found if passage.text)


def _plain(row: Row) -> Asked:
    answers = next((n for n in ("answers", "golden_answers") if n in row), "answer")
    return Asked(_text(row, "question"), _texts(row, answers))


def _hotpotqa(row: Row) -> Asked:
    others = _texts(row, "answer_aliases") if row.get("answer_aliases") else ()
    golds = (_text(row, "answer"), *others)
    return Asked(_text(row, "question"), golds, _paragraphs(row))


def _musique(row: Row) -> Asked | None:
    if row.get("answerable") is False:
        return None
    aliases = _texts(row, "answer_aliases") if row.get("answer_aliases") else ()
    paragraphs: Any = row.get("paragraphs")
    if not isinstance(paragraphs, list):
        raise RowError(f"paragraphs: a list is needed, got {paragraphs!r}")
    found = tuple(
        Passage(_text(paragraph, "paragraph_text"), _text(paragraph, "title"))
        for paragraph in cast("list[Row]", paragraphs)
    )
    return Asked(_text(row, "question"), (_text(row, "answer"), *aliases), found)


def _triviaqa(row: Row) -> Asked:
    name = "Answer" if "Answer" in row else "answer"
    answer: Any = row.get(name)
    if not isinstance(answer, dict):
        raise RowError(f"{name}: an object is needed, got {answer!r}")
    inside = cast("Row", answer)
    aliases = next((n for n in ("Aliases", "aliases") if inside.get(n)), None)
    others = _texts(inside, aliases) if aliases else ()
    golds = dict.fromkeys((_text(inside, "Value", "value"), *others))
    return Asked(_text(row, "Question", "question"), tuple(golds))


def _popqa(row: Row) -> Asked:
    return Asked(_text(row, "question"), _texts(row, "possible_answers"))


LAYOUTS: Mapping[str, Callable[[Row], Asked | None]] = MappingProxyType(
    {
        "plain": _plain,
        "hotpotqa": _hotpotqa,
        "2wiki": _hotpotqa,
        "musique": _musique,
        "nq": _plain,
        "triviaqa": _triviaqa,
        "popqa": _popqa,
    }
)
"""How a row of each layout is read; None for a row that is left out, as MuSiQue's questions
without an answer are. NQ is NQ-open; FlashRAG's `golden_answers` are read as plain."""


def layout_of(row: Row) -> str:
    """The layout that a row has, by its fields."""
    fields = set(row)
    answer = row.get("answer", row.get("Answer"))
    if "possible_answers" in fields:
        return "popqa"
    if "paragraphs" in fields:
        return "musique"
    if "context" in fields:
        return "2wiki" if "evidences" in fields else "hotpotqa"
    if isinstance(answer, dict):
        return "triviaqa"
    return "nq" if isinstance(answer, list) else "plain"


def asked_in(path: Path, layout: Layout) -> tuple[Asked, ...]:
    """The questions of a file, in its order.

    Raises:
        ValueError: the file holds none, or a row of it cannot be used.
        OSError: it cannot be read.
    """
    found: list[Asked] = []
    for number, row in enumerate(rows_of(path), start=1):
        name = layout_of(row) if layout == "auto" else layout
        try:
            asked = LAYOUTS[name](row)
        except RowError as cause:
            raise RowError(f"{path}, row {number} (read as {name}): {cause}") from cause
        if asked is not None:
            found.append(asked)
    if not found:
        raise RowError(f"{path}: it holds no question")
    return tuple(found)


def passages_in(path: Path) -> tuple[Passage, ...]:
    """The passages of a file: rows with `contents`, title first, or with `text` and a `title`.

    Raises:
        ValueError: the file holds none, or a row of it cannot be used.
        OSError: it cannot be read.
    """
    found: list[Passage] = []
    for number, row in enumerate(rows_of(path), start=1):
        try:
            found.append(passage_of(row))
        except RowError as cause:
            raise RowError(f"{path}, row {number}: {cause}") from cause
    if not found:
        raise RowError(f"{path}: it holds no passage")
    return tuple(found)


def passage_of(row: Row) -> Passage:
    """A passage as Search-R1 keeps it, `contents` with the title as first line, or in two fields.

    Raises:
        RowError: it holds no words.
    """
    if "contents" in row:
        title, _, text = _text(row, "contents").partition("\n")
        title = title.strip().strip('"')
        return Passage(text.strip(), title) if text.strip() else Passage(title)
    title = row.get("title")
    return Passage(_text(row, "text"), title.strip() if isinstance(title, str) else "")
