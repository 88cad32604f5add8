"""The report of runs that go on, served to this machine only and kept current."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from procrustean.base.errors import ConfigError, ProcrusteanError, RunError
from procrustean.records.copies import without_copies
from procrustean.records.finding_runs import CONFIG_FILE, RESULT_FILE, runs_in
from procrustean.records.ongoing_record import EPOCHS_FILE, Ongoing, load_ongoing
from procrustean.records.run_record import Result, load_result
from procrustean.report.html_page import html_page, page_policy
from procrustean.report.page_data import page_data

HOST = "127.0.0.1"


class Watched:
    """What the page of some runs shows, made anew when their files have changed.

    Args:
        paths: run directories, or folders of run directories, in which new ones may turn up.
        rest: how long to leave the runs alone after the page was made, in multiples of the time that took: the
            training needs the machine.
        say: told, once each, of runs that are left out because their files are damaged.

    Raises:
        RunError: when there is no run, or none that can be read.
    """

    def __init__(
        self, paths: Sequence[Path], *, rest: float = 10, say: Callable[[str], None] = lambda text: None
    ) -> None:
        self.paths, self.rest, self._say = tuple(paths), rest, say
        self._said: set[str] = set()
        self._resting_until = 0.0
        self._lock = threading.Lock()
        self._signature: tuple[Any, ...] | None = None
        self._data: dict[str, Any] = {}
        self._version = ""
        self.current()

    def current(self) -> tuple[dict[str, Any], str]:
        """The data of the page, and a text that is another one whenever they are others."""
        with self._lock:
            started = time.monotonic()
            if started < self._resting_until:
                return self._data, self._version
            runs = [run for path in self.paths for run in runs_in(path)]
            signature = tuple(_state(run) for run in runs)
            if signature != self._signature:
                self._data = _data_of(runs)
                # The time at which the page is made is no news.
                content = {name: value for name, value in self._data.items() if name != "made"}
                self._version = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
                self._signature = signature
                self._resting_until = time.monotonic() + self.rest * (time.monotonic() - started)
                self._tell_left_out()
            return self._data, self._version

    def _tell_left_out(self) -> None:
        for text in self._data["leftOut"]:
            if text not in self._said:
                self._said.add(text)
                self._say(f"left out: {text}")


def serve(watched: Watched, port: int, started: Callable[[str], None]) -> None:
    """Answer until Ctrl-C.

    Args:
        watched: what to show.
        port: port on this machine; 0 for any that is free.
        started: told the address.
    """
    with make_server(watched, port) as server:
        started(f"http://{HOST}:{server.server_port}/")
        with suppress(KeyboardInterrupt):
            server.serve_forever(poll_interval=0.2)


def make_server(watched: Watched, port: int) -> ThreadingHTTPServer:
    """A server for the page and its data, and nothing else; reachable from this machine only."""

    class Handler(_PageHandler):
        source = watched

    try:
        server = ThreadingHTTPServer((HOST, port), Handler)
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"port {port} cannot be used ({error}); choose another --port, or --port 0 for any that is free"
        ) from error
    server.daemon_threads = True
    return server


class _PageHandler(BaseHTTPRequestHandler):
    source: Watched
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        # A page elsewhere that has a name of its own point to this machine must not read the data.
        known = {f"{name}:{self.server.server_port}" for name in (HOST, "localhost")}  # type: ignore[attr-defined]
        if self.headers.get("Host") not in known:
            return self._answer(HTTPStatus.FORBIDDEN, "text/plain", "this server answers to its own address only")
        if self.path not in ("/", "/data.json"):
            return self._answer(HTTPStatus.NOT_FOUND, "text/plain", "there is nothing here but the report at /")
        try:
            data, version = self.source.current()
        except ProcrusteanError as error:
            return self._answer(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", str(error))
        if self.path == "/":
            return self._answer(HTTPStatus.OK, "text/html", html_page(data, live=True))
        if self.headers.get("If-None-Match") == version:
            return self._answer(HTTPStatus.NOT_MODIFIED, "application/json", "", version)
        return self._answer(HTTPStatus.OK, "application/json", json.dumps({**data, "live": True}), version)

    def _answer(self, status: HTTPStatus, kind: str, text: str, version: str | None = None) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", page_policy(live=True))
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        if version is not None:
            self.send_header("ETag", version)
        self.end_headers()
        self.wfile.write(body)

    def version_string(self) -> str:
        return "procrustean"

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 (the name it has in the base class)
        """Requests are no news for the terminal."""


def _state(run: Path) -> tuple[Any, ...]:
    """What changes when the files of a run do."""
    files = [run] if run.is_file() else [run / name for name in (CONFIG_FILE, EPOCHS_FILE, RESULT_FILE)]
    found: list[Any] = [str(run)]
    for file in files:
        try:
            status = file.stat()
        except FileNotFoundError:
            found.append(None)
        else:
            found.append((status.st_mtime_ns, status.st_size))
    return tuple(found)


def _data_of(runs: Sequence[Path]) -> dict[str, Any]:
    results: list[Result] = []
    ongoing: list[Ongoing] = []
    left_out: list[str] = []
    for run in runs:
        try:
            if run.is_file() or (run / RESULT_FILE).exists():
                results.append(load_result(run))
            else:
                ongoing.append(load_ongoing(run))
        except RunError as error:  # one damaged run does not keep the others from being followed
            left_out.append(str(error))
    if left_out and not results and not ongoing:
        raise RunError("; ".join(left_out))
    # Asked for again and again, so that what was passed over is not said each time.
    data = page_data(without_copies(results, lambda text: None), ongoing=ongoing)
    return {**data, "leftOut": left_out}
