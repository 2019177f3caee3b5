"""What happened at sites that joined from elsewhere, told where the project is coordinated.

A site that does not answer is told of as well, since its events are missing. It goes on where it ended once it answers
again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, replace
from typing import Any

from headrace.connect.wire.client import WireClient
from headrace.coordinate.asking_sites import ask_sites, open_clients
from headrace.model.errors import ConnectError
from headrace.model.event_wire import EventsAsked, NumberedEvent, read_event, write_event
from headrace.model.events import Event, TroubleBegan, TroubleOver
from headrace.model.trouble import TroubleKind
from headrace.run.ports import Ledger
from headrace.site.folder import Folder

EVENTS_PATH = "/v1/events"
ANSWER_WITHIN_S = 5.0
MOST_EVENTS = 100_000
LOOK_EVERY_S = 0.5
NEWEST = EventsAsked(limit=1, routine=True, latest=True)
SILENT = 'site "{}" does not answer, and its events are missing: {}'


def write_events(found: Iterator[NumberedEvent]) -> dict[str, Any]:
    """Events in the form in which a site sends them."""
    return {"events": [[one.number, one.event.at, one.event.kind, write_event(one.event)] for one in found]}


def read_events_asked(words: Mapping[str, str]) -> EventsAsked:
    """What a site is asked for. Raises ValueError or KeyError."""
    return EventsAsked(
        int(words["after"]),
        min(int(words["limit"]), MOST_EVENTS),
        words.get("contract"),
        words["routine"] == "True",
        words["latest"] == "True",
    )


def read_joined_events(folder: Folder, asked: EventsAsked, follow: threading.Event | None) -> Iterator[Event]:
    """The latest events of all sites and of whoever coordinates them, oldest first; until `follow` is set, those to
    come as well.
    """
    with closing(folder.ledger()) as ledger, open_clients(folder) as clients:
        gathered = _Gathered(ledger, clients, asked)
        yield from gathered.read_latest()
        while follow is not None and not follow.wait(LOOK_EVERY_S):
            yield from gathered.read_next()


class _Gathered:
    """Reads on where it ended, at each site."""

    def __init__(self, ledger: Ledger, clients: Mapping[str, WireClient], asked: EventsAsked) -> None:
        self._ledger, self._clients, self._asked = ledger, clients, asked
        self._last: dict[str | None, int] = {}
        """The number of the last event that was read, by site; None is whoever coordinates."""
        self._silent: dict[str, float] = {}
        self._why_silent: Mapping[str, str] = {}

    def read_latest(self) -> list[Event]:
        # First: what comes while the others are read is read afterwards.
        newest = self._ask(dict.fromkeys((None, *self._clients), NEWEST))
        found = self._ask(dict.fromkeys((None, *self._clients), replace(self._asked, latest=True)))
        for name, some in found.items():
            self._last[name] = max((one.number for one in (*newest.get(name, ()), *some)), default=0)
        every = sorted((one.event for some in found.values() for one in some), key=lambda event: event.at)
        return [*every[-self._asked.limit :], *self._tell_silent()]

    def read_next(self) -> list[Event]:
        after = {name: self._last.get(name) for name in (None, *self._clients)}
        # A site that has been silent from the start tells its latest, as it would have then.
        asked = {
            name: replace(self._asked, latest=True) if number is None else replace(self._asked, after=number)
            for name, number in after.items()
        }
        found = self._ask(asked)
        for name, some in found.items():
            self._last[name] = max((one.number for one in some), default=self._last.get(name, 0))
        every = sorted((one.event for some in found.values() for one in some), key=lambda event: event.at)
        return [*every, *self._tell_silent()]

    def _ask(self, asked: Mapping[str | None, EventsAsked]) -> dict[str | None, list[NumberedEvent]]:
        """Events of all sites that answer, and of the coordinator itself, which is None."""
        words = {site: _write_asked(one) for site, one in asked.items() if site is not None}
        replies = ask_sites(self._clients, EVENTS_PATH, ANSWER_WITHIN_S, words)
        self._why_silent = replies.silent
        found: dict[str | None, list[NumberedEvent]] = {None: list(self._ledger.events(asked[None]))}
        return found | {site: _read_events(site, answer) for site, answer in replies.answers.items()}

    def _tell_silent(self) -> Iterator[Event]:
        """Tells once that a site is silent, and once that it answers again."""
        now = time.time()
        for site, why in self._why_silent.items():
            if site not in self._silent:
                self._silent[site] = now
                yield TroubleBegan(round(now * 1e6), TroubleKind.SITE, site, SILENT.format(site, why))
        for site in self._silent.keys() - self._why_silent.keys():
            lasted_s = now - self._silent.pop(site)
            yield TroubleOver(round(now * 1e6), TroubleKind.SITE, site, f'site "{site}" does not answer', lasted_s)


def _write_asked(asked: EventsAsked) -> dict[str, object]:
    return {name: value for name, value in asdict(asked).items() if value is not None}


def _read_events(site: str, answer: Mapping[str, Any]) -> list[NumberedEvent]:
    try:
        return [
            NumberedEvent(int(number), read_event(int(at), str(kind), str(text)))
            for number, at, kind, text in answer["events"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        what = f'what site "{site}" tells cannot be read'
        raise ConnectError(what, "do both run the same version?") from error
