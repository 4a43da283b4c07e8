"""`retrograde doctor` looks at this machine; each finding can be good, doubtful and bad."""

import json
import sys
from email.message import Message

import pytest

from retrograde.cli.doctor_machine import (
    disk_finding,
    extras_finding,
    memory_finding,
    packages_finding,
    parity_finding,
    python_finding,
    write_finding,
)
from retrograde.data.report import Verdict

OF_A_MACHINE = {
    "python", "packages", "devices", "memory", "disk runs", "disk cache", "write runs",
    "write cache", "extras", "log-probabilities",
}  # fmt: skip


def test_it_examines_the_machine_it_runs_on(retrograde, place):
    said = retrograde("doctor", "--json")
    (report,) = json.loads(said.out)["reports"]
    assert {finding["name"] for finding in report["findings"]} == OF_A_MACHINE
    assert set(report["facts"]) == {"retrograde", "platform", "torch", "transformers"}
    verdicts = {finding["name"]: finding["verdict"] for finding in report["findings"]}
    for name in ("python", "packages", "write runs", "log-probabilities"):
        assert verdicts[name] == "proven", report
    assert said.code == 0 or "failed" in verdicts.values()
    assert not list(place.iterdir())  # nothing is left behind


def test_it_says_so_in_words(retrograde):
    said = retrograde("doctor")
    assert "python: " + ".".join(map(str, sys.version_info[:3])) in said.out
    assert "sampling and learning differ by at most" in said.out


@pytest.mark.parametrize("what", [["--tasks", "3"], ["--nonsense"]])
def test_what_belongs_to_nothing_is_refused(retrograde, what):
    said = retrograde("doctor", *what)
    assert said.code == 2
    assert what[0] in said.err


def has(finding, verdict):
    assert finding.verdict is verdict, finding
    assert ("remedy" in finding.text) is (verdict is not Verdict.PROVEN), finding


def test_pythons():
    has(python_finding((3, 11, 0)), Verdict.PROVEN)
    has(python_finding((3, 10, 9)), Verdict.FAILED)
    has(python_finding((3, 14, 0)), Verdict.FAILED)


def test_packages():
    has(packages_finding(["torch>=2.9", 'nothing-of-that-name; extra == "dev"']), Verdict.PROVEN)
    has(packages_finding(["nothing-of-that-name>=1"]), Verdict.FAILED)
    old = packages_finding(["numpy>=999.1"])
    has(old, Verdict.FAILED)
    assert "999.1 or later is needed" in old.text
    assert "pip install 'numpy>=999.1'" in old.text


def test_memory_and_disk(tmp_path):
    for bytes_free, verdict in ((9e9, "PROVEN"), (1e9, "NOTE"), (1e8, "FAILED")):
        has(memory_finding(bytes_free), Verdict[verdict])
        has(disk_finding("runs", bytes_free, tmp_path), Verdict[verdict])
    assert memory_finding(None).verdict is Verdict.NOTE


def test_write_rights(tmp_path, monkeypatch):
    has(write_finding("write runs", tmp_path / "not" / "made", "elsewhere"), Verdict.PROVEN)

    def refused(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    # Whoever runs the tests may be allowed everything.
    monkeypatch.setattr("retrograde.cli.doctor_machine.tempfile.TemporaryFile", refused)
    finding = write_finding("write runs", tmp_path, "elsewhere")
    has(finding, Verdict.FAILED)
    assert "Permission denied" in finding.text


def test_missing_extras_come_with_the_command(monkeypatch):
    wanted = ['nothing-of-that-name>=1; extra == "lora"', 'numpy>=1; extra == "search"']
    about = Message()
    about["Provides-Extra"] = "lora"
    about["Provides-Extra"] = "search"
    monkeypatch.setattr("retrograde.cli.doctor_machine.requires", lambda name: wanted)
    monkeypatch.setattr("retrograde.cli.doctor_machine.metadata", lambda name: about)
    finding = extras_finding()
    assert finding.verdict is Verdict.NOTE
    assert "not there: lora   pip install 'retrograde[lora]'" in finding.text
    assert "search" in finding.text.splitlines()[0]


def test_parity():
    has(parity_finding(1e-6), Verdict.PROVEN)
    has(parity_finding(0.3), Verdict.FAILED)
