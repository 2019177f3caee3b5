"""The lookup join of a step makes the changes that a shuffle of both sides makes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from headrace.connect.files import FileStore
from headrace.model.expr import Call, Column, Literal
from headrace.model.relation import Field
from headrace.model.types import BOOLEAN, INT, STRING
from headrace.run.logs.key_index import KeyIndex, make_indexes
from headrace.run.operators.join import join
from headrace.run.operators.reading import Contents, read_rows
from headrace.run.program import JoinStep, LogReading, LookupKey
from headrace.run.rows.arrow import rows_of_arrow
from headrace.run.rows.changes import interval
from headrace.testing.engines import difference
from tests.live.log_tables import SITE, change_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

A = (Field("a.k", INT), Field("a.name", STRING))
B = (Field("b.k", INT), Field("b.n", INT))
MADE = (Field("a.k", INT), Field("a.name", STRING), Field("b.n", INT))
STEP = JoinStep(
    LogReading("a", {field.name: Column(field.name, field.type) for field in A}, order=(0,)),
    LogReading(
        "b",
        {"b.n": Column("b.n", INT)},
        order=(1,),
        filter=Call("<", (Column("b.n", INT), Literal(4, INT)), BOOLEAN),
        key=LookupKey(("b.k",)),
    ),
    on=("a.k",),
    residual=Call("<>", (Column("a.name", STRING), Literal("c", STRING)), BOOLEAN),
)


def history(seed: int, texts: bool) -> pa.Table:
    numbers = random.Random(seed)

    def value() -> str | int | None:
        return numbers.choice(["a", "b", "c", None]) if texts else numbers.choice([1, 2, 3, 4, 5, None])

    rows = [
        ((numbers.choice([1, 2, 3, None]), value()), numbers.randrange(1, 12), 0, numbers.choice([-1, 1, 2]))
        for _ in range(60)
    ]
    return change_rows({field.name: field.type for field in (A if texts else B)}, rows)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_lookup_join_makes_the_changes_of_a_shuffle_join(spark: SparkSession, tmp_path: Path, seed: int):
    from headrace.connect.spark.log_files import LogFiles
    from headrace.connect.spark.shuffle_join import JoinFiles, shuffle_join

    store, (left, right), (after, upto) = FileStore(tmp_path), (history(seed, True), history(-seed, False)), (3, 9)
    files = [
        LogFiles(SITE, tuple(store.write(SITE, part, "log") for part in (table.slice(0, 25), table.slice(25))), of)
        for table, of in ((left, A), (right, B))
    ]
    theirs = shuffle_join(spark, store, STEP, JoinFiles(*files), (after, upto), MADE).toArrow()
    contents = Contents(STEP.relation, KeyIndex(("b.k",), tuple(make_indexes(right, ("b.k",), 1)), right.schema), upto)
    ours = join(STEP, read_rows(STEP.changes, interval(left, after, upto)), contents, MADE)
    assert ours.num_rows > 10
    assert theirs.column_names == ours.column_names
    assert difference(rows_of_arrow(ours), rows_of_arrow(theirs)) is None
