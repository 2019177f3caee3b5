"""Views compared with their queries, evaluated from scratch on what the source databases hold at the same time.

    cut        a snapshot of every database, and one time t: the snapshots see exactly what was captured up to t
    push       every view to t, and its rows as of t
    evaluate   each query over the snapshots' tables, without anything that the engine made

Times of different databases are given by different captures. So writers of all databases wait together, until each
capture has come to the mark that its snapshot stands at; t is the latest time of these marks. Whatever is committed
after that has later times, which is verified: a cut that something was captured into is made again.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headrace.connect.postgres.cut import CUT_MARK, DatabaseCut
from headrace.declare.variables import fill
from headrace.model.catalogue import Catalogue, PostgresTable, Refresh, SourceKind
from headrace.model.errors import ConnectError
from headrace.model.full_query import FullQuery
from headrace.model.log import Round
from headrace.model.names import name_of_view
from headrace.model.plan import ContractPlan
from headrace.model.relation import Relation, scans_of
from headrace.model.types import Row
from headrace.run.arrow import rows_of_arrow
from headrace.run.capture.spool import MISSED_NOTE, STOPPED_NOTE, captured_table, spool_log
from headrace.run.changes import TIME
from headrace.run.columns import view_outputs
from headrace.run.functions import Functions
from headrace.run.ports import Ledger
from headrace.run.recompute import rows_here
from headrace.run.same_rows import differing
from headrace.run.view import rows_at
from headrace.service.databases import Database, databases_of
from headrace.service.reading import Reader
from headrace.service.service import WANTED_NOTE

EXAMPLES = 3
ATTEMPTS = 10
TRIES_IN_FULL = 3
LOOK_EVERY_S = 0.02
HELD_AT_MOST_S = 3.0
"""How long writers wait for captures; then they go on, and the cut is made again."""
CAUGHT_UP_WITHIN_S = 60.0
QUICK_S = 1.5
"""A capture that comes to a mark within this time is not behind."""

HERE_AT_MOST = 300_000
"""Rows of tables that one process evaluates a query over; Spark does, if there are more."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What the databases hold at time t, microseconds: tables by source, with columns named `source.column`."""

    t: int
    tables: Mapping[str, pa.Table]
    functions: Functions = ()

    def rows(self, query: Query) -> int:
        return sum(self.tables[source].num_rows for source in sources_of(query))


Query = Relation | FullQuery
"""What a view means, or, where that is not understood, its text."""

Evaluate = Callable[[Query, Cut], Iterable[Row]]


@dataclass(frozen=True, slots=True)
class Recomputed:
    """How a view compares with its query at time t: rows that it lacks, and rows that it has too many.

    `examples` are some of them, as rows of the view.
    """

    view: str
    contract: str
    site: str
    t: int
    rows: int
    missing: int
    extra: int
    examples_missing: tuple[Row, ...] = ()
    examples_extra: tuple[Row, ...] = ()

    @property
    def equal(self) -> bool:
        return not self.missing and not self.extra


@dataclass(frozen=True, slots=True)
class Recomputation:
    """`left_out` are views that cannot be compared, and why."""

    views: tuple[Recomputed, ...]
    left_out: Mapping[str, str]

    @property
    def equal(self) -> bool:
        return all(view.equal for view in self.views)

    def document(self) -> list[dict[str, object]]:
        """As `audit --json` has it."""
        return [
            {
                "view": one.view,
                "contract": one.contract,
                "equal": one.equal,
                "t": one.t,
                "rows": one.rows,
                "missing": one.missing,
                "extra": one.extra,
            }
            for one in self.views
        ]


def evaluate_here(query: Query, cut: Cut) -> Iterable[Row]:
    """By the reference, in this process; a text needs Spark."""
    if isinstance(query, FullQuery):
        raise ConnectError("the audit of a view that only Spark can evaluate needs Spark")
    return rows_here(query, cut.tables, cut.t, cut.functions)


def recompute(
    reader: Reader, environment: Mapping[str, str], push: Callable[[int], object], evaluate: Evaluate = evaluate_here
) -> Recomputation:
    """All views of what runs. `push` brings them to a time, or waits until they are there.

    A view that is refreshed in full is known at the times of its pushes alone: one that was pushed past the time of the
    cut in the meantime is compared again.
    """
    catalogue, contracts = reader.plan.catalogue, reader.plan.contracts
    left_out = {name_of_view(one.view): why for one in contracts if (why := _why_not(reader, one)) is not None}
    compared = [one for one in contracts if name_of_view(one.view) not in left_out]
    found: dict[str, Recomputed] = {}
    for _ in range(TRIES_IN_FULL):
        found |= {one.contract: one for one in _compared_at_a_cut(reader, environment, push, evaluate, compared)}
        compared = [one for one in compared if _in_full(catalogue, one) and not found[one.contract].equal]
        if not compared:
            break
    return Recomputation(tuple(found.values()), left_out)


def _in_full(catalogue: Catalogue, contract: ContractPlan) -> bool:
    return catalogue.contracts[contract.contract].refresh is Refresh.FULL


def _compared_at_a_cut(
    reader: Reader,
    environment: Mapping[str, str],
    push: Callable[[int], object],
    evaluate: Evaluate,
    compared: Collection[ContractPlan],
) -> Iterator[Recomputed]:
    catalogue = reader.plan.catalogue
    used = frozenset(source for one in compared for source in _sources(catalogue, one.view))
    databases = databases_of(catalogue, used)
    with _cut(reader, databases, environment) as (cuts, t):
        push(t)
        _wait(reader.ledger, {one.vertex: f'the view of contract "{one.contract}"' for one in compared}, t)
        views = {one.contract: _rows_at(reader, one, t) for one in compared}
        tables = {source: cuts[database.name].rows(source) for database in databases for source in database.sources}
    cut = Cut(t, tables, reader.program.functions)
    expected: dict[str, list[Row]] = {}
    for one in compared:
        if one.view not in expected:
            expected[one.view] = list(evaluate(_query(catalogue, one.view), cut))
        yield _compared(one, expected[one.view], views[one.contract], t)


def _rows_at(reader: Reader, contract: ContractPlan, t: int) -> pa.Table:
    """Read as soon as the view is there: it moves on, and its log is compacted behind it."""
    log = reader.ledger.logs([contract.vertex]).get(contract.vertex)
    if log is None or log.t < t or (log.base_t is not None and log.base_t > t):
        raise ConnectError(
            f'the view of contract "{contract.contract}" moved on before it was read', "try again: nothing is wrong"
        )
    outputs = view_outputs(reader.plan, reader.program, contract.view, contract.vertex)
    columns, functions = reader.program.logs[contract.vertex].columns, reader.program.functions
    return rows_at(reader.store, log, columns, outputs, t, functions)


def _compared(contract: ContractPlan, expected: list[Row], view: pa.Table, t: int) -> Recomputed:
    rows = rows_of_arrow(view)
    missing, extra = differing(expected, rows)
    return Recomputed(
        name_of_view(contract.view),
        contract.contract,
        contract.site,
        t,
        len(rows),
        len(missing),
        len(extra),
        tuple(missing[:EXAMPLES]),
        tuple(extra[:EXAMPLES]),
    )


def _query(catalogue: Catalogue, view: str) -> Query:
    query, recomputed = catalogue.views[view].query, catalogue.views[view].recomputed
    found = query if isinstance(query, Relation) else recomputed
    assert isinstance(found, Query), f'view "{view}" is kept, so it can be evaluated'
    return found


def sources_of(query: Query) -> frozenset[str]:
    if isinstance(query, FullQuery):
        return frozenset(query.reads)
    return frozenset(scan.source for scan in scans_of(query))


def _sources(catalogue: Catalogue, view: str) -> frozenset[str]:
    return sources_of(_query(catalogue, view))


def _why_not(reader: Reader, contract: ContractPlan) -> str | None:
    """Why a view cannot be compared with what the databases hold now; None if it can."""
    notes, catalogue = reader.ledger.notes(), reader.plan.catalogue
    for name in sorted(_sources(catalogue, contract.view)):
        source = catalogue.sources[name]
        if source.kind is SourceKind.STREAM:
            return f'source "{name}" is a stream: what was inserted counts, not what is left'
        if not isinstance(source.origin, PostgresTable):
            return f'source "{name}" is not a table of a database'
        if STOPPED_NOTE + name in notes:
            return f'source "{name}" is stopped: {notes[STOPPED_NOTE + name]}'
        if MISSED_NOTE + name in notes:
            return f'source "{name}" is being read again'
    return None if contract.vertex in reader.ledger.times() else "it is not loaded"


# The cut


@contextmanager
def _cut(
    reader: Reader, databases: tuple[Database, ...], environment: Mapping[str, str]
) -> Iterator[tuple[Mapping[str, DatabaseCut], int]]:
    """Snapshots by database, and their time."""
    catalogue, ledger = reader.plan.catalogue, reader.ledger
    with ExitStack() as stack:
        cuts = {
            one.name: stack.enter_context(
                DatabaseCut(
                    fill(one.dsn, environment), tuple(captured_table(catalogue.sources[name]) for name in one.sources)
                )
            )
            for one in databases
        }
        for _ in range(ATTEMPTS):
            _catch_up(ledger, cuts)
            times = _attempt(ledger, cuts)
            if times is not None:
                t = max(times.values(), default=0)
                if not any(_captured_between(reader, one, times[one.name], t) for one in databases):
                    yield cuts, t
                    return
                for cut in cuts.values():
                    cut.drop_snapshot()
    raise ConnectError(
        "no moment was found at which nobody writes to the databases",
        "a transaction that stays open keeps it away; try again when it is over",
    )


def _catch_up(ledger: Ledger, cuts: Mapping[str, DatabaseCut]) -> None:
    """Waits until captures are not behind: writers must not wait for that."""
    deadline = time.monotonic() + CAUGHT_UP_WITHIN_S
    for database, cut in cuts.items():
        while True:
            started = time.monotonic()
            if _times_of(ledger, {database: cut.mark()}, CAUGHT_UP_WITHIN_S) is None or started > deadline:
                raise ConnectError(
                    f'the capture of database "{database}" is behind', "`headrace status` says what it does"
                )
            if time.monotonic() - started < QUICK_S:
                break


def _attempt(ledger: Ledger, cuts: Mapping[str, DatabaseCut]) -> Mapping[str, int] | None:
    """The time of each snapshot; None if there are none, because the locks or the captures took too long."""
    locked: list[DatabaseCut] = []
    try:
        for cut in cuts.values():
            if not cut.lock():
                return None
            locked.append(cut)
        marks = {database: cut.mark() for database, cut in cuts.items()}
        for cut in cuts.values():
            cut.take_snapshot()
        times = _times_of(ledger, marks, HELD_AT_MOST_S)
    finally:
        for cut in locked:
            cut.release()
    if times is None:
        for cut in cuts.values():
            cut.drop_snapshot()
    return times


def _times_of(ledger: Ledger, marks: Mapping[str, str], within_s: float) -> Mapping[str, int] | None:
    """The times at which captures came to marks."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        notes = ledger.notes(CUT_MARK)
        found = dict(note.split(" ") for note in notes.values())
        if all(name in found for name in marks.values()):
            return {database: int(found[name]) for database, name in marks.items()}
        time.sleep(LOOK_EVERY_S)
    return None


def _captured_between(reader: Reader, database: Database, after: int, upto: int) -> bool:
    """Whether something was captured that the snapshot does not see, but a view at the cut's time has."""
    _wait(reader.ledger, {spool_log(source): f'source "{source}"' for source in database.sources}, upto)
    logs = reader.ledger.logs([spool_log(source) for source in database.sources])
    for log in logs.values():
        for piece in log.changes(after, upto):
            times = reader.store.read(log.site, piece.file, [TIME]).column(TIME)
            if pc.any(pc.and_(pc.greater(times, after), pc.less_equal(times, upto))).as_py():
                return True
    return False


def ask_for_views(reader: Reader) -> Callable[[int], None]:
    """A `push` for who is not the service: asks it to, and does not wait."""

    def push(t: int) -> None:
        lease = reader.ledger.acquire("audit", f"{platform.node()}:{os.getpid()}", CAUGHT_UP_WITHIN_S)
        try:
            reader.ledger.commit(lease, Round(notes={WANTED_NOTE: str(t)}))
        finally:
            reader.ledger.release(lease)

    return push


def _wait(ledger: Ledger, logs: Mapping[str, str], t: int, within_s: float = CAUGHT_UP_WITHIN_S) -> None:
    """Until logs have reached a time; with what people call them."""
    deadline = time.monotonic() + within_s
    while True:
        times = ledger.times()
        late = [what for name, what in logs.items() if times.get(name, t) < t]
        if not late:
            return
        if time.monotonic() > deadline:
            raise ConnectError(f"{late[0]} does not move on", "`headrace status` says what is wrong with it")
        time.sleep(LOOK_EVERY_S)
