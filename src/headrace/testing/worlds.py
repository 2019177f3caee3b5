"""A whole engine in a folder, with sources that change as a test says, and the answer that every view should have.

Changes enter as captured ones do, through spools; there is no database. Everything else is the real thing: a plan, a
ledger in SQLite, Arrow files, work items.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.connect.files import FileStore
from headrace.connect.ledger.sqlite import open_sqlite
from headrace.meaning.evaluate import Python, evaluate
from headrace.meaning.scalar_time import from_micros
from headrace.meaning.zset import EMPTY, ZSet
from headrace.model.log import Commit, Edit, Lease, Piece, PieceKind
from headrace.model.plan import Plan
from headrace.model.relation import Relation
from headrace.model.types import BIGINT, STRING, Array, Row, Type
from headrace.run.capture.spool import SPOOL, spool_log
from headrace.run.compile.columns import serving_log, source_fields, view_outputs
from headrace.run.compile.compile_plan import compile_plan
from headrace.run.load.transition import find_made_from
from headrace.run.operators.ingest import KEPT, NUMBER, OPERATION
from headrace.run.ports import Ledger, Runner
from headrace.run.push.engine import Engine
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform
from headrace.run.rows.arrow import arrow_table, rows_of_arrow
from headrace.run.rows.changes import TIME
from headrace.run.views.view import rows_at

START = 1_000


def quick_folder() -> tempfile.TemporaryDirectory[str]:
    """A temporary folder in memory where there is one: thousands of small commits need not wait for a disk."""
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)


@dataclass
class RunningWorld:
    """A plan that runs. `queries` are the views' meanings, `history` the tables at every time that was captured."""

    plan: Plan
    queries: Mapping[str, Relation]
    folder: Path
    runner: Runner[Any] | None = None
    start: int = START
    python: Python = field(default_factory=dict)
    history: dict[int, dict[str, ZSet]] = field(default_factory=dict)
    spooled: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store = FileStore(self.folder / "data")
        self.ledger: Ledger = open_sqlite(self.folder / "ledger.db", is_stored=self.store.has)
        self.lease: Lease = self.ledger.acquire("service", "test", 1e9)
        self.program = compile_plan(self.plan)
        self.sources = sorted(
            {
                name.removeprefix(SPOOL)
                for task in self.program.tasks.values()
                for name in task.reads
                if name.startswith(SPOOL)
            }
        )
        self.history[self.start] = dict.fromkeys(self.plan.catalogue.sources, EMPTY)
        edits = [Edit(spool_log(s), None, self.start, start=self.start, site=self._site(s)) for s in self.sources]
        self.ledger.commit(self.lease, Commit(tuple(edits)))
        self.now = self.start
        self.open()

    def open(self) -> None:
        """Opens the world as after a restart: everything comes from the ledger."""
        self.engine = Engine(self.program, self.ledger, self.store, self.runner or HereRunner(perform), self.lease)

    def _site(self, source: str) -> str:
        return self.plan.catalogue.sources[source].site

    # Sources

    def pass_time(self, step: int) -> int:
        """Nothing happens but time: captures go on with heartbeats."""
        return self.capture({}, step)

    def capture(self, changes: Mapping[str, ZSet], step: int = 10) -> int:
        """One transaction of all databases; its time."""
        t = self.now + step
        rows = {
            source: [(row, "i" if weight > 0 else "r") for row, weight in change.items() for _ in range(abs(weight))]
            for source, change in changes.items()
            if source in self.sources
        }
        self.capture_raw(rows, t)
        before = self.history[self.now]
        self.history[t] = {name: table + changes.get(name, EMPTY) for name, table in before.items()}
        self.now = t
        return t

    def capture_raw(self, rows: Mapping[str, Sequence[tuple[Row, str]]], t: int) -> None:
        """Rows with their operations, as a spool holds them."""
        edits = [
            Edit(spool_log(source), self.now, t, tuple(self._piece(source, rows.get(source, ()), t)))
            for source in self.sources
        ]
        self.ledger.commit(self.lease, Commit(tuple(edits)))

    def read_again(self, sources: Collection[str]) -> None:
        """Forgets what was captured of sources and all that was made from it, and reads them as they are now."""
        spools = [spool_log(source) for source in sorted(sources)]
        known = self.ledger.times()
        made = [name for name in (*spools, *sorted(find_made_from(self.program, spools))) if name in known]
        self.ledger.commit(self.lease, Commit(forget=tuple(made)))
        now, before = self.now, self.now - 1
        for source in sorted(sources):
            rows = [(row, "i") for row, weight in self.history[now][source].items() for _ in range(weight)]
            pieces = tuple(replace(piece, after=before) for piece in self._piece(source, rows, now))
            edit = Edit(spool_log(source), None, now, pieces, start=before, site=self._site(source))
            self.ledger.commit(self.lease, Commit((edit,)))

    def _piece(self, source: str, rows: Sequence[tuple[Row, str]], t: int) -> list[Piece]:
        if not rows:
            return []
        fields = source_fields(self.plan.catalogue, source)
        columns = {field.name: field.type for field in fields}
        extra: dict[str, Type] = {TIME: BIGINT, NUMBER: BIGINT, OPERATION: STRING, KEPT: Array(STRING)}
        table = arrow_table({**columns, **extra}, [(*row, t, n, op, None) for n, (row, op) in enumerate(rows)])
        stored = self.store.write(self._site(source), table, f"spool-{source}-{t}")
        return [stored.as_piece(PieceKind.CHANGE, self.now, t, table.num_rows)]

    # Views

    def rows(self, contract: str, t: int | None = None) -> pa.Table:
        """What a contract's view holds, now or as of an earlier time."""
        planned = next(one for one in self.plan.contracts if one.contract == contract)
        name = serving_log(self.program, planned)
        log = self.ledger.logs([name])[name]
        outputs, columns = view_outputs(self.plan, self.program, planned), self.program.logs[name].columns
        return rows_at(self.store, log, columns, outputs, log.t if t is None else t, self.program.functions)

    def time_of(self, contract: str) -> int:
        planned = next(one for one in self.plan.contracts if one.contract == contract)
        return self.ledger.times()[serving_log(self.program, planned)]

    def expected(self, contract: str, t: int) -> ZSet:
        planned = next(one for one in self.plan.contracts if one.contract == contract)
        at = max(time for time in self.history if time <= t)
        return evaluate(self.queries[planned.view], self.history[at], from_micros(t), self.python)

    def wrong(self) -> list[str]:
        """Contracts whose view differs from its query, as of the time that it has reached."""
        found = []
        for planned in self.plan.contracts:
            t = self.time_of(planned.contract)
            expected, actual = self.expected(planned.contract, t), ZSet.of(rows_of_arrow(self.rows(planned.contract)))
            if actual != expected:
                found.append(f"{planned.contract} at {t}: {actual - expected}")
        return found
