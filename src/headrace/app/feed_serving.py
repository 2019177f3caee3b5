"""Serves the feeds of a project in a process of its own, and has the service know what was read.

All that such a process needs is in the project's folder. Whatever it knows can be lost: what runs is read again, and of
what it has counted only the last seconds are not told yet.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from headrace.connect.machine import allow_open_files
from headrace.connect.service_client import ask
from headrace.connect.shared_port import share_port
from headrace.declare.variables import project_environment
from headrace.model.errors import ConnectError, HeadraceError
from headrace.run.feeds.changes import FeedChanges, StreamPlace
from headrace.site.feeds.apps import FeedApps, FeedCaller
from headrace.site.feeds.door import FeedDoor
from headrace.site.feeds.pages import FeedPages, HiddenKind, read_micros, tell_micros
from headrace.site.feeds.posting import check_names
from headrace.site.feeds.reads import BUCKETS_S, PagesTimed, ReadsOfFeed
from headrace.site.feeds.served import ServedFeeds
from headrace.site.feeds.servers import REPORT_EVERY_S, FeedServerSettings
from headrace.site.folder import Folder
from headrace.site.process import read_process
from headrace.site.service import clock_now

__all__ = [
    "BUCKETS_S",
    "FeedCaller",
    "FeedChanges",
    "FeedDoor",
    "FeedServerSettings",
    "FeedServing",
    "HiddenKind",
    "PagesTimed",
    "StreamPlace",
    "allow_open_files",
    "check_names",
    "open_feed_serving",
    "read_micros",
    "share_port",
    "tell_micros",
]

log = logging.getLogger("headrace.feeds")

ANSWER_WITHIN_S = 5.0
MOST_PENDING = 200_000
"""Consumers of whom reads are kept while the service does not answer; then counts are given up."""


@dataclass(slots=True)
class FeedServing:
    """`streams` says how many streams there are now."""

    folder: Folder
    served: ServedFeeds
    door: FeedDoor
    streams: Callable[[], int] = lambda: 0
    _end: threading.Event = field(default_factory=threading.Event)
    _pending: dict[str, ReadsOfFeed] = field(default_factory=dict)

    def start(self, streams: Callable[[], int]) -> None:
        """Follows what runs, and reports what was read, until it ends. The first report says that it serves."""
        self.streams = streams
        for target in (self._follow, self._report_on):
            threading.Thread(target=target, name="feeds", daemon=True).start()

    def end(self) -> None:
        """Reports once more, as far as the service still answers."""
        self._end.set()
        self.report()
        self.door.pages.close()

    def explain(self, feed: str, consumer: str, producer: str) -> Any:
        """Why a pair is as it is: the service knows."""
        path = "/".join(quote(one, safe="") for one in (feed, "why", consumer, producer))
        return self._ask("GET", f"/feeds/{path}", None)

    def report(self) -> None:
        """What the service does not take is told with the next report."""
        for feed, more in self.door.pages.reads.take_all().items():
            self._pending[feed] = _join(self._pending.get(feed), more)
        reads = {
            feed: {"counts": one.counts, "seconds": [round(second, 6) for second in one.seconds]}
            for feed, one in self._pending.items()
        }
        report = {"reads": reads, "streams": self.streams(), "trouble": self.served.trouble}
        try:
            self._ask("POST", f"/feed-servers/{os.getpid()}", report)
            self._pending = {}
        except HeadraceError as error:
            log.warning("the service does not take a report: %s", error)
            if sum(len(one.counts) for one in self._pending.values()) > MOST_PENDING:
                self._pending = {}

    def _follow(self) -> None:
        self.served.follow(self._end)

    def _report_on(self) -> None:
        while True:
            try:
                self.report()
            except Exception:  # whatever it is: a server that does not report is replaced
                log.exception("a report failed")
            if self._end.wait(REPORT_EVERY_S):
                return

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        process = read_process(self.folder)
        if process is None:
            raise ConnectError("the service does not run", "try again in a moment")
        return ask(process.port, process.token, method, path, body, within_s=ANSWER_WITHIN_S)


def open_feed_serving(directory: Path, environment: Mapping[str, str], home: Path | None = None) -> FeedServing:
    """The feeds of the project in a folder, as it runs now; it may not run yet. The folder may be that of a site, and
    `home` the project's, with its variables and apps.
    """
    folder, home = Folder(directory), home or directory
    served = ServedFeeds(folder, project_environment(environment, home))
    served.look()
    pages = FeedPages(served, folder.root, clock_now)
    door = FeedDoor(pages, folder, served.catalogue, FeedApps(Folder(home), lambda: pages.key))
    return FeedServing(folder, served, door)


def _join(before: ReadsOfFeed | None, more: ReadsOfFeed) -> ReadsOfFeed:
    if before is None:
        return more
    counts = dict(before.counts)
    for consumer, count in more.counts.items():
        counts[consumer] = counts.get(consumer, 0) + count
    return ReadsOfFeed(counts, (*before.seconds, *more.seconds))
