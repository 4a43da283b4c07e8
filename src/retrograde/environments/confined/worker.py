"""A Python process that confines itself: told things on its standard input, heard on its output."""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

VARIABLES = {
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "TZ": "UTC",
}
"""All the environment variables that a worker has."""
FLAGS = ("-u", "-s", "-P", "-B", "-X", "utf8")
"""Unbuffered, UTF-8, and nothing imported from the user's folders or written as bytecode."""
ROOT = str(Path(__file__).parents[3])
"""Where this package is imported from."""
CHUNK = 1 << 16


class Worker:
    """A process with pipes, a session of its own and next to no environment variables."""

    def __init__(self, module: str, paths: Iterable[str] = ()) -> None:
        """Start one.

        Args:
            module: what runs in it: its `serve`.
            paths: where it imports from, besides Python's own places.
        """
        script = (
            f"import sys; sys.path[:0] = {[ROOT, *paths]!r}; from {module} import serve; serve()"
        )
        self._process = subprocess.Popen(  # noqa: S603 - this very interpreter, no shell
            [sys.executable, *FLAGS, "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=VARIABLES,
            cwd="/",
            start_new_session=True,
        )
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("a process was started with pipes and has none")
        self._in, self._out = self._process.stdin, self._process.stdout
        self._unread = bytearray()

    def tell(self, what: dict[str, Any]) -> None:
        """Write one line of JSON to it; nothing happens if it has ended."""
        with contextlib.suppress(BrokenPipeError):
            self._in.write(json.dumps(what).encode() + b"\n")
            self._in.flush()

    def line(self, seconds: float) -> bytes:
        """Its next line.

        Raises:
            TimeoutError: it did not write one in time.
            EOFError: it ended; the message is what it wrote last.
        """
        deadline = time.monotonic() + seconds
        while b"\n" not in self._unread:
            if not self._read(deadline):
                raise EOFError(self._unread.decode(errors="replace").strip())
        line, _, rest = bytes(self._unread).partition(b"\n")
        self._unread = bytearray(rest)
        return line

    def rest(self, seconds: float, most: int) -> bytes:
        """All that it writes until its end, or until there is more than `most` bytes of it.

        Raises:
            TimeoutError: it has not ended in time; `heard` has what it wrote.
        """
        deadline = time.monotonic() + seconds
        while len(self._unread) <= most and self._read(deadline):
            pass
        if len(self._unread) <= most:
            self._wait(deadline)
        return self.heard

    @property
    def heard(self) -> bytes:
        """What it wrote and nobody asked for yet."""
        return bytes(self._unread)

    def _read(self, deadline: float) -> bool:
        """Read what is there, or wait for it; False at the end."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._out, selectors.EVENT_READ)
            left = deadline - time.monotonic()
            if left <= 0 or not selector.select(left):
                raise TimeoutError
        chunk = os.read(self._out.fileno(), CHUNK)
        self._unread += chunk
        return bool(chunk)

    def _wait(self, deadline: float) -> None:
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired as late:
            raise TimeoutError from late

    def kill(self) -> None:
        """End it and its group now; whoever reads from it hears the end."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> int:
        """End it, if it has not ended, and let go of everything; its exit code, or -signal."""
        self.kill()
        for pipe in (self._in, self._out):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        return self._process.wait()
