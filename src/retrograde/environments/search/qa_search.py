"""The user's own questions, over the user's own passages or a retriever that runs elsewhere."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from retrograde.data.seeds import derived
from retrograde.environments.extras import extra
from retrograde.environments.protocol import Split
from retrograde.environments.search.answers import normalised
from retrograde.environments.search.episode import SearchEnvironment, SearchEpisode, answered
from retrograde.environments.search.layouts import Asked, Layout, asked_in, passages_in
from retrograde.environments.search.remote import RemoteRetriever
from retrograde.environments.search.retriever import EXTRA, Bm25, Retriever
from retrograde.environments.tasks import parts_of_task

TEST_SHARE = 10
"""Where there is no file of test questions, one in so many is one, by a hash of its words."""


@dataclass(frozen=True)
class QaSearch(SearchEnvironment):
    """Your own questions, over your own passages or a retriever of Search-R1's kind."""

    name = "qa_search"

    max_new_tokens: int = 256
    """Words that a turn may take, thought included; of a pretrained model, half its tokens."""
    questions: str = ""
    """File of questions: jsonl, json, parquet, tsv or csv."""
    test_questions: str | None = None
    """File of held-out questions; None takes a tenth of the others for it."""
    passages: str | None = None
    """File of passages; None, and no retriever, takes the paragraphs that come with questions."""
    retriever: str | None = None
    """URL of a server that finds passages, such as http://127.0.0.1:8000/retrieve."""
    retriever_seconds: float = 10.0
    """Time limit of one request to it; there are three tries."""
    layout: Layout = "auto"
    """How the rows of questions are laid out; auto goes by the fields of each row."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.questions:
            raise ValueError("questions: a file is needed (--environment.questions FILE)")
        if self.passages and self.retriever:
            raise ValueError("passages and retriever: one of the two is needed, got both")
        if self.retriever and not self.retriever.startswith(("http://", "https://")):
            raise ValueError(f"retriever: a URL with http is needed, got {self.retriever!r}")
        if self.retriever_seconds <= 0:
            raise ValueError(
                f"retriever_seconds: more than 0 is needed, got {self.retriever_seconds}"
            )
        if self.retriever:
            extra("httpx", EXTRA)
        for split in ("train", "test"):  # read now, so that what is wrong is said before a run
            if not self._asked(split):
                raise ValueError(
                    f"{self.questions}: no question is left to {split} on; give more of them, or "
                    "a file of test questions (--environment.test-questions FILE)"
                )
        self.finder()

    def _asked(self, split: Split) -> tuple[Asked, ...]:
        held = None if self.test_questions is None else _stamped(self.test_questions)
        return _split(_stamped(self.questions), held, self.layout, split)

    def finder(self) -> Retriever:
        """What finds passages."""
        if self.retriever:
            return RemoteRetriever(self.retriever, self.retriever_seconds)
        if self.passages:
            return _index(_stamped(self.passages))
        return _index_of_questions(
            tuple(_stamped(name) for name in (self.questions, self.test_questions) if name),
            self.layout,
        )

    def size(self, split: Split) -> int:
        """As many tasks as there are questions."""
        return len(self._asked(split))

    def asked(self, task: str) -> Asked:
        """What a task asks.

        Raises:
            ValueError: there is no such task.
        """
        split, index = parts_of_task(task, self.name)
        asked = self._asked("test" if split == "test" else "train")
        if int(index) >= len(asked):
            raise ValueError(f"{self.name} has {len(asked)} {split} tasks: no {task}")
        return asked[int(index)]

    def gold(self, task: str) -> str:
        """The first of the right answers."""
        return answered(self.asked(task).golds[0])

    async def open(self, task: str, seed: int) -> SearchEpisode:  # noqa: ARG002 - no chance to draw
        """Start an episode."""
        asked = self.asked(task)
        return SearchEpisode(task, asked.question, asked.golds, self, self.finder())


Stamped = tuple[str, int, int]
"""A file, with size and time of its last change, so that a changed one is read again."""


def _stamped(name: str) -> Stamped:
    path = Path(name)
    if not path.is_file():
        raise ValueError(f"{name}: no such file")
    seen = path.stat()
    return name, seen.st_size, seen.st_mtime_ns


@lru_cache(maxsize=8)
def _read(file: Stamped, layout: Layout) -> tuple[Asked, ...]:
    return asked_in(Path(file[0]), layout)


@lru_cache(maxsize=8)
def _split(
    file: Stamped, test_file: Stamped | None, layout: Layout, split: Split
) -> tuple[Asked, ...]:
    """Questions of a split. What is asked in both files is a test question."""
    asked = _read(file, layout)
    if test_file is None:
        return tuple(
            one
            for one in asked
            if (derived("qa_search", normalised(one.question)) % TEST_SHARE == 0)
            == (split == "test")
        )
    test = _read(test_file, layout)
    if split == "test":
        return test
    held = {normalised(one.question) for one in test}
    return tuple(one for one in asked if normalised(one.question) not in held)


@lru_cache(maxsize=2)
def _index(file: Stamped) -> Bm25:
    return Bm25(passages_in(Path(file[0])))


@lru_cache(maxsize=2)
def _index_of_questions(files: tuple[Stamped, ...], layout: Layout) -> Bm25:
    found = dict.fromkeys(
        passage for file in files for asked in _read(file, layout) for passage in asked.passages
    )
    if not found:
        raise ValueError(
            f"{files[0][0]}: its questions come without paragraphs: give a file of passages "
            "(--environment.passages FILE) or the URL of a server (--environment.retriever URL)"
        )
    return Bm25(tuple(found))
