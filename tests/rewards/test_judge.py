"""A judge behind a real server on this machine."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from retrograde.rewards.judge import Judge, JudgeError, transcript

from .records import record

pytest.importorskip("httpx")


class Server:
    """Answers with what it is told to, one answer after another, and keeps what it was asked."""

    def __init__(self, answers):
        self.answers, self.asked, self.headers, self.paths = list(answers), [], [], []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                length = int(self.headers["Content-Length"])
                outer.asked.append(json.loads(self.rfile.read(length)))
                outer.headers.append(dict(self.headers))
                outer.paths.append(self.path)
                status, body, *headers = outer.answers.pop(0)
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def says(text):
    return 200, {"choices": [{"message": {"role": "assistant", "content": text}}]}


RECORD = record("search Ada friend", "answer Ben", gold="answer Ben")


async def judged(*answers, **options):
    with Server(answers) as server:
        judge = Judge(server.url, "small", wait_seconds=0.01, **options)
        try:
            return await judge(RECORD), server
        except JudgeError as error:
            return error, server


async def test_it_is_shown_the_rollout_and_its_score_is_the_reward(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sesame")
    value, server = await judged(says("Well done, 9 lives.\nScore: 7"))
    assert value == 0.7
    (asked,) = server.asked
    assert server.paths == ["/v1/chat/completions"]
    assert server.headers[0]["Authorization"] == "Bearer sesame"
    assert (asked["model"], asked["temperature"]) == ("small", 0.0)
    (message,) = asked["messages"]
    assert transcript(RECORD) in message["content"]
    assert "The right answer: answer Ben" in message["content"]


def test_a_rollout_reads_in_order():
    assert transcript(RECORD) == (
        "[user] Who is Ada's friend?\n\n[assistant] search Ada friend\n\n"
        "[tool] result 0\n\n[assistant] answer Ben"
    )


async def test_no_key_is_sent_if_there_is_none(monkeypatch):
    monkeypatch.delenv("JUDGE_KEY", raising=False)
    _, server = await judged(says("score: 10"), key="JUDGE_KEY")
    assert "Authorization" not in server.headers[0]


async def test_the_last_score_counts_and_may_have_another_scale():
    value, _ = await judged(says("Score: 1, no: **Score:** 2.5"), highest=5.0)
    assert value == 0.5


async def test_a_busy_server_is_asked_again():
    busy = (503, b"busy"), (429, b"slowly", ("Retry-After", "0"))
    value, server = await judged(*busy, says("Score: 10"))
    assert value == 1.0
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("answers", "options", "words"),
    [
        ([(503, b"busy")] * 2, {"tries": 2}, "did not answer 2 requests; the last: status 503"),
        ([(401, b"who are you?")], {}, "status 401: who are you"),
        ([says("I cannot say.")], {}, "small gave no score"),
        ([says("Score: 11")], {}, "gave 11, which is not 0 to 10"),
        ([says("Score: -1")], {}, "gave -1, which is not 0 to 10"),
        ([says(None)], {}, "answered with no words: None"),
        ([(200, b"<html>")], {}, "answered with no message"),
        ([(200, {"choices": []})], {}, "answered with no message"),
    ],
)
async def test_no_score_is_no_reward_of_zero(answers, options, words):
    error, server = await judged(*answers, **options)
    assert isinstance(error, JudgeError)
    assert words in str(error)
    assert len(server.asked) == len(answers)  # what will not go better is not tried again


async def test_a_server_that_is_not_there():
    with Server([]) as server:
        url = server.url
    with pytest.raises(JudgeError, match="did not answer 2 requests; the last: ConnectError"):
        await Judge(url, "small", tries=2, wait_seconds=0.01)(RECORD)


async def test_a_server_that_hangs():
    hung = threading.Event()

    class Slow(list):
        def pop(self, _):
            hung.wait(30)
            return says("Score: 1")

    with Server([]) as server:
        server.answers = Slow()
        judge = Judge(server.url, "small", tries=1, seconds=0.1)
        with pytest.raises(JudgeError, match="ReadTimeout"):
            await judge(RECORD)
        hung.set()


def test_options_out_of_range_are_refused():
    with pytest.raises(ValueError, match="http:// or https:// is needed, got 'localhost'"):
        Judge("localhost", "small")
    with pytest.raises(ValueError, match="tries: at least 1"):
        Judge("http://localhost", "small", tries=0)
    with pytest.raises(ValueError, match="seconds: above 0"):
        Judge("http://localhost", "small", seconds=0)
