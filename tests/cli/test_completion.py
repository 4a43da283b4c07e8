"""What `retrograde completion` prints is tried in a real shell."""

import shutil
import subprocess

import pytest

from retrograde.algorithms.registry import ALGORITHMS
from retrograde.cli.completion import SHELLS
from retrograde.cli.main import COMMANDS

ASKED = """
source "$1"; shift
complete -p retrograde > /dev/null || exit 3
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
"$(complete -p retrograde | sed -E 's/.*-F ([^ ]+).*/\\1/')"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def completed(retrograde, place):
    script = place / "completion.bash"
    said = retrograde("completion", "bash")
    assert (said.code, said.err) == (0, "")
    script.write_text(said.out)
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")

    def complete(*words):
        command = [bash, "--norc", "-c", ASKED, "bash", str(script), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout.split()

    return complete


def test_bash_completes_commands_options_and_names(completed, place):
    (place / "runs").mkdir()
    assert set(completed("retrograde", "")) >= set(COMMANDS)
    assert completed("retrograde", "comple") == ["completion"]
    assert completed("retrograde", "train", "--algorithm.sib") == ["--algorithm.siblings"]
    assert completed("retrograde", "train", "--algorithm.no-sc") == ["--algorithm.no-scale"]
    assert set(completed("retrograde", "train", "--algorithm", "")) == set(ALGORITHMS)
    assert completed("retrograde", "train", "--environment", "geo") == ["geo_search"]
    assert completed("retrograde", "train", "--out", "ru") == ["runs"]
    assert completed("retrograde", "compare", "--budget-kind", "t") == ["tokens", "turns"]
    assert completed("retrograde", "train", "--nonsense") == []


@pytest.mark.parametrize("shell", SHELLS)
def test_there_is_a_script_for_each_shell(retrograde, shell):
    said = retrograde("completion", shell)
    assert said.code == 0
    for command in COMMANDS:
        assert command in said.out
    found = shutil.which(shell)
    if found is not None:
        subprocess.run([found, "-n"], input=said.out, text=True, check=True)


def test_no_other_shell_is_known(retrograde):
    said = retrograde("completion", "tcsh")
    assert said.code == 2
    assert "tcsh" in said.err
