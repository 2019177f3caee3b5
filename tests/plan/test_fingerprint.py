"""Fingerprints: equal for other spellings, different for other meanings, which evaluation decides."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headrace.declare.sql import read_query
from headrace.meaning.evaluate import evaluate
from headrace.meaning.zset import ZSet
from headrace.model.block import Block
from headrace.model.errors import EvaluationError, UnsupportedSql
from headrace.model.relation import Relation, fields_of
from headrace.plan.canonical.blocks import blocks_of
from headrace.plan.canonical.expression_key import key_of
from headrace.plan.canonical.fingerprint import fingerprint_of, fingerprint_of_part, part_of
from headrace.testing import SCHEMA, Tables, relations, tables
from tests.plan.query_pairs import DIFFERENT, EQUAL
from tests.plan.rewrites import Editor, Rewriter


def fingerprint(sql: str) -> str:
    return fingerprint_of(read_query(sql, SCHEMA))


def block(sql: str, view: str = "v") -> Block:
    return blocks_of(view, read_query(sql, SCHEMA))[-1]


@pytest.mark.parametrize(("left", "right"), EQUAL)
def test_other_spellings_have_the_same_fingerprint(left, right):
    assert fingerprint(left) == fingerprint(right)


@pytest.mark.parametrize(("left", "right"), DIFFERENT)
def test_other_meanings_have_other_fingerprints(left, right):
    assert fingerprint(left) != fingerprint(right)


@given(pair=st.sampled_from(EQUAL), sample=tables())
def test_pairs_called_equal_have_the_same_rows(pair, sample):
    left, right = (read_query(sql, SCHEMA) for sql in pair)
    assert rows_by_meaning(left, sample) == rows_by_meaning(right, sample)


def rows_by_meaning(query: Relation, sample: Tables) -> ZSet:
    """Rows with their columns ordered, and once each, by what they are and not by what they are called."""
    names = [field.name for field in fields_of(query)]
    places = {key_of(o.expr): names.index(o.name) for o in reversed(blocks_of("v", query)[-1].outputs)}
    order = [places[key] for key in sorted(places)]
    return ZSet((tuple(row[place] for place in order), weight) for row, weight in evaluate(query, sample).items())


@st.composite
def pairs(draw: st.DrawFn, changed_by: Callable[[st.DrawFn], Rewriter | Editor]) -> tuple[Relation, Relation]:
    relation = draw(relations())
    return relation, changed_by(draw).relation(relation)


def fingerprints(left: Relation, right: Relation) -> tuple[str, str]:
    try:
        return fingerprint_of(left), fingerprint_of(right)
    except UnsupportedSql:
        assume(False)
        raise


@given(pairs(Rewriter))
def test_rewriting_a_query_keeps_its_fingerprint(pair):
    left, right = fingerprints(*pair)
    assert left == right


@given(pairs(Editor), st.lists(tables(), min_size=3, max_size=3))
def test_queries_with_equal_fingerprints_have_the_same_rows(pair, samples):
    left, right = fingerprints(*pair)
    if left == right:
        for sample in samples:
            try:
                rows = [rows_by_meaning(query, sample) for query in pair]
            except EvaluationError:
                continue
            assert rows[0] == rows[1]


# Parts


def test_part_that_is_the_whole_block_has_its_fingerprint():
    whole = block("select r.k, r.n, s.price from r join s on r.k = s.k where r.x > 5")
    assert fingerprint_of_part(whole, frozenset(("r", "s"))) == whole.fingerprint


def test_part_is_shared_by_joins_that_need_the_same_of_it():
    two = block("select r.k, r.n, s.price from r join s on r.k = s.k where r.x > 5")
    three = block("select r.n, s.price from r join s on r.k = s.k join t on t.k = s.k where r.x > 5", view="w")
    assert fingerprint_of_part(three, frozenset("rs")) == two.fingerprint
    assert part_of(three, frozenset("rs")).columns == (("r", "k"), ("r", "n"), ("s", "price"))


def test_part_with_another_filter_or_other_columns_is_another():
    first = block("select r.n from r join s on r.k = s.k where r.x > 5")
    second = block("select r.n from r join s on r.k = s.k where r.x > 6")
    third = block("select r.name from r join s on r.k = s.k where r.x > 5")
    parts = {fingerprint_of_part(one, frozenset("r")) for one in (first, second, third)}
    assert len(parts) == 3
    assert len({fingerprint_of_part(one, frozenset("s")) for one in (first, second, third)}) == 1


def test_aliases_of_one_source_with_equal_filters_are_one_part():
    joined = block("select a.n, b.n as m from r a join r b on a.k = b.k where a.x > 5 and b.x > 5")
    first, second = (part_of(joined, frozenset((alias,))) for alias in ("r#1", "r#2"))
    assert first.fingerprint == second.fingerprint
    assert second.aliases == {"r#2": "r"}


def test_part_of_a_self_join_is_numbered_anew():
    three = block(
        "select a.n, b.x, c.k from r a join r b on a.k = b.k join r c on b.n = c.n where a.id = 1 and b.id = 2"
    )
    two = block("select a.n, b.x, b.n as m from r a join r b on a.k = b.k where a.id = 1 and b.id = 2")
    fixed = {one.alias for one in three.filters}
    assert fingerprint_of_part(three, frozenset(fixed)) == two.fingerprint


def test_part_carries_columns_of_conditions_that_wait_for_other_inputs():
    joined = block("select r.name from r join s on r.k = s.k where r.n < s.n")
    assert part_of(joined, frozenset("r")).columns == (("r", "k"), ("r", "n"), ("r", "name"))


def test_part_of_an_outer_join_carries_what_it_is_joined_by():
    joined = block("select r.name, s.price from r left join s on r.k = s.k")
    assert part_of(joined, frozenset("s")).columns == (("s", "k"), ("s", "price"))


def test_parts_over_equal_inner_blocks_of_different_views_are_equal():
    sql = "select r.name, q.c from r join (select k, count(*) c from s group by k) q on r.k = q.k where r.n {} 3"
    first, second = block(sql.format("<"), "first"), block(sql.format(">"), "second")
    assert first.fingerprint != second.fingerprint
    assert fingerprint_of_part(first, frozenset(("first/1",))) == fingerprint_of_part(second, frozenset(("second/1",)))


# Other properties


def test_query_that_reads_the_time_is_shared_with_no_other_view():
    query = read_query("select k from r where at > now() - interval '1 day'", SCHEMA)
    assert blocks_of("first", query)[-1].fingerprint != blocks_of("second", query)[-1].fingerprint
    assert blocks_of("first", query)[-1].fingerprint == blocks_of("first", query)[-1].fingerprint


def test_names_and_order_of_outputs_are_not_part_of_the_fingerprint():
    assert block("select n as a, k as b, k as c from r").fingerprint == block("select k, n from r", "w").fingerprint


@pytest.mark.parametrize("count", [2, 3, 4])
def test_numbering_of_a_self_join_does_not_depend_on_the_order_of_writing(count):
    names = [f"x{number}" for number in range(count)]
    chain = [f"{left}.k = {right}.n" for left, right in pairwise(names)]
    forward = f"select {names[0]}.id from {', '.join(f'r {n}' for n in names)} where {' and '.join(chain)}"
    backward = (
        f"select {names[0]}.id from {', '.join(f'r {n}' for n in reversed(names))} where {' and '.join(chain[::-1])}"
    )
    assert fingerprint(forward) == fingerprint(backward)


def test_self_join_of_many_is_told_apart_by_what_is_said_of_each():
    names = [f"x{number}" for number in range(6)]
    chain = " and ".join(f"{left}.k = {right}.n" for left, right in pairwise(names))
    filters = " and ".join(f"{name}.id = {number}" for number, name in enumerate(names))
    forward = f"select x0.id from {', '.join(f'r {n}' for n in names)} where {chain} and {filters}"
    backward = f"select x0.id from {', '.join(f'r {n}' for n in reversed(names))} where {filters} and {chain}"
    assert fingerprint(forward) == fingerprint(backward)


PROGRAM = """
from headrace.declare.sql import read_query
from headrace.plan.canonical.blocks import blocks_of
from headrace.testing import SCHEMA
from tests.plan.query_pairs import EQUAL
for pair in EQUAL:
    for sql in pair:
        print(blocks_of("v", read_query(sql, SCHEMA)))
"""


def test_blocks_are_the_same_in_every_process():
    outputs = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_join_of_six_sources_has_one_fingerprint_in_whatever_order_it_is_written():
    sources = {f"{name}{number}": SCHEMA[name] for name in ("r", "s", "t") for number in (1, 2)}
    named = {name: replace(source, name=name) for name, source in sources.items()}
    conditions = [f"{left}.k = {right}.k" for left, right in pairwise(named)]
    shown = ", ".join(f"{n}.{c.name} as {n}_{c.name}" for n, source in named.items() for c in source.columns or ())
    sql = "select {} from {} where {} and r1.x > 5 and s2.label = 'a'"
    forward = sql.format(shown, ", ".join(named), " and ".join(conditions))
    backward = sql.format(shown, ", ".join(reversed(named)), " and ".join(conditions[::-1]))
    assert len({fingerprint_of(read_query(one, named)) for one in (forward, backward)}) == 1
