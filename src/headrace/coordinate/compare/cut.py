"""Takes one moment of all databases while people write to them: a snapshot of each, and one time t for all.

Different captures assign the times of different databases. So the writers of all databases wait together until each
capture has reached the mark of its snapshot; t is the latest time of these marks. Everything committed after that must
have a later time. This is verified: if something was captured into a cut, the cut is taken again.

A database that cannot be cut is left out, with the reason, and the others are cut without it.

Sites that run elsewhere cannot wait for each other in this way. For them t is chosen ahead, a little later than all
their clocks (`Cutter.cut_at`): the writers of each site wait from just before its own clock shows t until it has. No
site waits for another one, and clocks may differ.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from headrace.connect.sources import connector_of
from headrace.model.errors import ConnectError, InputError
from headrace.model.notes import CutReached, read_notes
from headrace.run.capture.clock import clock_now
from headrace.run.capture.spool import spool_log
from headrace.run.ports import Ledger
from headrace.run.rows.changes import TIME
from headrace.run.source_port import ProjectPlace, SourceCut, SourceDatabase
from headrace.site.reading import ViewReader

ATTEMPTS = 12
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 3.0
"""Between attempts, twice as long each time: writers go on meanwhile. All attempts together take half a minute."""
LOOK_EVERY_S = 0.02
HELD_AT_MOST_S = 3.0
"""How long writers wait for captures; then they go on, and the cut is made again."""
CAUGHT_UP_WITHIN_S = 60.0
QUICK_S = 1.5
"""A capture that comes to a mark within this time is not behind."""
SPARE_S = 0.3
"""How much sooner writers begin to wait for a time that was chosen than a capture needs to come to a mark."""
LONGEST_AHEAD_S = 30.0
GONE = "the service went down during the audit"
WRITERS = "somebody writes to its database all the time, or a transaction stays open there"


@dataclass(frozen=True, slots=True)
class Cut:
    """Snapshots by source, and their time in microseconds; None if there are none.

    `unreadable` are sources without one, and why. `writers_waited_s` is the longest that writers had to wait.
    """

    t: int | None
    snapshots: Mapping[str, SourceCut]
    unreadable: Mapping[str, str]
    writers_waited_s: float


class InTheWay(Exception):
    """A database that keeps a cut away: for good, or maybe not at the next attempt."""

    def __init__(self, database: str, reason: str, for_good: bool = False) -> None:
        self.database = database
        self.reason = reason
        self.for_good = for_good
        super().__init__(reason)


@dataclass(slots=True)
class Cutter:
    """The databases that can still be cut together."""

    reader: ViewReader
    databases: dict[str, SourceDatabase]
    say: Callable[[str], None]
    is_gone: Callable[[], bool]
    """Whether the service is: its captures are then, too, and nobody comes to a mark any more."""
    cuts: dict[str, SourceCut] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)
    waited_s: float = 0.0
    in_the_way: Counter[str] = field(default_factory=Counter)

    def open(self, place: ProjectPlace, stack: ExitStack) -> None:
        """Databases whose rows of any time can be read again need no cut."""
        known = self.reader.plan.catalogue.sources
        for name, database in list(self.databases.items()):
            sources = [known[source] for source in database.sources]
            try:
                cut = connector_of(database.kind).open_cut(database, sources, place)
                if cut is None:
                    del self.databases[name]
                else:
                    self.cuts[name] = stack.enter_context(cut)
                    self.unreadable |= cut.missing
            except (ConnectError, InputError) as error:
                self._leave_out(name, str(error))

    def cut(self) -> int | None:
        """Their common time; None if no database is left."""
        while self.cuts:
            try:
                return self._attempt()
            except InTheWay as found:
                if not self._note_in_the_way(found) and self.cuts:
                    time.sleep(find_pause_s(self.in_the_way[found.database]))
        return None

    def cut_at(self, t: int) -> str | None:
        """Cuts all databases at a time that is a little ahead. Why that did not succeed, if another time may; None if
        it did, or no database is left.
        """
        self._on_all(SourceCut.drop_snapshot)
        try:
            if self.cuts:
                self._attempt_at(t)
            return None
        except InTheWay as found:
            self._on_all(SourceCut.drop_snapshot)
            self._note_in_the_way(found)
            return found.reason if self.cuts else None

    def _note_in_the_way(self, found: InTheWay) -> bool:
        """Whether a database is left out from now on: it was asked often enough."""
        if self.is_gone():
            for name in list(self.cuts):
                self._leave_out(name, GONE)
            return True
        self.in_the_way[found.database] += 1
        self.say(f"waiting for a moment at which nobody writes: {found.reason}")
        if found.for_good or self.in_the_way[found.database] >= ATTEMPTS:
            self._leave_out(found.database, found.reason)
            return True
        return False

    def tell_cut(self, t: int | None) -> Cut:
        snapshots = {
            source: cut
            for name, cut in self.cuts.items()
            for source in self.databases[name].sources
            if source not in self.unreadable
        }
        return Cut(t, snapshots, dict(self.unreadable), self.waited_s)

    def _leave_out(self, name: str, reason: str) -> None:
        self.unreadable |= dict.fromkeys(self.databases.pop(name).sources, reason)
        cut = self.cuts.pop(name, None)
        if cut is not None:
            cut.__exit__(None, None, None)

    def _attempt(self) -> int:
        self._catch_up_all()
        try:
            times = self._hold_writers(lambda: None)
            t = max(times.values())
            self._check_nothing_between(times, t)
        except InTheWay:
            self._on_all(SourceCut.drop_snapshot)
            raise
        return t

    def _attempt_at(self, t: int) -> None:
        """Whatever is committed once writers go on is captured later than t, by the same clock: that is verified."""
        needed_s = self._catch_up_all() + SPARE_S
        first = next(iter(self.cuts))
        ahead_s = (t - clock_now()) / 1e6
        if ahead_s > LONGEST_AHEAD_S:
            raise InTheWay(first, f"the clock of its site is {ahead_s:.0f} s behind that of others", for_good=True)
        if ahead_s < needed_s:
            raise InTheWay(first, "the capture of its database took too long to come to a mark")
        time.sleep(ahead_s - needed_s)
        times = self._hold_writers(lambda: _sleep_until(t))
        for name, reached in times.items():
            if reached > t:
                raise InTheWay(name, "the capture of its database is behind")
        self._check_nothing_between(times, t)

    def _catch_up_all(self) -> float:
        """The most seconds that a capture takes to come to a mark."""
        longest_s = 0.0
        for name, cut in self.cuts.items():
            with _asking(name):
                longest_s = max(longest_s, self._catch_up(name, cut))
        return longest_s

    def _check_nothing_between(self, times: Mapping[str, int], t: int) -> None:
        for name in self.cuts:
            with _asking(name):
                if self._captured_between(self.databases[name], times[name], t):
                    raise InTheWay(name, WRITERS)

    def _hold_writers(self, wait: Callable[[], None]) -> Mapping[str, int]:
        """The time of each snapshot. Writers wait from when the first lock is asked for until `wait` has returned, and
        captures have come to the marks or it takes too long.
        """
        began = time.monotonic()
        try:
            for name, cut in self.cuts.items():
                with _asking(name):
                    if not cut.lock():
                        raise InTheWay(name, WRITERS)
            marks = {}
            for name, cut in self.cuts.items():
                with _asking(name):
                    marks[name] = cut.mark()
                    cut.take_snapshot()
            wait()
            times = self._times_of(marks, HELD_AT_MOST_S)
        finally:
            self._on_all(SourceCut.release)
            self.waited_s = max(self.waited_s, time.monotonic() - began)
        for name in marks:
            if name not in times:
                raise InTheWay(name, "the capture of its database is behind")
        return times

    def _catch_up(self, name: str, cut: SourceCut) -> float:
        """Waits until a capture is not behind: writers must not wait for that. How long it then takes to come to a
        mark.
        """
        deadline = time.monotonic() + CAUGHT_UP_WITHIN_S
        while True:
            started = time.monotonic()
            if not self._times_of({name: cut.mark()}, CAUGHT_UP_WITHIN_S) or started > deadline:
                raise ConnectError("the capture of its database is behind")
            if (took_s := time.monotonic() - started) < QUICK_S:
                return took_s

    def _times_of(self, marks: Mapping[str, str], within_s: float) -> Mapping[str, int]:
        """The times at which captures came to marks; without those that did not."""
        deadline = time.monotonic() + within_s
        while True:
            found = {one.mark: one.t for one in read_notes(self.reader.ledger, CutReached).values()}
            times = {database: found[name] for database, name in marks.items() if name in found}
            if len(times) == len(marks) or time.monotonic() >= deadline or self.is_gone():
                return times
            time.sleep(LOOK_EVERY_S)

    def _captured_between(self, database: SourceDatabase, after: int, upto: int) -> bool:
        """Whether something was captured that the snapshot does not see, but a view at the cut's time has."""
        spools, ledger = [spool_log(source) for source in database.sources], self.reader.ledger
        if not wait_for_logs(ledger, spools, upto, CAUGHT_UP_WITHIN_S, self.is_gone):
            raise InTheWay(database.name, "the capture of its database makes no progress")
        for log in ledger.logs(spools).values():
            for piece in log.changes(after, upto):
                times = self.reader.store.read(log.site, piece.stored, [TIME]).column(TIME)
                if pc.any(pc.and_(pc.greater(times, after), pc.less_equal(times, upto))).as_py():
                    return True
        return False

    def _on_all(self, let_go: Callable[[SourceCut], None]) -> None:
        """Whatever holds something lets go of it. A session that is gone holds nothing."""
        for cut in self.cuts.values():
            with suppress(ConnectError):
                let_go(cut)


def find_pause_s(attempts: int) -> float:
    """How long to wait after so many attempts."""
    return min(FIRST_PAUSE_S * 2.0**attempts, LONGEST_PAUSE_S)


def _sleep_until(t: int) -> None:
    """Returns when our clock is past a time; soon also if it was put back meanwhile."""
    until = time.monotonic() + HELD_AT_MOST_S
    while (ahead_s := (t - clock_now()) / 1e6) >= 0 and time.monotonic() < until:
        time.sleep(min(ahead_s + 0.001, LOOK_EVERY_S))


@contextmanager
def cut_databases(
    reader: ViewReader,
    databases: tuple[SourceDatabase, ...],
    place: ProjectPlace,
    say: Callable[[str], None],
    is_gone: Callable[[], bool] = lambda: False,
) -> Iterator[Cut]:
    """The snapshots live until this is left."""
    with ExitStack() as stack:
        cutter = Cutter(reader, {one.name: one for one in databases}, say, is_gone)
        cutter.open(place, stack)
        t = cutter.cut()
        yield cutter.tell_cut(t)


@contextmanager
def _asking(database: str) -> Iterator[None]:
    """A database that does not answer as it should is not asked again."""
    try:
        yield
    except ConnectError as error:
        raise InTheWay(database, error.message, for_good=True) from error
    except pa.ArrowException as error:
        raise InTheWay(database, f"what was captured of its database cannot be read: {error}", for_good=True) from error


def wait_for_logs(
    ledger: Ledger, logs: list[str], t: int, within_s: float, is_gone: Callable[[], bool] = lambda: False
) -> bool:
    """Whether logs, if they exist, have reached a time soon enough; without a service they never will."""
    deadline = time.monotonic() + within_s
    while True:
        times = ledger.times()
        if all(times.get(name, t) >= t for name in logs):
            return True
        if time.monotonic() > deadline or is_gone():
            return False
        time.sleep(LOOK_EVERY_S)
