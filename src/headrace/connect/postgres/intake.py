"""One batch of captured changes: transactions get their times, rows go to files, and it ends as one commit.

Only whole transactions are committed. Rows of transactions that are still open lie in spills, without a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from headrace.connect.postgres.spill import Spill, SpillFolder
from headrace.connect.postgres.spool_target import Holding, SpoolTarget
from headrace.model.log import Commit, CommitMark, Edit, PieceKind
from headrace.model.notes import (
    NoteChange,
    SourceFingerprint,
    SourceLoading,
    SourceMend,
    SourceMissed,
    SourceObsolete,
    SourceStopped,
)
from headrace.model.plan_events import SourcesReread
from headrace.model.push_events import ChangesCaptured
from headrace.run.capture.clock import DatabaseClock, next_time
from headrace.run.capture.pgoutput import Begin, CommitMessage, Message, Relation, RowChange, StreamCommit
from headrace.run.capture.position import LastCommit, Position
from headrace.run.capture.row_changes import Layout, add_change, find_touched
from headrace.run.capture.spool import SpoolRows, UnheldValue
from headrace.run.ports import Store

ROWS_PER_FILE = 50_000
OUR_PREFIX = "headrace"
RECENT = 10_000
"""Transactions remembered for tables that are about to be read."""
MEND_VALUE = "correct the value or delete its row; the source then resumes by itself"


class OtherLog(Exception):
    """The log is not the one that was read before: its database was restored to an earlier state."""


@dataclass(frozen=True, slots=True)
class Outside:
    """What a batch needs: `resolve` finds the sources that a table is, `answer` is called during long work.

    `on_mark` gets what a mark of ours in the log says, and what the database's clock showed at its commit.
    """

    database: str
    store: Store
    spills: SpillFolder
    now: Callable[[], int]
    clock: DatabaseClock
    resolve: Callable[[Relation], tuple[Layout, ...]]
    on_mark: Callable[[bytes, int], None]
    answer: Callable[[], None]


class Intake:
    """Receives transactions (`run.capture.transactions.Receiver`) after `position`.

    `comes_again` is whether a later stream brings the last transaction again.
    """

    def __init__(self, outside: Outside, targets: Mapping[str, SpoolTarget], position: Position) -> None:
        self._outside = outside
        self.targets = dict(targets)
        self.position = position
        self.recent: deque[int] = deque(maxlen=RECENT)
        self._notes: list[NoteChange] = []
        self._events: list[SourcesReread] = []
        self._awaits_last = False
        self.comes_again = True
        self.aside: list[str] = []
        self._commit_marks: dict[int, CommitMark] = {}
        self._open: dict[int, Spill] = {}
        self._open_marks: dict[int, list[Message]] = {}
        self._layouts: dict[int, tuple[Relation, tuple[Layout, ...]]] = {}
        self._skip = False
        self._xid = 0
        self._commit_time = 0
        self.t = position.t
        self.reached = position.t
        self.rows_waiting = 0

    # Transactions that come whole

    def await_last(self) -> None:
        """The log has to bring the transaction again that was taken last, before anything that is new; or it is another
        log.
        """
        self._awaits_last = self.position.last is not None

    def _pass_over(self, xid: int, end_lsn: int, time: int) -> None:
        """A transaction that was taken before."""
        if self.position.is_last(xid, end_lsn, time):
            self._awaits_last = False

    def _take_new(self) -> None:
        """Raises OtherLog."""
        if self._awaits_last:
            raise OtherLog("the log does not have the transaction that was taken last")
        self.t = self._next_time()

    def begin(self, begin: Begin) -> None:
        self._skip = begin.commit_lsn < self.position.lsn
        self._xid = begin.xid
        self._commit_time = begin.commit_time
        if not self._skip:
            self._take_new()

    def _next_time(self) -> int:
        """Not before what others have reached: a view over several databases has a change only when all are that far.
        So when our clock is put back nobody waits until it has caught up.
        """
        return next_time(max(self.t, self.reached - 1), self._outside.now())

    def change(self, relation: Relation, change: RowChange) -> None:
        if not self._skip:
            for layout in self._sources_of(relation):
                self._take_change(self.targets[layout.captured.source], layout, change)

    def _take_change(self, target: SpoolTarget, layout: Layout, change: RowChange) -> None:
        if target.unread:
            return
        if target.window is not None:
            transaction = target.window.transaction(self._xid)
            for key, known in find_touched(layout, change):
                transaction.add(key, known)
        if target.holding is not None:
            self._hold(target.holding, layout, change)
            return
        add_change(target.rows, layout, change, self.t)
        self.rows_waiting += 1
        if len(target.rows) >= ROWS_PER_FILE:
            self.flush(target)

    def _hold(self, holding: Holding, layout: Layout, change: RowChange) -> None:
        if holding.holds(self._xid):
            rows = holding.changed.rows_of(layout.captured)
            add_change(rows, layout, change, self._xid)
            self._settle(holding.changed, rows)

    def truncate(self, relation: Relation) -> None:
        for layout in () if self._skip else self._sources_of(relation):
            if not layout.captured.appends:
                self._truncate(self.targets[layout.captured.source])

    def _truncate(self, target: SpoolTarget) -> None:
        if target.unread:
            return
        if target.window is not None:
            target.window.transaction(self._xid).truncated = True
        if target.holding is None:
            target.rows.mark(self.t, "t")
        elif target.holding.holds(self._xid):
            target.holding.changed.rows_of(target.captured).mark(self._xid, "t")

    def message(self, message: Message) -> None:
        if message.prefix == OUR_PREFIX and not self._skip:
            self._outside.on_mark(message.content, self._commit_time)

    def commit(self, commit: CommitMessage) -> None:
        if self._skip:
            self._pass_over(self._xid, commit.end_lsn, commit.commit_time)
        else:
            self._end_transaction(self._xid, commit.end_lsn, commit.commit_time)

    def _end_transaction(self, xid: int, end_lsn: int, commit_time: int) -> None:
        self.recent.append(xid)
        committed_at = self._outside.clock.committed_at(commit_time, self._outside.now())
        last = LastCommit(xid, commit_time, self.position.lsn) if self.comes_again else None
        self.position = replace(self.position, lsn=end_lsn, t=self.t, commit_time=committed_at, last=last)
        mark = CommitMark(self._outside.database, self.t, committed_at)
        # The first and the last of a batch: what a view lacks is measured from the first that it has not.
        if len(self._commit_marks) == 2:
            self._commit_marks.popitem()
        self._commit_marks[self.t] = mark

    # Transactions that come in parts while they are open

    def open_change(self, xid: int, relation: Relation, change: RowChange) -> None:
        for layout in self._sources_of(relation):
            spill = self._spill(xid)
            rows = spill.rows_of(layout.captured)
            add_change(rows, layout, change, change.xid)
            self._settle(spill, rows)

    def open_truncate(self, xid: int, relation: Relation, part: int) -> None:
        for layout in self._sources_of(relation):
            if not layout.captured.appends:
                self._spill(xid).rows_of(layout.captured).mark(part, "t")

    def open_message(self, xid: int, message: Message) -> None:
        """Marks of captures are in transactions of their own. What is here was written by a trigger of ours, and counts
        if it is committed.
        """
        if message.prefix == OUR_PREFIX:
            self._open_marks.setdefault(xid, []).append(message)

    def open_pause(self, xid: int) -> None:
        self._outside.answer()

    def open_abort(self, xid: int, part: int) -> None:
        if xid == part:
            self._open_marks.pop(xid, None)
            spill = self._open.pop(xid, None)
            if spill is not None:
                spill.delete()
        else:
            self._open_marks[xid] = [mark for mark in self._open_marks.get(xid, ()) if mark.xid != part]
            self._spill(xid).abort(part)

    def open_commit(self, commit: StreamCommit) -> None:
        spill, marks = self._open.pop(commit.xid, None), self._open_marks.pop(commit.xid, [])
        if commit.commit_lsn >= self.position.lsn:
            self._take_new()
            for mark in marks:
                self._outside.on_mark(mark.content, commit.commit_time)
            for source in () if spill is None else spill.sources:
                self._release_open(self.targets[source], spill, commit.xid)
            self._end_transaction(commit.xid, commit.end_lsn, commit.commit_time)
        else:
            self._pass_over(commit.xid, commit.end_lsn, commit.commit_time)
        if spill is not None:
            spill.delete()

    def _release_open(self, target: SpoolTarget, spill: Spill | None, xid: int) -> None:
        assert spill is not None
        if target.halted or target.unread:
            return
        if target.window is not None:
            target.window.transaction(xid).too_many = True
        holding = target.holding
        if holding is None:
            self.add_tables(target, spill.release(target.captured.source, self.t))
        elif holding.holds(xid):
            try:
                for table in spill.release(target.captured.source, xid):
                    holding.changed.add_table(target.captured, table)
            except UnheldValue as error:
                self.halt_at(target, error)

    def _spill(self, xid: int) -> Spill:
        if xid not in self._open:
            self._open[xid] = self._outside.spills.new()
        return self._open[xid]

    # Rows to files

    def flush(self, target: SpoolTarget) -> None:
        """Rows that have their time become a file. Values that the source cannot have stop it, and nothing else."""
        if not len(target.rows):
            return
        try:
            self._write(target, target.rows.take())
        except UnheldValue as error:
            self.halt_at(target, error)

    def add_tables(self, target: SpoolTarget, tables: Iterable[pa.Table]) -> None:
        """Rows that are columns already, of the present time, after those that came before."""
        self.flush(target)
        try:
            for table in tables:
                self._write(target, table)
                self.rows_waiting += table.num_rows
        except UnheldValue as error:
            self.halt_at(target, error)

    def _write(self, target: SpoolTarget, table: pa.Table) -> None:
        """Numbered here: what is in one time may have come by way of several spills."""
        numbers = np.arange(target.numbers, target.numbers + table.num_rows)
        target.numbers += table.num_rows
        table = table.set_column(table.schema.get_field_index("__n"), "__n", pa.array(numbers, pa.int64()))
        captured = target.captured
        stored = self._outside.store.write(captured.site, table, captured.log)
        target.pieces.append((stored, table.num_rows))
        self._outside.answer()

    def _settle(self, spill: Spill, rows: SpoolRows, at_once: bool = False) -> None:
        try:
            spill.settle(rows, at_once)
        except UnheldValue as error:
            self.halt_at(self.targets[rows.captured.source], error)

    def relieve(self) -> None:
        """Put everything that is in memory into files."""
        for target in self.targets.values():
            self.flush(target)
        held = [target.holding.changed for target in self.targets.values() if target.holding is not None]
        for spill in (*self._open.values(), *held):
            for rows in spill.in_memory:
                self._settle(spill, rows, at_once=True)

    def halt(self, target: SpoolTarget, why: str, drifted: bool = False, mend: str | None = None) -> None:
        """Nothing more goes to this source; what it had in this batch is not committed."""
        source = target.captured.source
        target.drifted, target.mend, target.unheld, target.look_at = drifted, mend, None, 0.0
        self._end_source(target, why)
        self.note(SourceStopped(source, why), SourceMend.remove(source) if mend is None else SourceMend(source, mend))

    def set_aside(self, target: SpoolTarget, why: str) -> None:
        """Nothing more goes to this source in this capture: what we hold of it is worthless, and it is read again."""
        self._end_source(target, why)
        self.note_obsolete(target, why)
        self.aside.append(f'source "{target.captured.source}" is read again: {why}')

    def _end_source(self, target: SpoolTarget, why: str) -> None:
        target.halted = why
        target.rows = SpoolRows(target.captured)
        target.pieces = []
        target.window = target.holding = None
        for spill in self._open.values():
            spill.forget_source(target.captured.source)
        self._layouts.clear()

    def note_obsolete(
        self, target: SpoolTarget, why: str, missed: SourceMissed | None = None, tell: bool = True
    ) -> None:
        """Has the source read from the start, by this capture or the next. `missed` is since when it was wrong, if that
        was noted; `tell` whether nobody has told of it.
        """
        source, t = target.captured.source, target.t
        self.note(SourceLoading(source, repeats=t is not None), SourceFingerprint.remove(source))
        if t is not None:
            self.note(missed or SourceMissed(source, t), SourceObsolete(source, why))
            self._events += [SourcesReread(self._outside.now(), (source,), reason=why)] if tell else []

    def halt_at(self, target: SpoolTarget, unheld: UnheldValue) -> None:
        """Halts a source at a value: it goes on once the value is gone from its table."""
        source = target.captured.source
        large = f"; if its table is large, run `headrace sources reread {source}`" if unheld.key is None else ""
        self.halt(target, str(unheld), mend=MEND_VALUE + large)
        target.unheld = unheld

    def note(self, *changes: NoteChange) -> None:
        """Commits these with the batch."""
        self._notes += changes

    def forget_layouts(self) -> None:
        """What tables look like in the log is compared anew with what we know of them."""
        self._layouts.clear()

    def _sources_of(self, relation: Relation) -> tuple[Layout, ...]:
        known = self._layouts.get(id(relation))
        if known is None or known[0] is not relation:
            known = self._layouts[id(relation)] = (relation, self._outside.resolve(relation))
        return known[1]

    # The batch as a whole

    def take_commit(self) -> Commit | None:
        """What there is to commit, None if nothing. The caller commits it, then calls `committed`."""
        for target in self.targets.values():
            self.flush(target)
        if not self._commit_marks and not self._notes:
            return None
        edits = tuple(self._edit(target) for target in self.targets.values() if not target.halted)
        position = self.position.to_note(self._outside.database)
        return Commit(
            edits,
            (*self._notes, position),
            tuple(self._commit_marks.values()),
            events=(*self._tell_rows(), *self._events),
        )

    def _tell_rows(self) -> tuple[ChangesCaptured, ...]:
        """Tells of each row once: the event is part of the commit that brings the row."""
        waiting = [target for target in self.targets.values() if target.pieces and not target.halted]
        rows_of = {target.captured.source: sum(rows for _, rows in target.pieces) for target in waiting}
        return (ChangesCaptured(self._outside.now(), self._outside.database, rows_of),) if rows_of else ()

    def _edit(self, target: SpoolTarget) -> Edit:
        captured = target.captured
        after = self._start if target.t is None else target.t
        pieces = tuple(
            stored.as_piece(PieceKind.CHANGE, after, self.position.t, rows) for stored, rows in target.pieces
        )
        start = self._start if target.t is None else None
        return Edit(captured.log, target.t, self.position.t, pieces, start=start, site=captured.site)

    @property
    def _start(self) -> int:
        """Where logs that are new begin: before the first time of this batch."""
        return min(self._commit_marks, default=self.position.t + 1) - 1

    def committed(self) -> None:
        for target in self.targets.values():
            if not target.halted:
                target.t = self.position.t
                target.pieces = []
        self._notes, self._events = [], []
        self._commit_marks = {}
        self.rows_waiting = 0
