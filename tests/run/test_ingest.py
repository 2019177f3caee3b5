"""Captured upserts, deletes, truncations and readings become exactly the changes of the table."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.meaning.zset import ZSet
from headrace.model.relation import Field
from headrace.model.types import BIGINT, INT, STRING, Array, Row
from headrace.run.logs.key_index import KeyIndex, make_indexes
from headrace.run.operators.ingest import KEPT, NUMBER, OPERATION, Stored, ingest
from headrace.run.operators.reading import schema_of
from headrace.run.program import Ingest
from headrace.run.rows.arrow import arrow_table, rows_of_arrow
from headrace.run.rows.changes import TIME, WEIGHT, contents
from tests.examples import examples

COLUMNS = (Field("t.k", INT), Field("t.v", STRING), Field("t.big", STRING))
STEP = Ingest("spool:t", COLUMNS, ("t.k",))
SPOOL = {field.name: field.type for field in COLUMNS} | {
    TIME: BIGINT,
    NUMBER: BIGINT,
    OPERATION: STRING,
    KEPT: Array(STRING),
}
KEYS = st.integers(0, 4)
TEXTS = st.sampled_from((None, "", "a", "é"))


@st.composite
def captured(draw: st.DrawFn, plain: bool) -> list[tuple[list[Row], int, dict[int, Row]]]:
    """Batches of captured rows (key, v, big, t, n, op, kept), with what a database could have done."""
    present: dict[int, Row] = {}
    batches, time, number = list[tuple[list[Row], int, dict[int, Row]]](), 10, 0
    for _ in range(draw(st.integers(1, 4))):
        batch: list[Row] = []
        for _ in range(draw(st.integers(0, 6))):
            time += draw(st.sampled_from((0, 0, 5)))
            number += 1
            kind = draw(st.sampled_from("uud" if plain else "uuudkmtr"))
            key = draw(KEYS)
            if kind == "u":
                present[key] = (key, draw(TEXTS), draw(TEXTS))
                batch.append((*present[key], time, number, "u", None))
            elif kind == "d":
                present.pop(key, None)
                batch.append((key, None, None, time, number, "d", None))
            elif kind == "k" and key in present:
                present[key] = (key, draw(TEXTS), present[key][2])
                batch.append((key, present[key][1], None, time, number, "u", ("big",)))
            elif kind == "m" and key in present:
                moved = draw(KEYS)
                if moved not in present:
                    old = present.pop(key)
                    present[moved] = (moved, old[1], old[2])
                    batch.append((key, None, None, time, number, "d", ("big",)))
                    number += 1
                    batch.append((moved, old[1], None, time, number, "u", ("big",)))
            elif kind == "t":
                present.clear()
                batch.append((None, None, None, time, number, "t", None))
            elif kind == "r":
                present = {k: row for k, row in present.items() if draw(st.booleans())}
                batch.append((None, None, None, time, number, "b", None))
                for row in present.values():
                    number += 1
                    batch.append((*row, time, number, "u", None))
                time += 1
                batch.append((None, None, None, time, number + 1, "e", None))
                number += 1
        time += 1
        batches.append((batch, time, dict(present)))
        time += 1
    return batches


def replay(batches) -> None:
    logs: list[pa.Table] = []
    spools: list[pa.Table] = []
    after = 0
    for batch, upto, present in batches:
        spool = arrow_table(SPOOL, batch)
        empty = schema_of(COLUMNS).empty_table()
        indexes = tuple(make_indexes(pa.concat_tables([empty, *logs]), ("t.k",), 1))
        stored = Stored(
            KeyIndex(("t.k",), indexes, empty.schema),
            lambda: contents([empty, *logs], after),  # noqa: B023 - called at once
            lambda: pa.concat_tables(spools) if spools else pa.table({}),
        )
        if batch:
            made = ingest(STEP, spool, stored).select(empty.schema.names).cast(empty.schema)
            assert all(after < t <= upto for t in made.column(TIME).to_pylist())
            logs.append(made)
            spools.append(spool)
        now = contents([empty, *logs], upto)
        names = [field.name for field in COLUMNS]
        held = ZSet(zip(rows_of_arrow(now.select(names)), now.column(WEIGHT).to_pylist(), strict=True))
        assert held == ZSet.of(present.values())
        after = upto


@settings(max_examples=examples(150))
@given(captured(plain=True))
def test_upserts_and_deletes_by_key_are_the_changes_of_the_table(batches):
    replay(batches)


@settings(max_examples=examples(150))
@given(captured(plain=False))
def test_kept_values_moved_keys_truncations_and_readings_are_too(batches):
    replay(batches)


def test_an_upsert_that_changes_nothing_leaves_no_trace():
    spool = arrow_table(SPOOL, [(1, "a", None, 5, 1, "u", None)])
    empty = schema_of(COLUMNS).empty_table()
    nothing = Stored(KeyIndex(("t.k",), (), empty.schema), lambda: empty, lambda: pa.table({}))
    first = ingest(STEP, spool, nothing).select(empty.schema.names).cast(empty.schema)
    stored = Stored(
        KeyIndex(("t.k",), tuple(make_indexes(first, ("t.k",), 1)), empty.schema), lambda: first, lambda: pa.table({})
    )
    again = arrow_table(SPOOL, [(1, "a", None, 9, 2, "u", None)])
    assert ingest(STEP, again, stored).num_rows == 0
