"""A service in this process with its background checks, which a test has run piece by piece, and ways to do it harm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa

from headrace.app.planning import plan_project
from headrace.coordinate.host import ServiceHost
from headrace.coordinate.perform import apply_plan
from headrace.model.event_wire import EventsAsked
from headrace.model.log import Commit, Edit, Log, Piece, PieceKind
from headrace.model.notes import Differing, note_keys
from headrace.model.plan import PlanOptions
from headrace.run.check.pace import CheckBudget
from headrace.run.check.rota import CheckKind, CheckRecord, CheckSubject
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform
from headrace.site.folder import Folder
from headrace.site.last_status import State
from headrace.site.reading import ViewReader
from headrace.site.service import Service
from tests.running.running_project import until

AT_ONCE = CheckBudget(cores=1e6, bytes_per_s=1e15, again_after_s=0.0)


class CheckedWorld:
    """The checks run only when a test asks for a piece."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.environment = environment
        self.service = Service(Folder(folder), environment, HereRunner(perform), in_processes=False)
        self.plan = plan_project(folder, environment, PlanOptions())
        self.service.open()
        self.host = ServiceHost(self.service, self.service.folder, lambda _: (_ for _ in ()).throw(AssertionError()))
        self.checking = self.host.make_checking(AT_ONCE)

    def load(self) -> None:
        loading = apply_plan(self.service, self.plan)
        assert loading.done.wait(120)
        assert loading.error is None
        self.host.become(State.RUNNING)

    @property
    def reader(self) -> ViewReader:
        assert self.service.rounds.state is not None
        return ViewReader(self.plan, self.service.rounds.state.program, self.service.ledger, self.service.store)

    def execute(self, database: str, statement: str) -> None:
        with psycopg.connect(self.environment[database], autocommit=True) as session:
            session.execute(statement.encode())

    # Checks

    def check_until(self, holds: Callable[[], bool], what: str) -> None:
        """Runs pieces until something holds."""

        def step_and_look() -> bool:
            self.checking.step()
            self.checking.report()
            return holds()

        try:
            until(step_and_look, what, every_s=0.1)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.checking.book.records}\n{self.checking.sources.suspects}") from error

    def check_until_found(self, kind: type[Differing], name: str) -> None:
        self.check_until(lambda: name in note_keys(self.service.ledger, kind), f"{name} is found")

    def check_until_kept(self, contract: str) -> None:
        self.check_until(lambda: self.state(contract) == "kept", f"{contract} is kept")

    def record(self, kind: CheckKind, name: str) -> CheckRecord:
        return self.checking.book.records.get(CheckSubject(kind, name), CheckRecord())

    def passes(self) -> dict[CheckSubject, float | None]:
        """When each subject was checked last."""
        return {subject: record.passed_at for subject, record in self.checking.book.records.items()}

    def check_all(self) -> None:
        """Every subject is looked at once more, or found unchanged."""
        self.checking.step()
        before = {subject: record.checked_at for subject, record in self.checking.book.records.items()}
        self.check_until(
            lambda: all(
                record.checked_at != before[subject] or record.finding.value == "not checked"
                for subject, record in self.checking.book.records.items()
            ),
            "all was checked",
        )

    # What people see

    def status(self) -> dict[str, Any]:
        return self.host.status()

    def state(self, contract: str) -> str:
        return str(next(one for one in self.status()["contracts"] if one["id"] == contract)["state"])

    def troubles(self) -> list[str]:
        return [one["what"] for one in self.status()["troubles"]]

    def events(self) -> list[str]:
        self.service.look()
        return [one.event.kind for one in self.service.ledger.events(EventsAsked(limit=100_000))]

    # Harm

    def log_of(self, name: str) -> Log:
        return self.service.ledger.logs([name])[name]

    def replace_rows(
        self, name: str, change: Callable[[pa.Table], pa.Table], kinds: tuple[PieceKind, ...] = (PieceKind.BASE,)
    ) -> None:
        """Replaces rows of a log's files behind everybody's back; the ledger agrees, so no checksum tells."""
        with self.service.turns.upkeep, self.service.turns.pushing:
            log = self.log_of(name)
            chosen = [piece for piece in log.pieces if piece.kind in kinds]
            made = [self._rewrite(log, piece, change) for piece in chosen]
            edit = Edit(name, log.t, log.t, tuple(made), tuple(piece.file for piece in chosen))
            self.service.ledger.commit(self.service.lease, Commit((edit,)))

    def _rewrite(self, log: Log, piece: Piece, change: Callable[[pa.Table], pa.Table]) -> Piece:
        rows = change(self.service.store.read(log.site, piece.stored))
        made = self.service.store.write(log.site, rows, "tampered")
        return made.as_piece(piece.kind, piece.after, piece.upto, rows.num_rows, piece.key, piece.shard, piece.shards)


def spoil_row(key: str, value: object, column: str, other: object) -> Callable[[pa.Table], pa.Table]:
    """Gives the row with a key another value in one column."""

    def change(rows: pa.Table) -> pa.Table:
        place, field = rows.column_names.index(column), rows.schema.field(column)
        both = zip(rows.column(key).to_pylist(), rows.column(column).to_pylist(), strict=True)
        values = [other if mine == value else before for mine, before in both]
        return rows.set_column(place, field, pa.array(values, field.type))

    return change


def lose_row(key: str, value: object) -> Callable[[pa.Table], pa.Table]:
    return lambda rows: rows.filter(pa.array([mine != value for mine in rows.column(key).to_pylist()], pa.bool_()))
