"""Serves the page of some runs on this machine alone, while they train."""

import hashlib
import json
import secrets
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

from retrograde.report.page import figures, page, policy
from retrograde.report.shelf import Shelf

LOOPBACK = "127.0.0.1"


class Viewer(ThreadingHTTPServer):
    """Answers on loopback whoever knows the token, and only reads.

    No part of an address is ever a path: a group is found by numbers.
    """

    daemon_threads = True

    def __init__(self, runs: Sequence[Path], port: int = 0, token: str | None = None) -> None:
        """Bind a port.

        Args:
            runs: directories.
            port: 0 for any that is free.
            token: begins every address; None for one of 192 bits of chance.

        Raises:
            ValueError: a directory is no run's.
            OSError: the port is taken.
        """
        figures(runs)
        self.runs = runs
        self.shelf = Shelf(runs)
        self.token = secrets.token_urlsafe(24) if token is None else token
        super().__init__((LOOPBACK, port), _Handler)

    @property
    def address(self) -> str:
        """Where a browser finds the page."""
        return f"http://{LOOPBACK}:{self.server_port}/{self.token}/"

    @property
    def hosts(self) -> tuple[str, ...]:
        """What a browser may call this server: other names are another site's trick."""
        return tuple(f"{name}:{self.server_port}" for name in (LOOPBACK, "localhost"))

    def head(self) -> dict[str, Any]:
        """What the page says, all but the rollouts themselves."""
        entries = self.shelf.index()
        return figures(self.runs) | {"live": True, "groups": entries, "kept": len(entries)}

    def stamp(self) -> str:
        """Changes whenever a run does."""
        seen = hashlib.sha256()
        for run in self.runs:
            for path in (run / "metrics.jsonl", run / "rollouts"):
                if path.exists():
                    found = path.stat()
                    seen.update(f"{path} {found.st_mtime_ns} {found.st_size}\n".encode())
        return f'"{seen.hexdigest()[:32]}"'


class _Handler(BaseHTTPRequestHandler):
    timeout = 30

    @property
    def viewer(self) -> Viewer:
        """The server, by its own kind."""
        return cast("Viewer", self.server)

    def do_GET(self) -> None:
        """Answer with the page, its data, or a group."""
        if self.headers.get("Host") not in self.viewer.hosts:
            return self._refuse(HTTPStatus.MISDIRECTED_REQUEST)
        token, _, what = self.path.removeprefix("/").partition("/")
        if not secrets.compare_digest(token.encode(), self.viewer.token.encode()):
            return self._refuse(HTTPStatus.NOT_FOUND)
        if what == "":
            return self._answer(page(self.viewer.head()), "text/html")
        if what == "head.json":
            return self._head()
        key = what.removeprefix("group/")
        try:
            group = self.viewer.shelf.group(key) if key != what else None
        except KeyError:
            group = None
        if group is None:
            return self._refuse(HTTPStatus.NOT_FOUND)
        return self._answer(json.dumps(group), "application/json")

    do_HEAD = do_GET

    def _head(self) -> None:
        stamp = self.viewer.stamp()  # before it is read: what changes meanwhile is read again
        if self.headers.get("If-None-Match") == stamp:
            return self._answer("", "application/json", HTTPStatus.NOT_MODIFIED, stamp)
        head = json.dumps(self.viewer.head(), separators=(",", ":"))
        return self._answer(head, "application/json", stamp=stamp)

    def _answer(
        self, text: str, kind: str, status: HTTPStatus = HTTPStatus.OK, stamp: str | None = None
    ) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", f"{policy()}; frame-ancestors 'none'")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Cache-Control", "no-store")
        if stamp is not None:
            self.send_header("ETag", stamp)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _refuse(self, status: HTTPStatus) -> None:
        self._answer(f"{status.value} {status.phrase}\n", "text/plain", status)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's names
        """Say nothing: addresses hold the token."""
