"""Views of random queries, pushed by the engine: every copy of them holds the same rows."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
from deltalake import DeltaTable
from hypothesis import HealthCheck, Phase, assume, given, reject, settings
from hypothesis import strategies as st
from psycopg import sql

from headrace.connect.delta_delivery import DeliveredFolder, DeltaDelivery
from headrace.connect.postgres.deliver import PostgresDelivery
from headrace.connect.postgres.delivered_table import DeliveredTable
from headrace.meaning.zset import ZSet
from headrace.model.errors import EvaluationError
from headrace.model.log import Log
from headrace.model.relation import Field, Output
from headrace.run.compile.columns import serving_log, view_outputs
from headrace.run.ports import Delivery
from headrace.run.push.engine import NoAnswer
from headrace.run.rows.arrow import _ours, rows_of_arrow
from headrace.run.views.deliver import deliver
from headrace.testing import SCHEMA, changes, queries, tables
from headrace.testing.worlds import RunningWorld
from tests.examples import examples
from tests.run.test_engine import SITES, check, world_of

# Each example takes long, and shrinking tries hundreds.
FEW = settings(
    deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck), max_examples=examples(12)
)


def view_of(world: RunningWorld) -> tuple[Log, tuple[Field, ...], tuple[Output, ...]]:
    planned = world.plan.contracts[0]
    name = serving_log(world.program, planned)
    outputs = view_outputs(world.plan, world.program, planned)
    return world.ledger.logs([name])[name], world.program.logs[name].columns, outputs


def held(dsn: str, names: list[str]) -> ZSet:
    query = sql.SQL("SELECT {} FROM delivered").format(sql.SQL(", ").join(map(sql.Identifier, names)))
    with psycopg.connect(dsn) as connection:
        return ZSet.of(tuple(map(_ours, row)) for row in connection.execute(query))


def start(data: st.DataObject, text: str, folder: Path) -> RunningWorld:
    try:
        world = world_of([text], SITES[0], folder)
        assume(world.plan.contracts)
        world.capture(data.draw(tables(max_rows=4)))
        world.engine.load()
    except (EvaluationError, NoAnswer):
        reject()
    return world


@settings(FEW)
@given(data=st.data(), text=queries(SCHEMA))
def test_every_copy_of_a_view_holds_its_rows_after_every_push(postgres_dsn, data, text):
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        world = start(data, text, Path(place))
        _, _, outputs = view_of(world)
        columns = tuple(Field(output.name, output.expr.type) for output in outputs)
        assume(len({column.name.casefold() for column in columns}) == len(columns))
        table = DeliveredTable("delivered", columns, "p", "c", "v", text, 60.0)
        folder = DeliveredFolder(Path(place) / "delta", columns, "p", "c", "v", text, 60.0)
        in_postgres, in_delta = PostgresDelivery(postgres_dsn, table, 1), DeltaDelivery(folder, 1)
        stack.enter_context(closing(in_postgres))
        copies: tuple[Delivery, ...] = (in_postgres, in_delta)
        for _ in range(3):
            log, fields, outputs = view_of(world)
            for copy in copies:
                deliver(copy, world.store, log, fields, outputs)
            expected = ZSet.of(rows_of_arrow(world.rows("c_v0")))
            assert held(postgres_dsn, [column.name for column in columns]) == expected
            assert ZSet.of(rows_of_arrow(DeltaTable(str(folder.path)).to_pyarrow_table())) == expected
            world.capture(data.draw(changes(world.history[world.now])))
            check(world.engine.push(sorted(world.program.tasks), world.now))
        in_postgres.drop()
