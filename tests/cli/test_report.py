"""`retrograde report` and `retrograde view` from the command line."""

import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from tests.report.runs import made

from retrograde.cli.main import main


@pytest.fixture
def run(tmp_path):
    return made(tmp_path / "run", steps=2)


def test_a_report_is_written_beside_the_run_or_where_one_says(run, tmp_path, capsys):
    assert main(["report", str(run)]) == 0
    assert (run / "report.html").read_text().startswith("<!doctype html>")
    assert str(run / "report.html") in capsys.readouterr().out
    assert main(["report", str(run), str(run), "--out", str(tmp_path / "two.html")]) == 0
    assert (tmp_path / "two.html").exists()
    assert sorted(path.name for path in run.iterdir() if path.name.startswith(".")) == []


def test_what_was_cut_short_is_left_out_and_said(run, capsys):
    assert main(["report", str(run)]) == 0
    assert capsys.readouterr().err == ""
    metrics, rollouts = run / "metrics.jsonl", run / "rollouts" / "step-000002.jsonl.zst"
    metrics.write_text(metrics.read_text()[:-9])
    rollouts.write_bytes(rollouts.read_bytes()[:-20])
    assert main(["report", str(run)]) == 0
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"notice: {metrics} is damaged: left out is line 3 of 3"
    assert second.startswith(f"notice: {rollouts} is damaged: it was cut short; read are the 0 ")


@pytest.mark.parametrize("command", ["report", "view"])
def test_a_manifest_that_was_cut_short_is_bad_input(run, capsys, command):
    manifest = run / "manifest.json"
    manifest.write_text(manifest.read_text()[:50])
    assert main([command, str(run)]) == 2
    assert capsys.readouterr().err.startswith(f"error: {manifest} is damaged: ")
    assert not (run / "report.html").exists()


@pytest.mark.parametrize("command", ["report", "view"])
def test_what_is_no_run_is_bad_input(tmp_path, capsys, command):
    assert main([command, str(tmp_path / "nothing")]) == 2
    assert "no run to look at" in capsys.readouterr().err


def test_a_report_needs_a_place(run, tmp_path, capsys):
    assert main(["report", str(run), "--out", str(tmp_path / "no" / "x.html")]) == 2
    assert "is no directory" in capsys.readouterr().err


@pytest.mark.parametrize("port", ["-1", "65536"])
def test_a_port_is_a_port(run, capsys, port):
    assert main(["view", str(run), "--port", port]) == 2
    assert "--port: 0 to 65535 is needed" in capsys.readouterr().err


def test_the_viewer_prints_its_address_serves_and_ends(run):
    command = [sys.executable, "-m", "retrograde.cli.main", "view", str(run)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            address = process.stdout.readline().decode().strip()
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{32}/", address)
            with urllib.request.urlopen(address, timeout=20) as answer:  # noqa: S310 - ours
                assert b'id="head"' in answer.read()
            with pytest.raises(urllib.error.HTTPError, match="404") as refused:
                urllib.request.urlopen(address[:-2] + "/", timeout=20)  # noqa: S310 - ours
            refused.value.close()
            # Not SIGINT, which tests that run in the background are deaf to.
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
            assert b"ended" in process.stderr.read()
        finally:
            process.kill()
