"""Takes one moment of all databases while people write to them: a snapshot of each, and one time t for all.

Different captures assign the times of different databases. So the writers of all databases wait together until each
capture has reached the mark of its snapshot; t is the latest time of these marks. Everything committed after that must
have a later time. This is verified: if something was captured into a cut, the cut is taken again.

A database that cannot be cut is left out, with the reason, and the others are cut without it.
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
        in_the_way = Counter[str]()
        while self.cuts:
            try:
                return self._attempt()
            except InTheWay as found:
                if self.is_gone():
                    for name in list(self.cuts):
                        self._leave_out(name, GONE)
                    return None
                in_the_way[found.database] += 1
                self.say(f"waiting for a moment at which nobody writes: {found.reason}")
                if found.for_good or in_the_way[found.database] >= ATTEMPTS:
                    self._leave_out(found.database, found.reason)
                else:
                    time.sleep(min(FIRST_PAUSE_S * 2 ** in_the_way[found.database], LONGEST_PAUSE_S))
        return None

    def _leave_out(self, name: str, reason: str) -> None:
        self.unreadable |= dict.fromkeys(self.databases.pop(name).sources, reason)
        cut = self.cuts.pop(name, None)
        if cut is not None:
            cut.__exit__(None, None, None)

    def _attempt(self) -> int:
        for name, cut in self.cuts.items():
            with _asking(name):
                self._catch_up(name, cut)
        try:
            times = self._hold_writers()
            t = max(times.values())
            for name in self.cuts:
                with _asking(name):
                    if self._captured_between(self.databases[name], times[name], t):
                        raise InTheWay(name, WRITERS)
        except InTheWay:
            self._on_all(SourceCut.drop_snapshot)
            raise
        return t

    def _hold_writers(self) -> Mapping[str, int]:
        """The time of each snapshot. Writers wait from when the first lock is asked for."""
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
            times = self._times_of(marks, HELD_AT_MOST_S)
        finally:
            self._on_all(SourceCut.release)
            self.waited_s = max(self.waited_s, time.monotonic() - began)
        for name in marks:
            if name not in times:
                raise InTheWay(name, "the capture of its database is behind")
        return times

    def _catch_up(self, name: str, cut: SourceCut) -> None:
        """Waits until a capture is not behind: writers must not wait for that."""
        deadline = time.monotonic() + CAUGHT_UP_WITHIN_S
        while True:
            started = time.monotonic()
            if not self._times_of({name: cut.mark()}, CAUGHT_UP_WITHIN_S) or started > deadline:
                raise ConnectError("the capture of its database is behind")
            if time.monotonic() - started < QUICK_S:
                return

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
        snapshots = {
            source: cut
            for name, cut in cutter.cuts.items()
            for source in cutter.databases[name].sources
            if source not in cutter.unreadable
        }
        yield Cut(t, snapshots, cutter.unreadable, cutter.waited_s)


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
