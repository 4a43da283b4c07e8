"""The page in the package is what its source in `ui/` builds."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from retrograde.report.page import asset

pytestmark = pytest.mark.slow
UI = Path(__file__).parents[2] / "ui"


def test_the_vendored_page_is_what_its_source_builds(tmp_path):
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    node = shutil.which("node", path=path)
    if node is None or not (UI / "node_modules").is_dir():
        pytest.skip("Node.js or ui/node_modules is missing; `make setup-ui`")
    checked = subprocess.run([node, "node_modules/typescript/bin/tsc", "--noEmit"],
                             cwd=UI, capture_output=True, text=True, check=False)  # fmt: skip
    assert checked.returncode == 0, checked.stdout
    subprocess.run([node, "build.mjs", str(tmp_path)], cwd=UI, check=True)
    for name in ("app.js", "app.css"):
        assert (tmp_path / name).read_text(encoding="utf-8") == asset(name), "run `make ui`"
