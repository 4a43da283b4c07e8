"""The viewer tells a run to whoever knows its token, on this machine, and changes nothing."""

import http.client
import json
import re
import socket
import threading
from contextlib import contextmanager

import pytest

from retrograde.report.page import policy
from retrograde.report.server import Viewer

from .runs import add_step, made, metrics


@contextmanager
def served(*runs):
    viewer = Viewer(runs)
    thread = threading.Thread(target=viewer.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield viewer
    finally:
        viewer.shutdown()
        thread.join()
        viewer.server_close()


@pytest.fixture
def run(tmp_path):
    return made(tmp_path / "run")


@pytest.fixture
def viewer(run):
    with served(run) as viewer:
        yield viewer


def asked(viewer, path, method="GET", **headers):
    """What the server answers, its path taken as it is."""
    connection = http.client.HTTPConnection("127.0.0.1", viewer.server_port, timeout=10)
    try:
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


def test_it_serves_the_page_its_data_and_each_group(viewer):
    answer, body = asked(viewer, f"/{viewer.token}/")
    assert answer.status == 200
    assert b'id="head"' in body
    assert answer.headers["Content-Security-Policy"] == f"{policy()}; frame-ancestors 'none'"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    head = json.loads(asked(viewer, f"/{viewer.token}/head.json")[1])
    assert len(head["groups"]) == 14
    for entry in head["groups"]:
        answer, body = asked(viewer, f"/{viewer.token}/group/{entry['key']}")
        assert json.loads(body)["task"] == entry["task"]
    assert asked(viewer, f"/{viewer.token}/", "HEAD")[1] == b""


@pytest.mark.parametrize("path", ["/", "/head.json", "/{wrong}/", "/{wrong}/head.json", "//", ""])
def test_without_the_token_there_is_nothing(viewer, path):
    path = path.format(wrong="A" * len(viewer.token)) or "*"
    answer, body = asked(viewer, path)
    assert answer.status == 404
    assert viewer.token.encode() not in body


@pytest.mark.parametrize(
    "path",
    [
        "../manifest.json", "group/../../manifest.json", "%2e%2e/manifest.json", "manifest.json",
        "group//etc/passwd", "group/0-step-1-0/../../../manifest.json", "group/0-step-1-0.jsonl",
        "group/0-step-..-0", "group/9-step-1-0", "group/0-step-1-99", "group/0-step-77-0",
        "group/0-step-1-0?x", "group/", "group/0-step-1-0%00", "rollouts/step-000001.jsonl.zst",
        "group/-1-step-1-0", "group/0-stepp-1-0",
    ],
)  # fmt: skip
def test_no_address_leads_out_of_what_it_serves(viewer, path):
    answer, body = asked(viewer, f"/{viewer.token}/{path}")
    assert answer.status == 404
    assert b"settings" not in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_it_only_reads(viewer, run, method):
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    answer, _ = asked(viewer, f"/{viewer.token}/head.json", method)
    assert answer.status == 501
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_another_sites_name_for_this_machine_is_refused(viewer):
    path = f"/{viewer.token}/head.json"
    assert asked(viewer, path, Host="evil.example")[0].status == 421
    assert asked(viewer, path, Host=f"localhost:{viewer.server_port}")[0].status == 200


def test_it_listens_on_loopback_alone(viewer):
    assert viewer.server_address[0] == "127.0.0.1"
    own = socket.gethostbyname(socket.gethostname())
    if not own.startswith("127."):
        with pytest.raises(OSError, match=r"."):
            socket.create_connection((own, viewer.server_port), timeout=2).close()


def test_tokens_are_long_and_never_the_same(run):
    with served(run) as one, served(run) as other:
        assert one.token != other.token
        assert re.fullmatch(r"[\w-]{32}", one.token)


def test_what_did_not_change_is_not_sent_again(viewer, run):
    path = f"/{viewer.token}/head.json"
    stamp = asked(viewer, path)[0].headers["ETag"]
    answer, body = asked(viewer, path, If_None_Match=stamp)
    assert (answer.status, body) == (304, b"")
    with (run / "metrics.jsonl").open("a") as out:
        out.write(json.dumps(metrics(5)) + "\n")
    add_step(run, 5)
    answer, body = asked(viewer, path, If_None_Match=stamp)
    assert answer.status == 200
    head = json.loads(body)
    assert head["runs"][0]["curves"]["step"][-1] == 5
    assert len(head["groups"]) == 16


def test_rollouts_that_a_resumed_run_removed_are_gone(viewer, run):
    head = f"/{viewer.token}/head.json"
    assert len(json.loads(asked(viewer, head)[1])["groups"]) == 14
    (run / "rollouts" / "step-000004.jsonl.zst").unlink()
    assert len(json.loads(asked(viewer, head)[1])["groups"]) == 12
    assert asked(viewer, f"/{viewer.token}/group/0-step-4-0")[0].status == 404
