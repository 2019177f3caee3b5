"""Blocks mean what the query means, and look as the plan document wants them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headrace.declare.read import read_project
from headrace.declare.sql import read_query
from headrace.meaning.evaluate import evaluate
from headrace.model.block import Aggregation, Block, Derivation, DerivationKind
from headrace.model.catalogue import Refusal
from headrace.model.errors import EvaluationError, UnsupportedSql
from headrace.model.expr import FALSE, Call, Column, walk
from headrace.model.relation import (
    Field,
    Join,
    JoinKind,
    Output,
    Projection,
    Relation,
    UnionAll,
    Windows,
    fields_of,
)
from headrace.model.types import BOOLEAN, INT, TIMESTAMP
from headrace.plan.canonical.block_relation import relation_of
from headrace.plan.canonical.blocks import blocks_of
from headrace.plan.canonical.expression_text import predicate_text
from headrace.testing import SCHEMA, relations, tables
from tests.plan.query_pairs import DIFFERENT, EQUAL

SHARED = Path(__file__).parents[3] / "shared"
COLUMNS = {name: tuple(Field(c.name, c.type) for c in source.columns or ()) for name, source in SCHEMA.items()}


def blocks(sql: str) -> tuple[Block, ...]:
    return blocks_of("v", read_query(sql, SCHEMA))


def blocks_or_reject(query: Relation) -> tuple[Block, ...]:
    try:
        return blocks_of("v", query)
    except UnsupportedSql:
        assume(False)
        raise


@given(relations(), tables())
def test_blocks_have_the_rows_of_the_query(query, sample):
    found = relation_of(blocks_or_reject(query), COLUMNS)
    assert fields_of(found) == fields_of(query)
    try:
        rows = evaluate(query, sample)
    except EvaluationError:
        return
    assert evaluate(found, sample) == rows


@given(sql=st.sampled_from([sql for pair in (*EQUAL, *DIFFERENT) for sql in pair]), sample=tables())
def test_blocks_of_sql_have_the_rows_of_the_query(sql, sample):
    query = read_query(sql, SCHEMA)
    assert evaluate(relation_of(blocks_of("v", query), COLUMNS), sample) == evaluate(query, sample)


@given(relations())
def test_every_block_reads_sources_and_blocks_before_it(query):
    known = set(SCHEMA)
    for block in blocks_or_reject(query):
        assert {input_.source for input_ in block.inputs} <= known
        assert set(block.keep) <= {input_.alias for input_ in block.inputs}
        known.add(block.id)
    assert block.id == "v"


@given(relations())
def test_no_two_blocks_of_a_query_are_the_same(query):
    found = [block.fingerprint for block in blocks_or_reject(query)]
    assert len(set(found)) == len(found)


def test_joins_and_views_are_flat():
    (block,) = blocks(
        "with a as (select k, n from r where x > 1), b as (select k, price * 2 as twice from s) "
        "select a.n, b.twice from a join b on a.k = b.k join t on t.k = a.k where t.ok"
    )
    assert [input_.alias for input_ in block.inputs] == ["r", "s", "t"]
    assert block.classes == ((("r", "k"), ("s", "k"), ("t", "k")),)
    assert [(one.alias, one.text) for one in block.filters] == [("r", "x > 1"), ("t", "ok")]
    assert block.keep == {"r": ("n",), "s": ("price",)}
    assert block.top is None


def test_constant_holds_for_the_whole_class():
    (block,) = blocks("select r.n from r join s on r.k = s.k where s.k = 5")
    assert [(one.alias, one.text) for one in block.filters] == [("r", "k = 5"), ("s", "k = 5")]
    assert block.classes == ((("r", "k"), ("s", "k")),)


def test_columns_of_one_alias_in_a_class_are_also_its_filter():
    (block,) = blocks("select r.n from r join s on r.k = s.k and r.id = s.k")
    assert block.classes == ((("r", "id"), ("r", "k"), ("s", "k")),)
    assert [(one.alias, one.text) for one in block.filters] == [("r", "id = k")]


def test_self_join_numbers_its_aliases_and_forgets_those_written():
    (block,) = blocks("select old.n, young.name from r old, r young where old.k = young.k and young.x > 1")
    assert {input_.alias for input_ in block.inputs} == {"r#1", "r#2"}
    assert {input_.source for input_ in block.inputs} == {"r"}


def test_group_by_and_having_are_one_block():
    (block,) = blocks("select k + 1 as j, sum(n) as s from r where ok group by k having sum(n) > 10 and k > 2")
    assert isinstance(block.top, Aggregation)
    assert [(key.name, predicate_text(key.expr)) for key in block.top.keys] == [("k", "k")]
    assert block.top.having is not None
    assert predicate_text(block.top.having) == "sum_n > 10"
    assert [one.text for one in block.filters] == ["k > 2 AND ok"]
    assert [(output.name, predicate_text(output.expr)) for output in block.outputs] == [("j", "k + 1"), ("s", "sum_n")]


def test_window_is_part_of_the_group_by():
    (block,) = blocks("select window.start as w, count(*) c from r group by window(at, '10 minutes', '5 minutes')")
    assert isinstance(block.top, Aggregation)
    assert block.top.window is not None
    assert (block.top.window.size_ms, block.top.window.slide_ms, block.top.window.offset_ms) == (600_000, 300_000, 0)
    assert block.keep == {"r": ("at",)}


def test_group_by_over_a_join_of_sides_reads_an_inner_block():
    inner, own = blocks("select r.k, count(s.n) c from r left join s on r.k = s.k group by r.k")
    assert (inner.id, own.id) == ("v/1", "v")
    assert isinstance(inner.top, Derivation)
    assert inner.top.kind is DerivationKind.LEFT
    assert own.inputs[0].source == "v/1"
    assert own.inputs[0].fingerprint == inner.fingerprint


def test_join_under_an_outer_join_is_an_inner_block():
    inner, own = blocks("select r.n, t.x from r join s on r.k = s.k left join t on t.k = r.k")
    assert inner.top is None
    assert [input_.alias for input_ in own.inputs] == ["v/1", "t"]


def test_source_under_an_outer_join_is_read_as_it_is_with_its_filter():
    (block,) = blocks("select r.n, t.x from r left join (select * from t where ok) t on t.k = r.k where r.n > 1")
    assert [(one.alias, one.text) for one in block.filters] == [("r", "n > 1"), ("t", "ok")]


def test_value_that_would_not_become_null_is_computed_before_the_outer_join():
    inner, own = blocks("select r.n, q.one from r left join (select k, 1 as one from t) q on q.k = r.k")
    assert [output.name for output in inner.outputs] == ["k", "constant"]
    assert own.inputs[1].source == "v/1"


def test_subquery_that_is_read_twice_is_one_block():
    found = blocks(
        "with q as (select k, count(*) c from r group by k) select a.c, b.c as d from q a join q b on a.c = b.k"
    )
    assert [block.id for block in found] == ["v/1", "v"]
    assert {input_.alias for input_ in found[-1].inputs} == {"v/1#1", "v/1#2"}


def test_union_all_reads_columns_of_each_branch():
    (block,) = blocks("select k, 'r' as tag from r where n > 1 union all select k, 's' from s")
    assert isinstance(block.top, Derivation)
    assert block.top.kind is DerivationKind.UNION_ALL
    texts = [[predicate_text(column.expr) for column in branch] for branch in block.top.columns]
    assert texts == [["k", "'r'"], ["k", "'s'"]]


def test_top_k_keeps_the_order_of_columns_that_break_ties():
    (block,) = blocks("select name, n, k from r order by n limit 3")
    assert isinstance(block.top, Derivation)
    assert [column.name for column in block.top.columns[0]] == ["n", "name", "k"]


@given(sample=tables())
def test_fields_of_a_right_join_stay_in_place_where_a_union_counts_them(sample):
    left, right = read_query("select k as a, n as b from r", SCHEMA), read_query("select k as c, n as d from s", SCHEMA)
    on = Call("=", (Column("a", INT), Column("c", INT)), BOOLEAN)
    joined = Join(JoinKind.RIGHT, left, right, on)
    query = UnionAll((joined, read_query("select id as e, n as f, k as g, n + 1 as h from r", SCHEMA)))
    assert evaluate(relation_of(blocks_of("v", query), COLUMNS), sample) == evaluate(query, sample)


def test_contradiction_is_an_empty_view_of_one_source():
    (block,) = blocks("select r.n, s.n as m from s join r on r.k = s.k where r.x > 5 and r.x < 3")
    assert [input_.alias for input_ in block.inputs] == ["r"]
    assert [one.conjuncts for one in block.filters] == [(FALSE,)]


def test_aggregate_of_nothing_is_still_one_row():
    (block,) = blocks("select count(*) c from r where 1 = 0")
    assert isinstance(block.top, Aggregation)


def test_tumbling_windows_that_nobody_groups_by_are_columns():
    rows = read_query("select k, at from r", SCHEMA)
    (block,) = blocks_of("v", Windows(rows, Column("at", TIMESTAMP), 1000, 1000, 0, "start", "end"))
    assert block.top is None
    assert "window_start" in {
        node.function for output in block.outputs for node in walk(output.expr) if isinstance(node, Call)
    }


def test_windows_that_nobody_groups_by_are_refused_if_a_row_is_in_very_many():
    rows = read_query("select k, at from r", SCHEMA)
    with pytest.raises(UnsupportedSql, match="a row is in 1,000 windows"):
        blocks_of("v", Windows(rows, Column("at", TIMESTAMP), 1_000_000, 1000, 0, "start", "end"))


def test_expression_that_doubles_at_every_level_is_refused_before_it_fills_the_memory():
    query = read_query("select k as x from r", SCHEMA)
    for _ in range(40):
        doubled = Call("+", (Column("x", INT), Column("x", INT)), INT)
        query = Projection(query, (Output("x", doubled),))
    with pytest.raises(UnsupportedSql, match="written out"):
        blocks_of("v", query)


@pytest.mark.skipif(not SHARED.exists(), reason="the shared examples are not beside the project")
@pytest.mark.parametrize("example", ["missing-middle", "projected-and-filtered", "worked-join"])
def test_blocks_are_those_of_the_example_plans(example):
    document = json.loads((SHARED / "examples" / example / "plan.json").read_text())
    catalogue = read_project(SHARED / "examples" / example, {})
    for expected in document["views"]:
        view, sources = catalogue.views[expected["id"]], catalogue.sources
        assert not isinstance(view.query, Refusal)
        (block,) = blocks_of(view.name, view.query)
        assert {input_.alias for input_ in block.inputs} == set(expected["sources"])
        assert as_sets(block.classes) == as_sets(expected["classes"])
        assert [[one.alias, one.text] for one in block.filters] == [one[:2] for one in expected["filters"]]
        everything = {name: {c.name for c in sources[name].columns or ()} for name in expected["sources"]}
        kept = {alias: set(columns) for alias, columns in expected["keep"].items()} or everything
        assert {alias: set(columns) for alias, columns in block.keep.items()} == kept


def as_sets(classes):
    return {frozenset(map(tuple, members)) for members in classes}


def test_a_condition_that_follows_from_another_is_filtered_by_once():
    """An outer join's condition on one side, and the same by way of an equality."""
    first, *_ = blocks_of("v", read_query("SELECT r.id FROM r RIGHT JOIN t ON r.ok = t.ok AND r.ok", SCHEMA))
    assert all(len(set(one.texts)) == len(one.texts) for one in first.filters)
