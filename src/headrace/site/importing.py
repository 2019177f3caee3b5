"""Brings what a site has of others: asks them for changes, commits these, and knows how far each could be brought.

A few threads for each other site take wishes, the earliest deadline first. Each asks for the changes after what is
there, up to the time that is wanted; the other site pushes what it takes and answers, at the latest after some seconds
with what it has. Another thread hears, several times a second, how far everything could be brought.

A site that does not answer delays those who read what comes from it, and nobody else. It is asked again and again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Protocol

import pyarrow as pa

from headrace.connect.wire.snapshot_files import SnapshotPart
from headrace.model.amounts import format_bytes, format_seconds
from headrace.model.catalogue import Link
from headrace.model.errors import Conflict, ConnectError
from headrace.model.link_counts import LinkCounts, LinkProbe
from headrace.model.steps import join_names
from headrace.model.wish import CopyWish, HeardReach
from headrace.model.words import name_id
from headrace.observe.links import (
    KNOWN_FOR_S,
    LinkBelief,
    believe,
    believe_probe,
    choose_probe_bytes,
    is_worth_another,
    measure_rates,
)
from headrace.run.ports import Ledger
from headrace.run.program import SiteCopy
from headrace.run.push.engine import Engine, NotThereYet
from headrace.run.push.exports import ChangesGone, SentChanges
from headrace.run.push.imports import commit_segment, count_unread, find_ahead
from headrace.run.push.push import Pushed
from headrace.run.push.simulated_links import Ends
from headrace.site.deadline import Deadline
from headrace.site.link_states import LinkState, describe_arriving
from headrace.site.received_contents import ReceivedContents
from headrace.site.threads import GuardedThreads
from headrace.site.troubles import PAUSED, SITE, Troubles
from headrace.site.turns import Turns
from headrace.site.wanted_copies import WantedCopies

log = logging.getLogger("headrace.service")

WORKERS = 4
"""Copies of one other site that are on their way at once."""
HEAR_EVERY_S, HEAR_AT_LEAST_EVERY_S, HEAR_WITHIN = 0.2, 2.0, 0.1
"""How often to listen to other sites: at this share of the shortest freshness, within bounds."""
ANSWER_WITHIN_S = 5.0
"""How long another site may take to push what it is asked for before it says how far it is."""
BACKOFF_S = (0.2, 0.5, 1.0, 2.0)
"""How long a worker leaves a site alone that does not send what it asks for; not once it answers again."""
HEAR_ENDING_EVERY_S = 0.2
"""How often to listen to one that is about to end: what it has now will be all that there is for a while."""
YOUNG = 1 / 8
"""Share of its promise to which a view is kept fresh meanwhile that reads something of it."""
HEAR_SILENT_EVERY_S = 0.5
"""How often to listen to a site that does not answer."""
SILENT_S = 5.0
"""A site that has not answered for this long is told of."""
BROUGHT_WITHIN_S = 20.0
"""How long a view that is loaded waits for copies: whoever loads holds turns that others want."""
LOOK_EVERY_S = 0.05
FULL_AT = 0.9
"""At which share of the bytes that changes may take here nothing more is asked for of copies which are ahead of others:
before views that are behind have to be loaded anew, because there is no room for the changes that they lack.
"""
COUNT_EVERY_S = 1.0
UNREAD = f"{PAUSED}changes of other sites"
MEND_UNREAD = (
    "find out what keeps the sites that are further behind from sending theirs, or give this site more `disk_capacity`;"
    " what comes next is kept where it comes from"
)
MEND = "start the site's process again, or mend the network; what it missed is sent then"


def monotonic_s() -> float:
    """Seconds on the clock that nobody sets."""
    return time.monotonic()


class SitePeer(Protocol):
    """Another site. Raises `ConnectError` if it does not answer, and `NotThereYet` if it is not as far."""

    def hear_reach(self) -> HeardReach:
        """How far all that this site has of it can be brought."""

    def find_starts(self) -> Mapping[str, int]:
        """The times after which changes are kept of all that this site has of it."""

    def read_changes(self, copy: str, after: int, wish: CopyWish, within_s: float) -> SentChanges:
        """What there is after a time, once it is what was wished for, or some seconds have passed.

        Raises `ChangesGone`.
        """

    def read_part(self, copy: str, t: int, number: int) -> SnapshotPart:
        """A part of the rows of a copy at a time."""

    def read_held(self, source: str, t: int) -> pa.Table | None:
        """Rows of a source as the site holds them at a time, with the columns that views here read, under names
        `source.column`; None if they are too many. Raises `ChangesGone`.
        """

    def look_at_link(self) -> LinkCounts:
        """What has arrived from there, and what is on its way."""

    def probe_link(self, size: int) -> LinkProbe | None:
        """Has some bytes sent for nothing, which `look_at_link` counts; what is not there after a second is left. None
        if there are none to be had.
        """


class _Came(Enum):
    """How much came of what was asked for. `ALL` also if it has no place here any more."""

    ALL = "all"
    SOME = "some"
    NOTHING = "nothing"


@dataclass(slots=True)
class _Queue:
    """What is wanted of one other site, and since when it does not answer."""

    peer: SitePeer
    wanted: WantedCopies = field(default_factory=WantedCopies)
    there: threading.Condition = field(default_factory=threading.Condition)
    failures: int = 0
    failing: dict[str, float] = field(default_factory=dict)
    """Copies that do not come although the site answers, and since when."""
    silent_since: float | None = None
    answering: threading.Event = field(default_factory=threading.Event)
    """Set unless it is silent: whoever waits to ask it again need not wait any longer."""
    belief: LinkBelief | None = None
    """What the link from there carries, as far as anybody has seen."""
    probed: LinkBelief | None = None
    """What the last probe found."""
    is_ending: bool = False
    """Whether it has said that it is about to end."""
    looked_s: float = field(default_factory=lambda: monotonic_s())
    """When its capacity was measured or probed last, and before that when somebody began to look."""


@dataclass
class Importing:
    """Implements `run.ports.Neighbours` and `site.rounds.Bringing`.

    `find_peer` knows any other site. `engine` is that of what runs or is loaded. `arrived` is told of what has come,
    with the turn to push. Copies that have to start anew are noted until somebody who may forget them does.
    """

    site: str
    find_peer: Callable[[str], SitePeer]
    ledger: Ledger
    turns: Turns
    troubles: Troubles
    threads: GuardedThreads
    engine: Callable[[], Engine | None]
    arrived: Callable[[Pushed, int], None]
    clock: Callable[[], int]
    contents: ReceivedContents
    shortest_s: Callable[[], float] = lambda: 0.0
    """The shortest freshness that is promised anywhere."""
    find_link: Callable[[str], Link | None] = lambda _: None
    """The link from another site, as it is declared."""
    find_budget: Callable[[], int | None] = lambda: None
    """Bytes that changes may take here; None if nothing runs yet."""
    hurry: Callable[[str, float], object] = lambda *_: None
    """Has views pushed that read something of another site, which is about to end, and whose age is this share of their
    promise or more.
    """
    find_views: Callable[[], Collection[str]] = tuple
    """The vertices that contracts here read."""

    def __post_init__(self) -> None:
        self._queues: dict[str, _Queue] = {}
        self._reach: dict[str, Mapping[str, int]] = {}
        self._lost: dict[str, str] = {}
        self._turn = threading.Lock()  # held for a moment: to add a queue, or what is lost
        self._full: frozenset[str] = frozenset()
        self._counted_s = float("-inf")

    def _queue_of(self, name: str) -> _Queue:
        """The wishes of another site, whose threads start with the first: a plan may bring in sites at any time."""
        with self._turn:
            found = self._queues.get(name)
            if found is None:
                found = _Queue(self.find_peer(name))
                self._queues = {**self._queues, name: found}
                self.threads.start(partial(self._hear, name), f"hear {name}")
                for number in range(WORKERS):
                    self.threads.start(partial(self._bring, name), f"bring {name} {number}")
            return found

    def tell_to_end(self) -> None:
        for queue in self._queues.values():
            queue.answering.set()
            with queue.there:
                queue.there.notify_all()

    def take_lost(self) -> dict[str, str]:
        """Copies that have to start anew, and why. The caller forgets them, and has the turns for that."""
        with self._turn:
            found, self._lost = self._lost, {}
        return found

    # What the engine asks

    def reach(self) -> Mapping[str, int]:
        engine = self.engine()
        for origin in () if engine is None else {copy.origin for copy in engine.program.imports.values()}:
            self._queue_of(origin)  # which begins to listen
        return self.find_told_reach()

    def find_told_reach(self) -> dict[str, int]:
        """What other sites said last of how far everything could be brought. Where something comes from now counts: the
        site that it came from before may be gone.
        """
        engine, told = self.engine(), dict(self._reach)
        found = {name: t for times in told.values() for name, t in times.items()}
        for copy in () if engine is None else engine.program.imports.values():
            t = told.get(copy.origin, {}).get(copy.name)
            if t is not None:
                found[copy.name] = t
            else:
                found.pop(copy.name, None)
        return found

    def find_starts(self, copies: Collection[str]) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for origin in {self._origin(copy) for copy in copies} - self.find_silent():
            try:
                found |= self._queue_of(origin).peer.find_starts()
            except (ConnectError, NotThereYet) as error:  # what others have does not wait for it
                log.debug("site %s does not say what it has: %s", origin, error)
        # Rows that have begun to come are those of a time: a copy that started before could not use them.
        return {name: max(t, self.contents.find_time(name)) for name, t in found.items() if name in copies}

    def read_contents(self, copy: str, t: int) -> pa.Table:
        imported = self._find(copy)
        return self.contents.read(self._queue_of(imported.origin).peer, copy, t, imported.is_whole)

    def read_held(self, origin: str, source: str, t: int) -> pa.Table | None:
        """Rows of a source as another site holds them at a time; None if they are too many for a check. Raises
        `ConnectError`, `NotThereYet` and `ChangesGone`.
        """
        return self._queue_of(origin).peer.read_held(source, t)

    def bring(self, copies: Collection[str], t: int) -> None:
        until = time.monotonic() + BROUGHT_WITHIN_S
        for copy in copies:
            self.want(copy, t, self.clock())
        while behind := [copy for copy in copies if self.ledger.times().get(copy, t) < t]:
            if not self._lost.keys().isdisjoint(behind):
                raise ConnectError("changes that are needed are gone: what they are for starts anew")
            if time.monotonic() > until or self.threads.stop.wait(LOOK_EVERY_S):
                raise ConnectError(f"site {self._origin(behind[0])} has not sent what views start from", MEND)

    # What rounds ask

    def want(self, copy: str, t: int, deadline: int) -> None:
        queue = self._queue_of(self._origin(copy))
        with queue.there:
            if queue.wanted.want(copy, CopyWish(t, deadline)):
                queue.there.notify()

    def look_at_links(self, declared: Mapping[Ends, float | None]) -> dict[Ends, LinkState]:
        """The links that lead here. `declared` is their bandwidth, bytes/s."""
        times, now, found = self.ledger.times(), self.clock(), dict[Ends, LinkState]()
        for name, queue in self._queues.items():
            since = queue.silent_since
            behind = [now - times[copy] for copy in self._find_wanted(name, queue) if copy in times]
            behind_s, ends = max((0, *behind)) / 1e6, (name, self.site)
            counts, probed = queue.peer.look_at_link(), _find_probed(queue)
            found[ends] = describe_arriving(counts, behind_s, since, declared.get(ends), probed)
        return found

    def _find_wanted(self, name: str, queue: _Queue) -> list[str]:
        """Copies that somebody waits for; all of a site that does not answer."""
        engine = self.engine()
        if queue.silent_since is None or engine is None:
            return list(queue.wanted.wishes)
        return [copy.name for copy in engine.program.imports.values() if copy.origin == name]

    def find_silent(self) -> frozenset[str]:
        """Other sites that do not answer now."""
        return frozenset(name for name, queue in self._queues.items() if queue.silent_since is not None)

    def find_under_way(self) -> frozenset[str]:
        # What is lost is not asked for again: it would be lost again, until somebody forgets it.
        queues = self._queues.items()
        coming = (copy for name, queue in queues for copy in list(queue.wanted.wishes) if self._comes_from(name, copy))
        return frozenset(coming).union(self._lost)

    def _origin(self, copy: str) -> str:
        return self._find(copy).origin

    def _find(self, copy: str) -> SiteCopy:
        engine = self.engine()
        if engine is None or copy not in engine.program.imports:
            raise NotThereYet(f'"{copy}" is not part of the plan')
        return engine.program.imports[copy]

    # Threads

    def hear_all(self, deadline: Deadline) -> None:
        """Hears now how far everything can be brought, of those sites that answer; asks nobody after the deadline."""
        for name, queue in self._queues.items():
            if queue.silent_since is None and deadline.left_s > 0:
                with suppress(ConnectError, NotThereYet):
                    self._reach[name] = queue.peer.hear_reach().times

    def _hear(self, name: str) -> None:
        queue, stop = self._queues[name], self.threads.stop
        while not stop.wait(self._pause_s(queue)):
            if self._full:  # another plan may ask for nothing of what was paused: nobody else would look
                self._find_full()
            if not self._is_read(name):
                self._answers(name)  # nobody needs to know whether it does
                continue
            try:
                heard = queue.peer.hear_reach()
                self._reach[name] = heard.times
                self._answers(name)
                if heard.is_ending:
                    self.hurry(name, YOUNG if queue.is_ending else 0.0)
                queue.is_ending = heard.is_ending
                self._watch_link(name)
            except NotThereYet:
                self._answers(name)
            except ConnectError as error:
                self._is_silent(name, error)

    def _is_read(self, name: str) -> bool:
        """Whether anything comes from another site; another plan may have moved all of it, or the site may be gone."""
        engine = self.engine()
        return engine is None or any(copy.origin == name for copy in engine.program.imports.values())

    def _watch_link(self, name: str) -> None:
        """Remembers what the link from a site carries, and probes it if nobody has known that for long."""
        queue, link, now_s = self._queues[name], self.find_link(name), monotonic_s()
        counts = queue.peer.look_at_link()
        capacity = measure_rates(counts.counts, counts.round_trip_s).capacity_bytes_s
        queue.belief = believe(queue.belief, capacity, now_s)
        if capacity is not None:
            queue.looked_s = now_s
        if link is None or link.bandwidth is None:
            return
        silent_s = now_s - queue.looked_s
        # A link that carries much more than was believed shows it with more bytes only: those follow at once.
        while (size := choose_probe_bytes(queue.belief, link.bandwidth, silent_s, link.limit)) is not None:
            queue.looked_s, before = now_s, queue.belief
            probe = queue.peer.probe_link(size)
            if probe is None:
                return
            queue.belief = queue.probed = believe_probe(before, probe, now_s)
            if not is_worth_another(before, probe):
                return

    def _pause_s(self, queue: _Queue) -> float:
        """How often to listen: what is heard late adds to the lag of those who are promised most."""
        if queue.silent_since is not None:
            return HEAR_SILENT_EVERY_S
        if queue.is_ending:
            return HEAR_ENDING_EVERY_S
        return min(max(HEAR_EVERY_S, HEAR_WITHIN * self.shortest_s()), HEAR_AT_LEAST_EVERY_S)

    def _bring(self, name: str) -> None:
        queue, stop = self._queues[name], self.threads.stop
        while not stop.is_set():
            with queue.there:
                while not queue.wanted.is_any_waiting and not stop.is_set():
                    queue.there.wait()  # `want` and `tell_to_end` wake it
                if stop.is_set():
                    return
                copy = queue.wanted.take()
            came = _Came.NOTHING
            try:
                came = self._bring_one(name, copy)
                if came is not _Came.ALL and queue.failures:
                    # Until it answers, if it does not now. Else it is asked for something that it cannot send yet.
                    waiting = queue.answering if queue.silent_since is not None else stop
                    waiting.wait(BACKOFF_S[min(queue.failures, len(BACKOFF_S)) - 1])
            finally:  # whatever happens, it is brought or waits
                with queue.there:
                    if came is _Came.ALL:
                        queue.wanted.finish(copy)
                    else:
                        # Behind those that are due by then: one that makes no progress must not keep all workers.
                        later = self.clock() + round(ANSWER_WITHIN_S * 1e6)
                        queue.wanted.put_back(copy, None if came is _Came.SOME else later)
                        queue.there.notify()

    def _bring_one(self, name: str, copy: str) -> _Came:
        """Asks once for what a copy lacks."""
        queue = self._queues[name]
        after, wish = self.ledger.times().get(copy), queue.wanted.wishes[copy]
        if not self._comes_from(name, copy) or after is None or after >= wish.t:
            self._forget_failing(name, copy)
            return _Came.ALL
        if copy in self._find_full():
            self.threads.stop.wait(COUNT_EVERY_S)  # others have their turn: this thread has nothing to ask for
            return _Came.NOTHING
        began = time.perf_counter()
        try:
            sent = queue.peer.read_changes(copy, after, wish, ANSWER_WITHIN_S)
        except ChangesGone as error:
            if self._comes_from(name, copy):
                with self._turn:
                    self._lost[copy] = str(error)
            return _Came.ALL
        except NotThereYet as error:
            log.debug("%s is not there yet: %s", copy, error)
            queue.failures = 1  # it answers, whatever was before
            return _Came.NOTHING
        except ConnectError as error:
            self._does_not_come(name, copy, error)
            return _Came.NOTHING
        queue.failures = 0
        self._forget_failing(name, copy)
        if sent.segment.upto > after:
            self._commit(copy, sent, time.perf_counter() - began)
        reached, wanted = self.ledger.times().get(copy, after), queue.wanted.wishes.get(copy)
        if wanted is None or reached >= wanted.t:
            return _Came.ALL
        return _Came.SOME if reached > after else _Came.NOTHING

    def _find_full(self) -> frozenset[str]:
        """Copies of which nothing more is asked for now: there is little room left, what has come is not read, and it
        cannot be before another copy has come that is further behind.
        """
        engine, budget, now_s = self.engine(), self.find_budget(), time.monotonic()
        if engine is None or budget is None or now_s < self._counted_s + COUNT_EVERY_S:
            return self._full
        self._counted_s, unread = now_s, count_unread(engine)
        size = sum(unread.values())
        if size < FULL_AT * budget:
            self._full = frozenset()
            self.troubles.clear(UNREAD)
            return self._full
        imports = engine.program.imports
        ahead = find_ahead(engine, self.find_views()).intersection(imports)
        self._full = ahead.intersection(name for name, one in unread.items() if one)
        if not self._full:  # views read what is here soon, or are loaded anew if they do not keep up
            self.troubles.clear(UNREAD)
            return self._full
        origins = {imports[name].origin for name in self._full}
        named = join_names([f'"{site}"' for site in sorted(origins)])
        room = f"{format_bytes(size)} of the {format_bytes(budget)} that changes may take here"
        asked = "is" if len(origins) == 1 else "are"
        what = f"changes that views have not read take {room}: {named} {asked} asked for no more of what is ahead"
        self.troubles.report(UNREAD, what, MEND_UNREAD)
        return self._full

    def _comes_from(self, name: str, copy: str) -> bool:
        """Another plan may have a copy come from another site, under the same name. Whoever waited for it here would
        keep everybody from asking there.
        """
        engine = self.engine()
        imported = None if engine is None else engine.program.imports.get(copy)
        return imported is not None and imported.origin == name

    def _commit(self, copy: str, sent: SentChanges, seconds: float) -> None:
        with self.turns.pushing:
            engine = self.engine()
            if engine is None or copy not in engine.program.imports or self.threads.stop.is_set():
                return
            try:
                brought = commit_segment(engine, copy, sent.segment, seconds, sent.bytes)
            except Conflict:
                return  # it has started anew, or came before
            self.arrived(brought, sent.segment.after)

    def _forget_failing(self, name: str, copy: str) -> None:
        self._queues[name].failing.pop(copy, None)
        self.troubles.clear(f"{SITE}{name}: {copy}")

    def _answers(self, name: str) -> None:
        queue = self._queues[name]
        if queue.silent_since is not None:
            queue.silent_since, queue.failures = None, 0
            queue.looked_s = monotonic_s()  # nobody could look meanwhile, and what waits shows what the link carries
            queue.answering.set()
        self.troubles.clear(SITE + name)

    def _does_not_come(self, name: str, copy: str, error: ConnectError) -> None:
        """A site that answers may fail to send one copy all the same."""
        queue, now = self._queues[name], time.time()
        queue.failures += 1
        since = queue.failing.setdefault(copy, now)
        if now - since >= SILENT_S and queue.silent_since is None:
            what = f'{name_id(copy)} does not come from site "{name}": {error.message}'
            self.troubles.report(f"{SITE}{name}: {copy}", what, MEND, since)

    def _is_silent(self, name: str, error: ConnectError) -> None:
        queue, now = self._queues[name], time.time()
        if queue.silent_since is None:
            queue.answering.clear()
            queue.silent_since = now
            # No further than what is there: views are pushed up to that, instead of waiting for what does not come.
            there = self.ledger.times()
            self._reach[name] = {copy: min(t, there.get(copy, t)) for copy, t in self._reach.get(name, {}).items()}
        since = queue.silent_since
        if now - since >= SILENT_S:
            waits = f"; {len(queue.wanted.wishes)} copies wait for it" if queue.wanted.wishes else ""
            what = f'site "{name}" has not answered for {format_seconds(round(now - since))}{waits}: {error.message}'
            self.troubles.report(SITE + name, what, MEND, since)


def _find_probed(queue: _Queue) -> float | None:
    """What a probe has found, bytes/s, as long as a measurement would say it."""
    probed = queue.probed
    return probed.bytes_s if probed is not None and time.monotonic() - probed.at_s <= KNOWN_FOR_S else None
