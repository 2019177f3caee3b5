"""Starts the feed servers of a project, and starts them again when they end.

A feed server is a process that only serves feeds, from the project's folder and the stores (`app/feed_serving.py`). All
of them listen on one port. Each reports every few seconds what it has counted; one that no longer does is replaced. A
server ends with the service, since its input is a pipe that ends then.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from headrace.connect.files import open_private
from headrace.connect.shared_port import is_loopback, reserve_port
from headrace.model.errors import UsageError
from headrace.model.push_events import FeedServerEnded
from headrace.site.feeds.reads import FeedReads, ReadsOfFeed
from headrace.site.folder import Folder
from headrace.site.journal import Journal
from headrace.site.process import module_command
from headrace.site.troubles import FEED_SERVER, Troubles

log = logging.getLogger("headrace.feeds")

MODULE = "headrace.doors.api.feed_server"
LOG_FILE = "feed_servers.log"
BACKOFF_S = (0.2, 1.0, 2.0, 5.0, 15.0)
LASTED_S = 30.0
"""A server that ran for this long was well: its end counts as its first failure."""
REPORT_EVERY_S = 5.0
START_WITHIN_S = 60.0
SILENT_S = 20.0
"""A server that reports nothing for so long, or not even once, hangs, and is replaced."""
LOOK_EVERY_S = 0.25
END_WITHIN_S = 5.0
MOST_SERVERS = 64
HINT = f"see .headrace/{LOG_FILE}; the service keeps trying"


@dataclass(frozen=True, slots=True)
class FeedServerSettings:
    """How many servers there are, and where: port 0 is any that is free. Files are for TLS, in PEM."""

    count: int
    host: str = "127.0.0.1"
    port: int = 0
    certificate: str | None = None
    key: str | None = None

    def check(self) -> None:
        """Raises `UsageError` for what would not be safe, or cannot work."""
        if not 1 <= self.count <= MOST_SERVERS:
            raise UsageError(f"there can be 1 to {MOST_SERVERS} feed servers, not {self.count}")
        if (self.certificate is None) is not (self.key is None):
            raise UsageError("TLS needs a certificate and its key", "give both --feed-cert and --feed-key")
        for file in (self.certificate, self.key):
            if file is not None and not Path(file).is_file():
                raise UsageError(f'there is no file "{file}"', "--feed-cert and --feed-key name files in PEM")
        if self.certificate is None and not is_loopback(self.host):
            what = f'feed servers at "{self.host}" can be reached from elsewhere, where tokens need TLS'
            raise UsageError(what, "give --feed-cert and --feed-key, or leave out --feed-host")

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.certificate is None else 'https'}://{host}:{self.port}"


class FeedServerState(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"


@dataclass(frozen=True, slots=True)
class FeedServerTold:
    """`pid` is None while none runs in its place; `restarts` is how often another took its place."""

    pid: int | None
    port: int
    state: FeedServerState
    restarts: int
    streams: int


@dataclass(slots=True)
class _Server:
    """A place for a server, and the process in it. Times are in seconds of the clock that nobody sets."""

    number: int
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    heard_at: float | None = None
    retry_at: float = 0.0
    failures: int = 0
    restarts: int = 0
    streams: int = 0


@dataclass(slots=True)
class FeedServers:
    """One thread starts and ends processes; what they report comes from others. `home` is the folder of the project, if
    the feeds are those of a site that has a folder of its own.
    """

    folder: Folder
    settings: FeedServerSettings
    reads: FeedReads
    journal: Journal
    troubles: Troubles
    home: Folder | None = None
    _servers: list[_Server] = field(default_factory=list)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Keeps servers until it is left. Raises `UsageError` if the port cannot be had."""
        self.settings.check()
        with reserve_port(self.settings.host, self.settings.port) as held:
            found: int = held.getsockname()[1]
            # Held without listening, so that the port stays ours while no server runs.
            self.settings = _at_port(self.settings, found)
            self._servers = [_Server(number) for number in range(self.settings.count)]
            end = threading.Event()
            thread = threading.Thread(target=self._watch, args=(end,), name="feed servers", daemon=True)
            thread.start()
            try:
                yield
            finally:
                end.set()
                thread.join(END_WITHIN_S + 5.0)

    def tell(self) -> tuple[FeedServerTold, ...]:
        return tuple(self._tell_one(server) for server in self._servers)

    def hear(self, pid: int, report: Mapping[str, Any]) -> bool:
        """What a server has counted since its last report; False if it is none of ours."""
        with self._turn:
            server = next((one for one in self._servers if one.process is not None and one.process.pid == pid), None)
            if server is None:
                return False
            server.heard_at, server.streams = time.monotonic(), int(report["streams"])
        for feed, counted in report["reads"].items():
            self.reads.add(feed, ReadsOfFeed(counted["counts"], tuple(counted["seconds"])))
        key, trouble = f"{FEED_SERVER}{server.number + 1} reading", report.get("trouble")
        if trouble is None:
            self.troubles.clear(key)
        else:
            self.troubles.report(key, f"feed server {pid} may serve an earlier plan: {trouble}", HINT)
        return True

    def _tell_one(self, server: _Server) -> FeedServerTold:
        process, heard = server.process, server.heard_at is not None
        state = FeedServerState.RUNNING if heard else FeedServerState.STARTING
        if process is None:
            state = FeedServerState.RESTARTING if server.failures else FeedServerState.STARTING
        pid = None if process is None else process.pid
        return FeedServerTold(pid, self.settings.port, state, server.restarts, server.streams)

    def _watch(self, end: threading.Event) -> None:
        try:
            while True:
                with self._turn:
                    for server in self._servers:
                        self._look_at(server)
                if end.wait(LOOK_EVERY_S):
                    return
        finally:
            self._end_all()

    def _look_at(self, server: _Server) -> None:
        now, process = time.monotonic(), server.process
        if process is None:
            if now >= server.retry_at:
                self._start(server)
            return
        if process.poll() is None:
            silent_s = now - (server.heard_at or server.started_at)
            if silent_s > (START_WITHIN_S if server.heard_at is None else SILENT_S):
                process.kill()
                process.wait()
                self._note_end(server, process.pid, f"it reported nothing for {silent_s:.0f} s")
            elif now - server.started_at > LASTED_S:
                self._note_well(server)
            return
        status = process.returncode
        self._note_end(
            server, process.pid, f"it was killed (signal {-status})" if status < 0 else f"it ended with status {status}"
        )

    def _start(self, server: _Server) -> None:
        server.started_at, server.heard_at, server.streams = time.monotonic(), None, 0
        try:
            server.process = self._spawn()
        except OSError as error:
            self._note_end(server, 0, f"it could not be started: {error}")

    def _note_end(self, server: _Server, pid: int, reason: str) -> None:
        _close_pipe(server.process)
        lasted = time.monotonic() - server.started_at > LASTED_S
        server.failures = 1 if lasted else server.failures + 1
        server.restarts += 1
        server.process, server.streams = None, 0
        backoff_s = BACKOFF_S[min(server.failures, len(BACKOFF_S)) - 1]
        server.retry_at = time.monotonic() + backoff_s
        self.journal.emit(FeedServerEnded(time.time_ns() // 1000, pid, backoff_s, reason=reason))
        if server.failures > 1:
            what = f"feed server {server.number + 1} of {len(self._servers)} does not stay: {reason}"
            self.troubles.report(f"{FEED_SERVER}{server.number + 1}", what, HINT)

    def _note_well(self, server: _Server) -> None:
        server.failures = 0
        self.troubles.clear(f"{FEED_SERVER}{server.number + 1}")

    def _spawn(self) -> subprocess.Popen[bytes]:
        with open_private(self.folder.root / LOG_FILE, os.O_APPEND) as output:
            process = subprocess.Popen(
                module_command(MODULE), stdin=subprocess.PIPE, stdout=output, stderr=output, umask=0o077
            )
        home = self.home or self.folder
        folders = {"project": str(self.folder.project.absolute()), "home": str(home.project.absolute())}
        said = {**folders, **asdict(self.settings)}
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended already, and is looked at next
            process.stdin.write(json.dumps(said).encode() + b"\n")
            process.stdin.flush()
        return process

    def _end_all(self) -> None:
        processes = [server.process for server in self._servers if server.process is not None]
        for process in processes:
            process.terminate()
        until = time.monotonic() + END_WITHIN_S
        for process in processes:
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            _close_pipe(process)


def _at_port(settings: FeedServerSettings, port: int) -> FeedServerSettings:
    return FeedServerSettings(settings.count, settings.host, port, settings.certificate, settings.key)


def _close_pipe(process: subprocess.Popen[bytes] | None) -> None:
    if process is not None and process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
