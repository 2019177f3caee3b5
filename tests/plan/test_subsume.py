"""What is read from a wider block has the rows of the narrower one."""

from __future__ import annotations

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from headrace.declare.sql import read_query
from headrace.meaning.evaluate import evaluate
from headrace.model.block import Block
from headrace.model.errors import EvaluationError
from headrace.model.expr import Column, conjunction
from headrace.model.relation import Aggregate, Field, Filter, Output, Projection, Relation, Windows
from headrace.model.types import TIMESTAMP
from headrace.plan.canonical.block_relation import relation_of
from headrace.plan.canonical.blocks import blocks_of
from headrace.plan.canonical.subsume import Remainder, subsumes
from headrace.testing import SCHEMA, tables

COLUMNS = {name: tuple(Field(c.name, c.type) for c in source.columns or ()) for name, source in SCHEMA.items()}

FIRST = "(select *, {1}() over (partition by k order by n desc) as rn from (select {0} from r) as i) as t where rn <= 2"
HOLDS = (
    ("select k, n from r where n > 1", "select k from r where n > 5"),
    ("select k, n from r", "select n + 1 as m from r where n in (3, 4)"),
    ("select k, n from r where n > 1 and n < 9", "select k from r where n = 5"),
    ("select k, n, name from r where n > 1", "select k from r where n > 1 and name like 'a%'"),
    ("select r.k, r.n, s.price from r join s on r.k = s.k", "select s.price from s join r on s.k = r.k where r.n > 1"),
    ("select k, name, count(*) c from r group by k, name", "select k, count(*) c from r group by k"),
    ("select k, count(*) c, sum(n) s from r group by k", "select count(*) c, sum(n) s from r"),
    ("select k, sum(n) s from r group by k", "select k, sum(n) s from r where k > 1 group by k having sum(n) > 2"),
    ("select k, avg(n) a, count(distinct id) d from r group by k", "select k, avg(n) a from r group by k"),
    ("select k, name, min(n) a, max(n) b from r group by k, name", "select name, max(n) b from r group by name"),
    ("select k, name, sum(k * n) s from r group by k, name", "select k, sum(k * n) s from r where k > 1 group by k"),
    (
        "select window.start w, k, count(*) c from r group by window(at, '10 minutes'), k",
        "select window.start w, count(*) c from r group by window(at, '1 hour')",
    ),
    # First rows. The whole row breaks ties, field by field, so a narrower row has to be the beginning of the wider.
    (
        f"select k, n, name from {FIRST.format('k, n, name', 'row_number')}",
        f"select n, k from {FIRST.format('k, n', 'row_number')}",
    ),
    (
        f"select k as a, n as b, name from {FIRST.format('k, n, name, x', 'row_number')}",
        f"select k from {FIRST.format('k, n, name', 'row_number')}",
    ),
    (
        f"select k, n, name from {FIRST.format('k, n, name', 'rank')}",
        f"select n, name, k from {FIRST.format('k, name, n', 'rank')}",
    ),
    (
        f"select k, n, name, rn from {FIRST.format('k, n, name', 'row_number')}",
        f"select n, rn from {FIRST.format('k, n', 'row_number')}",
    ),
    ("select k, n, name from r order by n limit 3", "select n from r order by n limit 3"),
    (
        f"select k, n, name from {FIRST.format('k, n, name', 'row_number')}",
        f"select n + 1 as m from {FIRST.format('k, n', 'row_number')}",
    ),
)
FAILS = (
    (
        f"select k, n, name from {FIRST.format('k, n, name', 'row_number')}",
        f"select n, k, x from {FIRST.format('k, n, x', 'row_number')}",
    ),
    (
        f"select k, n from {FIRST.format('k, n', 'row_number')}",
        f"select k, n, name from {FIRST.format('k, n, name', 'row_number')}",
    ),
    ("select k, n, name, x from r order by n limit 3", "select k, x, n from r order by n limit 3"),
    ("select k, n, 1 div n as m from r order by n limit 3", "select k, n from r order by n limit 3"),
    (
        f"select k, n, name from {FIRST.format('k, n, name', 'rank')}",
        f"select k, n from {FIRST.format('k, n', 'row_number')}",
    ),
    ("select k, n, name from r order by n limit 3", "select n from r order by n limit 2"),
    ("select k, n, name from r order by n limit 3", "select n from r order by n desc limit 3"),
    ("select k, n, name from r order by n limit 3", "select n from r where k > 1 order by n limit 3"),
    ("select k, n from r where n > 5", "select k from r where n > 1"),
    ("select k from r where n > 1", "select k from r where n > 5"),
    ("select k from r where n > 1", "select k, n from r where n > 1"),
    ("select k, n from r", "select k, n from s"),
    ("select r.k, r.n from r join s on r.k = s.k", "select r.k, r.n from r join s on r.n = s.n"),
    ("select k, n from r", "select distinct k from r"),
    ("select k, count(*) c from r group by k", "select name, count(*) c from r group by name"),
    ("select k, count(*) c from r group by k having count(*) > 1", "select count(*) c from r"),
    ("select k, name, avg(n) a from r group by k, name", "select k, avg(n) a from r group by k"),
    ("select k, name, count(distinct n) a from r group by k, name", "select k, count(distinct n) a from r group by k"),
    ("select k, name, sum(x) a from r group by k, name", "select k, sum(x) a from r group by k"),
    ("select k, count(*) c from r group by k", "select k, count(*) c from r where n > 1 group by k"),
    (
        "select window.start w, count(*) c from r group by window(at, '10 minutes')",
        "select window.start w, count(*) c from r group by window(at, '15 minutes')",
    ),
    ("select window.start w, count(*) c from r group by window(at, '10 minutes')", "select count(*) c from r"),
    # A row that has no answer in the wider must not stop the narrower.
    ("select k, avg(1 / n) a, count(*) c from r group by k", "select k, count(*) c from r group by k"),
    ("select k, avg(1 / n) a from r group by k", "select k, avg(1 / n) a from r where k > 1 group by k"),
    ("select k, 1 / n as m, count(*) c from r group by k, 1 / n", "select k, count(*) c from r group by k"),
    ("select k, n from r where 1 / n < 2", "select k from r where n <> 0 and 1 / n < 2"),
    ("select k, max(cast(name as int)) m, min(n) c from r group by k", "select k, min(n) c from r group by k"),
)


def own_block(sql: str, view: str) -> Block:
    return blocks_of(view, read_query(sql, SCHEMA))[-1]


def reread(wide: Relation, remainder: Remainder) -> Relation:
    rows: Relation = Filter(wide, conjunction(remainder.conjuncts))
    if remainder.aggregation is not None:
        top, keys = remainder.aggregation, remainder.aggregation.keys
        if top.window is not None:
            window, bounds = top.window, (top.window.start, top.window.end)
            rows = Windows(rows, window.time, window.size_ms, window.slide_ms, window.offset_ms, *bounds)
            keys = (*keys, *(Output(name, Column(name, TIMESTAMP)) for name in bounds))
        rows = Aggregate(rows, keys, top.calls)
        rows = rows if top.having is None else Filter(rows, top.having)
    return Projection(rows, remainder.outputs)


@given(pair=st.sampled_from(HOLDS), sample=tables())
def test_remainder_of_the_wider_block_has_the_rows_of_the_narrower(pair, sample):
    wide, narrow = (read_query(sql, SCHEMA) for sql in pair)
    remainder = subsumes(own_block(pair[0], "wide"), own_block(pair[1], "narrow"))
    assert remainder is not None, pair
    found = reread(relation_of(blocks_of("wide", wide), COLUMNS), remainder)
    assert evaluate(found, sample) == evaluate(narrow, sample), pair


@pytest.mark.parametrize(("wide", "narrow"), FAILS)
def test_block_that_lacks_rows_columns_or_groups_is_not_read(wide, narrow):
    assert subsumes(own_block(wide, "wide"), own_block(narrow, "narrow")) is None


@given(
    wide=st.sampled_from([sql for pair in (*HOLDS, *FAILS) for sql in pair]),
    narrow=st.sampled_from([sql for pair in (*HOLDS, *FAILS) for sql in pair]),
    sample=tables(),
)
def test_whatever_is_found_is_right(wide, narrow, sample):
    remainder = subsumes(own_block(wide, "wide"), own_block(narrow, "narrow"))
    if remainder is not None:
        try:
            expected = evaluate(read_query(narrow, SCHEMA), sample)
        except EvaluationError:
            reject()  # a query that has no answer is the same in no other way
        rows = relation_of(blocks_of("wide", read_query(wide, SCHEMA)), COLUMNS)
        assert evaluate(reread(rows, remainder), sample) == expected


def test_inner_blocks_of_two_views_are_the_same_input():
    sql = "select r.n, q.c from r join (select k, count(*) c from s group by k) q on r.k = q.k"
    remainder = subsumes(own_block(sql, "wide"), own_block(f"{sql} where r.n > 3", "narrow"))
    assert remainder is not None
    assert len(remainder.conjuncts) == 1


def test_what_both_compute_may_lack_answers():
    wide, narrow = "select k, max(1 / n) a, sum(k) s from r group by k", "select k, max(1 / n) a from r group by k"
    assert subsumes(own_block(wide, "wide"), own_block(narrow, "narrow")) is not None
