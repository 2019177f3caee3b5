"""A join whose many changes share few keys makes the changes that it makes of them one by one."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from headrace.model.expr import Column
from headrace.model.relation import Field
from headrace.model.types import INT, STRING
from headrace.run.logs.key_index import KeyIndex, make_indexes
from headrace.run.operators import reading
from headrace.run.operators.join import join
from headrace.run.operators.reading import Contents
from headrace.run.program import JoinStep, LogReading, LookupKey
from headrace.run.rows.arrow import rows_of_arrow
from headrace.run.rows.changes import consolidate
from headrace.testing.engines import difference

MADE = (Field("a.k", STRING), Field("a.n", INT), Field("b.n", INT))
STEP = JoinStep(
    LogReading("a", {"a.k": Column("a.k", STRING), "a.n": Column("a.n", INT)}, order=(0,)),
    LogReading("b", {"b.n": Column("b.n", INT)}, order=(1,), key=LookupKey(("b.k",))),
    on=("a.k",),
)
STAMPS = [("__t", "int64"), ("__o", "int32"), ("__w", "int64")]


def stamped(side: str, rows: list[tuple[str, int, int, int, int]]) -> pa.Table:
    types = [(f"{side}.k", pa.string()), (f"{side}.n", pa.int32())]
    types += [(name, pa.type_for_alias(text)) for name, text in STAMPS]
    columns = zip(*rows, strict=True)
    return pa.table(
        [pa.array(column, type_) for column, (_, type_) in zip(columns, types, strict=True)], [n for n, _ in types]
    )


def with_history(numbers: random.Random) -> pa.Table:
    """Rows that come and mostly go again, at times before and within the batch."""
    rows = []
    for n in range(300):
        key, came = numbers.choice("abcdef"), numbers.randrange(1, 12)
        rows.append((key, n % 9, came, 0, 1))
        if numbers.random() < 0.8:
            rows.append((key, n % 9, numbers.randrange(came, 13), 0, -1))
    return stamped("b", rows)


@pytest.mark.parametrize("seed", range(20))
def test_changes_that_share_keys_join_as_they_do_one_by_one(seed: int):
    numbers, (after, upto) = random.Random(seed), (5, 11)
    held = with_history(numbers)
    cut = numbers.randrange(1, held.num_rows)
    indexes = [index for part in (held.slice(0, cut), held.slice(cut)) for index in make_indexes(part, ("b.k",), 1)]
    contents = Contents(STEP.relation, KeyIndex(("b.k",), tuple(indexes), held.schema), upto, settled=after)
    changes = stamped(
        "a", [(numbers.choice("abcxyz"), n, numbers.randrange(6, 12), 0, numbers.choice((1, -1))) for n in range(400)]
    )
    assert changes.num_rows >= reading.MANY
    together = join(STEP, changes, contents, MADE)
    alone = [join(STEP, changes.slice(n, 1), contents, MADE) for n in range(changes.num_rows)]
    assert together.num_rows > 50
    assert difference(rows_of_arrow(together), rows_of_arrow(consolidate(pa.concat_tables(alone)))) is None
