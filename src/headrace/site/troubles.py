"""The one place where parts of the service report what goes wrong: `status`, `/healthz` and `doctor` read it from here.

A trouble has a key, which says what it is about: `capture:us_dsn`, `delivery:sales`. The part that reports a trouble
also clears it. An event tells once when it begins and once when it is over, not each time that it is reported again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping

from headrace.model.amounts import format_bytes, format_seconds
from headrace.model.events import TroubleBegan, TroubleOver
from headrace.model.trouble import Trouble, TroubleKind
from headrace.run.push.simulated_links import LinkQueue
from headrace.site.engine.late_runner import Absence
from headrace.site.journal import Journal

SOURCE, CAPTURE, DELIVERY, FEED, DECISION, WITHDRAWAL, ROW = (
    TroubleKind.SOURCE,
    TroubleKind.CAPTURE,
    TroubleKind.DELIVERY,
    TroubleKind.FEED,
    TroubleKind.DECISION,
    TroubleKind.WITHDRAWAL,
    TroubleKind.ROW,
)
ENGINE, STANDSTILL, LINKS, SITE = TroubleKind.ENGINE, TroubleKind.STANDSTILL, TroubleKind.LINKS, TroubleKind.SITE
HELD, PAUSED = TroubleKind.HELD, TroubleKind.PAUSED
BROKER, ROUTER, NOTIFY = TroubleKind.BROKER, TroubleKind.ROUTER, TroubleKind.NOTIFY
PLACEMENT, ABSENT = TroubleKind.PLACEMENT, TroubleKind.ABSENT
FEED_SERVER, CALIBRATION = TroubleKind.FEED_SERVER, TroubleKind.CALIBRATION
DAMAGE, DISK, REREAD = TroubleKind.DAMAGE, TroubleKind.DISK, TroubleKind.REREAD
SOURCE_DIFFERS, VIEW_DIFFERS = TroubleKind.SOURCE_DIFFERS, TroubleKind.VIEW_DIFFERS
"""What keys begin with; the rest is the name of the source, database, contract or note that a trouble is about."""
LOOK_AT_LOGS = "see the logs in .headrace/"


class Troubles:
    """May be used by any thread; nobody is ever kept waiting."""

    def __init__(self, clock_s: Callable[[], float] = time.time, journal: Journal | None = None) -> None:
        self._clock_s = clock_s
        self._journal = journal or Journal()
        self._turn = threading.Lock()
        self._found: dict[str, Trouble] = {}

    def report(self, key: str, what: str, hint: str = LOOK_AT_LOGS, since: float | None = None) -> None:
        """May be told again, in other words too: `since` stays the time at which it was reported first.

        Unless it is known better: the report may say since when it lasts, in seconds since 1970.
        """
        with self._turn:
            before = self._found.get(key)
            first = self._clock_s() if before is None else before.since
            self._found[key] = Trouble(what, first if since is None else since, hint)
        if before is None:
            self._journal.emit(TroubleBegan(self._now(), *_kind_of(key), what))

    def clear(self, key: str) -> None:
        """It is over, or never was."""
        with self._turn:
            gone = self._found.pop(key, None)
        if gone is not None:
            lasted_s = max(0.0, self._clock_s() - gone.since)
            self._journal.emit(TroubleOver(self._now(), *_kind_of(key), gone.what, lasted_s))

    def _now(self) -> int:
        return round(self._clock_s() * 1e6)

    def report_exactly(
        self, kind: str, found: Mapping[str, tuple[str, str]], since: Mapping[str, float] | None = None
    ) -> None:
        """What is wrong and its hint, by key: all that there is of a kind (`capture:`); the rest of it is over."""
        for key in [key for key in self.all() if key.startswith(kind) and key not in found]:
            self.clear(key)
        for key, (what, hint) in found.items():
            self.report(key, what, hint, None if since is None else since.get(key))

    def get(self, key: str) -> Trouble | None:
        return self._found.get(key)

    def all(self) -> dict[str, Trouble]:
        """All troubles by key; what began first comes first."""
        with self._turn:
            return dict(sorted(self._found.items(), key=lambda one: (one[1].since, one[0])))

    def standstill(self) -> str | None:
        """What stands still without a reason that somebody knows; None if nothing does."""
        return next((one.what for key, one in self.all().items() if key.startswith(STANDSTILL)), None)


def find_cause(
    told_of: Callable[[str], Trouble | None],
    sources: Iterable[str],
    databases: Iterable[str],
    absence: Absence | None,
    links: Iterable[tuple[str, str]] = (),
) -> str | None:
    """What holds up a view that reads these over some links, as far as somebody has told."""
    of_sources = [kind + name for kind in (SOURCE, REREAD) for name in sorted(sources)]
    of_sites = [SITE + origin for origin, _ in sorted(links)]
    keys = [*of_sources, *(CAPTURE + name for name in databases), *of_sites]
    told = next((one.what for key in keys if (one := told_of(key)) is not None), None)
    if told is not None or absence is None:
        return told
    return f"{absence.engine} has been down for {format_seconds(round(absence.seconds))}"


def find_slow_link(links: Iterable[tuple[str, str]], queues: Mapping[tuple[str, str], LinkQueue]) -> str | None:
    """Which of some links keeps its readers waiting longest; None if none does."""
    busy = [(queues[ends].arrives_s, ends) for ends in links if ends in queues]
    if not busy:
        return None
    seconds, (origin, site) = max(busy)
    waiting = format_bytes(queues[origin, site].waiting_bytes)
    return f"{waiting} wait for the link from {origin} to {site}, and arrive in {format_seconds(round(seconds, 1))}"


def _kind_of(key: str) -> tuple[TroubleKind, str]:
    """And the name that a trouble is about."""
    kind, separator, named = key.partition(":")
    return TroubleKind(kind + separator), named
