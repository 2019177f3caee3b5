"""The engine on Spark over relations of any size, fed as capture feeds it, without a database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.connect.files import FileStore
from headrace.connect.ledger.sqlite import open_sqlite
from headrace.model.catalogue import Catalogue
from headrace.model.log import Commit, Edit, Piece, PieceKind
from headrace.model.plan import PlanOptions
from headrace.plan.make import make_plan
from headrace.run.capture.spool import spool_log
from headrace.run.compile.columns import serving_log, view_outputs
from headrace.run.compile.compile_plan import compile_plan
from headrace.run.logs.upkeep import Upkeep
from headrace.run.operators.ingest import KEPT, NUMBER, OPERATION
from headrace.run.ports import Runner
from headrace.run.push.engine import Engine
from headrace.run.push.push import Pushed
from headrace.run.rows.changes import TIME
from headrace.run.views.view import rows_at

START = 1_000
SPOOL_ROWS = 1_000_000
"""Of one file; capture writes smaller ones."""

Batch = Mapping[str, tuple[pa.Table, pa.Array]]
"""Rows of sources and their operations."""


@dataclass
class EngineWorld:
    catalogue: Catalogue
    folder: Path
    runner: Runner[Any]
    options: PlanOptions = field(default_factory=PlanOptions)
    refuse: bool = False
    """Whether contracts may be refused; they are not kept then."""
    now: int = START
    written: dict[str, int] = field(default_factory=dict)
    _known: set[tuple[str, str]] = field(default_factory=set)
    _inodes: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.plan = make_plan(self.catalogue, self.options)
        assert self.refuse or not self.plan.rejected, self.plan.rejected
        self.store = FileStore(self.folder / "data")
        self.ledger = open_sqlite(self.folder / "ledger.db")
        self.lease = self.ledger.acquire("service", "bench", 1e9)
        self.program = compile_plan(self.plan)
        self.engine = Engine(self.program, self.ledger, self.store, self.runner, self.lease)
        self.upkeep = Upkeep(self.engine)
        edits = [
            Edit(spool_log(name), None, START, start=START, site=source.site)
            for name, source in self.catalogue.sources.items()
        ]
        self.ledger.commit(self.lease, Commit(tuple(edits)))

    def capture(self, batch: Batch) -> int:
        """One transaction; its time."""
        t = self.now + 10
        edits = [
            Edit(spool_log(name), self.now, t, tuple(self._spooled(name, *batch[name], t)) if name in batch else ())
            for name in self.catalogue.sources
        ]
        self.ledger.commit(self.lease, Commit(tuple(edits)))
        self.now = t
        return t

    def _spooled(self, source: str, rows: pa.Table, operations: pa.Array, t: int) -> list[Piece]:
        count = rows.num_rows
        table = rows.rename_columns([f"{source}.{name}" for name in rows.column_names])
        table = table.append_column(TIME, pa.array(np.full(count, t)))
        table = table.append_column(NUMBER, pa.array(np.arange(count)))
        table = table.append_column(OPERATION, operations)
        table = table.append_column(KEPT, pa.nulls(count, pa.list_(pa.string())))
        pieces = []
        for start in range(0, count, SPOOL_ROWS):
            part = table.slice(start, SPOOL_ROWS)
            stored = self.store.write(self.catalogue.sources[source].site, part, f"spool-{source}-{t}")
            pieces.append(stored.as_piece(PieceKind.CHANGE, self.now, t, part.num_rows))
        return pieces

    def vertex_of(self, contract: str) -> str:
        return next(one.vertex for one in self.plan.contracts if one.contract == contract)

    def rows_at_start(self, contract: str) -> int:
        """Rows of a view as it was loaded."""
        vertex = self.vertex_of(contract)
        return sum(piece.rows for piece in self.ledger.logs([vertex])[vertex].of_kind(PieceKind.BASE))

    def read_view(self, contract: str) -> pa.Table:
        """The rows of a view as people read them, now."""
        one = next(one for one in self.plan.contracts if one.contract == contract)
        name = serving_log(self.program, one)
        log, columns = self.ledger.logs([name])[name], self.program.logs[name].columns
        return rows_at(self.store, log, columns, view_outputs(self.plan, self.program, one), log.t)

    def push(self, contract: str) -> list[Pushed]:
        """Brings one view to now, with all that it needs, as the scheduler does."""
        return self.push_vertices(self.engine.upstream([self.vertex_of(contract)]))

    def push_vertices(self, vertices: list[str]) -> list[Pushed]:
        return checked(self.engine.push_chains(dict.fromkeys(vertices, self.now)))

    # Bytes

    def note_written(self) -> None:
        """Adds what was written since the last time, by kind of piece; a file that several logs name, or that has
        several names, counts once: as changes rather than as an index, and as an index rather than as a base.
        """
        kinds = [PieceKind.CHANGE, PieceKind.INDEX, PieceKind.BASE]
        for log in self.ledger.logs(set(self.program.logs)).values():
            for piece in sorted(log.pieces, key=lambda piece: kinds.index(piece.kind)):
                if (log.site, piece.file) not in self._known:
                    self._known.add((log.site, piece.file))
                    found = (self.store.root / log.site / piece.file).stat()
                    if found.st_nlink == 1 or found.st_ino not in self._inodes:
                        self.written[piece.kind] = self.written.get(piece.kind, 0) + piece.bytes
                    self._inodes.add(found.st_ino)

    def keep_up(self) -> int:
        """Does all upkeep that is due; how many pieces of work."""
        steps = 0
        while self.upkeep.step():
            self.note_written()
            steps += 1
        return steps


def checked(pushed: list[Pushed]) -> list[Pushed]:
    for one in pushed:
        assert one.error is None, f"{one.vertex}: {one.error}"
    return pushed


def inserts(rows: pa.Table) -> tuple[pa.Table, pa.Array]:
    return rows, pa.array(np.full(rows.num_rows, "u"))
