"""Game files: made where there is none yet, and kept."""

import os
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path

from platformdirs import user_cache_path

from retrograde.data.seeds import derived
from retrograde.environments.protocol import Split

GENERATION = "retrograde.environments.textworld.generation"
SEEDS = 2**31

_at_once = threading.BoundedSemaphore(os.cpu_count() or 1)
_being_made: defaultdict[Path, threading.Lock] = defaultdict(threading.Lock)


def game_file(kind: str, level: int, split: Split, index: int) -> Path:
    """Where the game with this index is; made first, which takes seconds, if it has to be.

    Raises:
        RuntimeError: it could not be made; TextWorld's words are in the message.
    """
    place = user_cache_path("retrograde") / "textworld" / version("textworld")
    path = place / f"{kind}-{level}-{split}-{index}.z8"
    with _being_made[path]:
        if not path.exists():
            seed = derived("textworld", kind, level, split, index) % SEEDS
            with _at_once:
                _make(kind, level, split, seed, path)
    return path


def _make(kind: str, level: int, split: Split, seed: int, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as draft:
        made = Path(draft) / path.name
        words = [kind, str(level), split, str(seed), str(made)]
        done = subprocess.run(  # noqa: S603 - our own module, with words of our own
            [sys.executable, "-W", "ignore", "-m", GENERATION, *words],
            env={**os.environ, "PYTHONHASHSEED": "0"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0 or not made.exists():
            raise RuntimeError(f"textworld: {' '.join(words)} was not made: {done.stderr[-2000:]}")
        # The game last: where it is, all is.
        for suffix in (".json", ".z8"):
            made.with_suffix(suffix).replace(path.with_suffix(suffix))
