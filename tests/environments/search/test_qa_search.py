"""The user's own questions: over passages, over paragraphs, over a server that may misbehave."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from retrograde.data.offer import Offer
from retrograde.data.tree import End
from retrograde.environments.search import remote
from retrograde.environments.search.episode import answered
from retrograde.environments.search.qa_search import QaSearch
from retrograde.environments.search.remote import RemoteRetriever, RetrieverError
from retrograde.environments.search.retriever import Passage

LOOK = "<think> so </think> <search> capital of Peru </search>"
FOUND = {
    "result": [
        [
            {"document": {"id": "3", "contents": '"Lima"\nLima is the capital.'}, "score": 2.5},
            {"document": {"id": "4", "contents": '"Cusco"\nCusco is not.'}, "score": 1.5},
            {"document": {"id": "5", "contents": '"Quito"\nQuito neither.'}, "score": 0.5},
        ]
    ]
}


def written(path, rows):
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return str(path)


@pytest.fixture
def files(tmp_path):
    questions = [{"question": f"What is number {i}?", "answer": f"n{i}"} for i in range(60)]
    questions.append({"question": "What is the capital of Peru?", "answers": ["Lima", "LIM"]})
    passages = [
        {"title": "Lima", "text": "Lima is the capital of Peru."},
        {"title": "Cusco", "text": "Cusco was the capital of the Inca."},
    ]
    return (
        written(tmp_path / "questions.jsonl", questions),
        written(tmp_path / "passages.jsonl", passages),
    )


def task_of(environment, question):
    return next(
        f"{split}-{i}"
        for split in ("train", "test")
        for i in range(environment.size(split))
        if environment.asked(f"{split}-{i}").question == question
    )


async def test_a_question_over_passages_worked_by_hand(files):
    questions, passages = files
    environment = QaSearch(questions=questions, passages=passages, topk=2)
    task = task_of(environment, "What is the capital of Peru?")
    episode = await environment.open(task, 0)
    assert episode.opening()[1].content == "What is the capital of Peru?"
    said = await episode.act(LOOK)
    assert said.messages[0].content == (
        "<information> (1) Lima: Lima is the capital of Peru.\n"
        "(2) Cusco: Cusco was the capital of the Inca. </information>"
    )
    assert said.score is None
    said = await episode.act(answered("lim"))
    assert (said.reward, said.end, said.score) == (1.0, End.FINISHED, None)
    assert environment.offers == {Offer.GOLD}
    assert environment.gold(task) == answered("Lima")
    with pytest.raises(LookupError):
        episode.demonstrate(0)


def test_splits_share_no_question(files, tmp_path):
    questions, passages = files
    environment = QaSearch(questions=questions, passages=passages)
    sizes = environment.size("train"), environment.size("test")
    assert sum(sizes) == 61
    assert 1 <= sizes[1] < 20
    held = [{"question": "what is NUMBER 3", "answer": "x"}, {"question": "New?", "answer": "y"}]
    own = QaSearch(
        questions=questions,
        passages=passages,
        test_questions=written(tmp_path / "held.jsonl", held),
    )
    asked = [own.asked(own.task("train", i)).question for i in range(own.size("train"))]
    assert (own.size("test"), len(asked)) == (2, 60)  # number 3 is asked in both: a test question
    assert "What is number 3?" not in asked


async def test_paragraphs_that_come_with_questions_are_passages(tmp_path):
    rows = [
        {"question": f"Q{i}?", "answer": "a", "context": [["Lima", ["Lima is in Peru."]]]}
        for i in range(30)
    ]
    environment = QaSearch(questions=written(tmp_path / "hotpot.jsonl", rows))
    episode = await environment.open("train-0", 0)
    said = await episode.act(LOOK)
    assert said.messages[0].content == "<information> (1) Lima: Lima is in Peru. </information>"


async def test_a_file_that_changes_is_read_again(tmp_path):
    rows = [{"question": f"Q{i}?", "answer": "a"} for i in range(30)]
    questions = written(tmp_path / "q.jsonl", rows)
    passages = written(tmp_path / "p.jsonl", [{"text": "Lima"}])
    environment = QaSearch(questions=questions, passages=passages)
    assert environment.size("train") + environment.size("test") == 30
    written(tmp_path / "q.jsonl", rows[:20])
    assert environment.size("train") + environment.size("test") == 20


def test_bad_options_are_refused_before_a_run(files, tmp_path):
    questions, passages = files
    few = written(tmp_path / "few.jsonl", [{"question": "Q?", "answer": "a"}])
    bad = written(tmp_path / "bad.jsonl", [{"question": "Q?", "answer": "a"}, {"question": "R?"}])
    for options, problem in (
        ({}, "questions: a file is needed"),
        ({"questions": "none.jsonl"}, "none.jsonl: no such file"),
        ({"questions": questions}, "come without paragraphs"),
        ({"questions": questions, "passages": "none.jsonl"}, "none.jsonl: no such file"),
        ({"questions": questions, "passages": passages, "retriever": "http://x"}, "got both"),
        ({"questions": questions, "retriever": "localhost"}, "a URL with http is needed"),
        ({"questions": bad, "passages": passages}, "bad.jsonl, row 2 .* answer"),
        ({"questions": few, "passages": passages}, "no question is left to (train|test) on"),
        ({"questions": questions, "passages": passages, "layout": "musique"}, "row 1 .*paragraphs"),
        (
            {"questions": questions, "retriever": "http://x", "retriever_seconds": 0},
            "retriever_seconds: more than 0",
        ),
    ):
        with pytest.raises(ValueError, match=problem):
            QaSearch(**options)


class Server(BaseHTTPRequestHandler):
    """A retriever whose manner is the path it is asked under."""

    asked: list = []  # noqa: RUF012 - what all requests of a test said

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append((self.path, json.loads(body)))
        tries = sum(path == self.path for path, _ in self.asked)
        if self.path == "/hangs":
            time.sleep(1.0)
        status = 500 if self.path == "/fails" or (self.path == "/recovers" and tries < 3) else 200
        status = 404 if self.path == "/nowhere" else status
        told = {
            "/rubbish": b"<html> no </html>",
            "/list": b"[1, 2]",
            "/empty": b'{"result": []}',
            "/wordless": b'{"result": [[{"document": {"id": 1}}]]}',
            "/none": b'{"result": [[]]}',
            "/scoreless": json.dumps({"result": [[{"contents": "Lima\nIn Peru."}]]}).encode(),
            "/binary": b"\xff\xfe\x00",
        }.get(self.path, json.dumps(FOUND).encode())
        try:
            self.send_response(status)
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)
        except (BrokenPipeError, ConnectionResetError):
            pass  # who asked has given up

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(remote, "PAUSE_SECONDS", 0.01)
    Server.asked = []
    running = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=running.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{running.server_port}"
    running.shutdown()
    running.server_close()
    thread.join()


async def test_a_server_is_asked_as_search_r1_asks(server, files):
    environment = QaSearch(questions=files[0], retriever=f"{server}/retrieve", topk=2)
    episode = await environment.open("train-0", 0)
    said = await episode.act(LOOK)
    assert said.messages[0].content == (
        "<information> (1) Lima: Lima is the capital.\n(2) Cusco: Cusco is not. </information>"
    )
    assert Server.asked == [
        ("/retrieve", {"queries": ["capital of Peru"], "topk": 2, "return_scores": True})
    ]


async def test_a_server_may_leave_out_scores_or_find_nothing(server):
    found = await RemoteRetriever(f"{server}/scoreless", 5.0).search("q", 3)
    assert found == (Passage("In Peru.", "Lima"),)
    assert await RemoteRetriever(f"{server}/none", 5.0).search("q", 3) == ()


async def test_a_server_that_recovers_is_asked_again(server):
    found = await RemoteRetriever(f"{server}/recovers", 5.0).search("q", 3)
    assert len(found) == 3
    assert len(Server.asked) == 3


@pytest.mark.parametrize(
    ("path", "seconds", "problem", "tries"),
    [
        ("fails", 5.0, "3 tries, the last: status 500", 3),
        ("hangs", 0.2, "3 tries, the last: no answer within 0.2 s", 3),
        ("nowhere", 5.0, "got status 404", 1),
        ("rubbish", 5.0, "needed is an answer such as .*got status 200: '<html> no </html>'", 1),
        ("list", 5.0, "needed is an answer", 1),
        ("empty", 5.0, "needed is an answer", 1),
        ("wordless", 5.0, "needed is an answer .*text: words are needed", 1),
        ("binary", 5.0, "needed is an answer", 1),
    ],
)
async def test_a_server_that_misbehaves_is_named_with_what_it_did(
    server, path, seconds, problem, tries
):
    with pytest.raises(RetrieverError, match=f"retriever {server}/{path}: .*{problem}|{problem}"):
        await RemoteRetriever(f"{server}/{path}", seconds).search("q", 3)
    assert len(Server.asked) == tries


async def test_a_server_that_is_not_there_costs_a_rollout_and_says_so(files, server):
    gone = server.rpartition(":")[0] + ":9"
    environment = QaSearch(questions=files[0], retriever=gone)
    episode = await environment.open("train-0", 0)
    with pytest.raises(RetrieverError, match="3 tries, the last: ConnectError"):
        await episode.act(LOOK)
