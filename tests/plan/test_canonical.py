"""Canonical expressions and conditions, judged by their values on random rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.declare.sql import read_query
from headrace.meaning.scalar import evaluate
from headrace.model.block import Aggregation
from headrace.model.errors import EvaluationError
from headrace.model.expr import FALSE, Call, Column, Expr, Literal, conjunction
from headrace.model.relation import Field
from headrace.model.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, Value
from headrace.plan.canonical.blocks import blocks_of
from headrace.plan.canonical.expression_key import compact, expr_json, key_of
from headrace.plan.canonical.expression_text import aggregate_text, predicate_text
from headrace.plan.canonical.expressions import canonical
from headrace.plan.canonical.predicates import MAX_CLAUSES, canonical_conjuncts
from headrace.testing import SCHEMA, values
from headrace.testing.expressions import ScalarMaker
from headrace.testing.tables import COLUMN_TYPES
from tests.plan.conditions import call, conditions, rows

FIELDS = tuple(Field(f"a.{type_}", type_) for type_ in COLUMN_TYPES)


@st.composite
def expressions(draw: st.DrawFn) -> Expr:
    return ScalarMaker(draw, FIELDS).make(draw(st.sampled_from(COLUMN_TYPES)), draw(st.integers(1, 4)))


def value(expr: Expr, row: dict[str, Value]) -> Value:
    try:
        return evaluate(expr, row)
    except EvaluationError:
        return "fails"


def same(left: Value, right: Value) -> bool:
    return left == right or (left != left and right != right)


@given(expressions(), st.lists(st.fixed_dictionaries({f.name: values(f.type) for f in FIELDS}), min_size=5, max_size=5))
def test_canonical_expression_has_the_same_value_for_every_row(expr, sample):
    found = canonical(expr)
    for row in sample:
        before, after = value(expr, row), value(found, row)
        assert same(before, after) or before == "fails", f"{expr}\n{found}\n{row}"


@given(conditions(), st.lists(rows(), min_size=10, max_size=10))
def test_canonical_condition_is_true_for_the_same_rows_and_null_where_a_value_is_asked_for(condition, sample):
    found, parts = canonical(condition), conjunction(canonical_conjuncts(condition))
    for row in sample:
        truth = evaluate(condition, row)
        assert evaluate(found, row) is truth, f"{condition}\n{found}\n{row}"
        assert (evaluate(parts, row) is True) is (truth is True), f"{condition}\n{parts}\n{row}"


@given(conditions())
def test_canonical_form_of_a_canonical_form_is_itself(condition):
    found, parts = canonical(condition), conjunction(canonical_conjuncts(condition))
    assert key_of(canonical(found)) == key_of(found)
    assert key_of(conjunction(canonical_conjuncts(parts))) == key_of(parts)


@given(conditions(max_leaves=5), conditions(max_leaves=5), st.lists(rows(), min_size=20, max_size=20))
def test_conditions_with_equal_conjuncts_let_the_same_rows_pass(left, right, sample):
    if canonical_conjuncts(left) == canonical_conjuncts(right):
        assert [evaluate(left, row) is True for row in sample] == [evaluate(right, row) is True for row in sample]


@given(conditions())
def test_the_key_of_an_expression_is_its_json(condition):
    assert key_of(condition) == compact(expr_json(condition))


def filter_texts(condition: str) -> tuple[str, ...]:
    block = blocks_of("v", read_query(f"select id from r where {condition}", SCHEMA))[-1]
    return tuple(text for one in block.filters for text in one.texts)


TEXTS = {
    "n > 100": ("n > 100",),
    "100 < n": ("n > 100",),
    "not n <= 100": ("n > 100",),
    "name = 'en'": ("name = 'en'",),
    "name = 'it\\'s'": (r"name = 'it\'s'",),
    "n > 1.0": ("n > 1",),
    "x > 1": ("x > 1",),
    "x > 0.1": ("x > 0.1",),
    "amount > 1.50": ("amount > 1.5",),
    "n between 1 and 5": ("n <= 5", "n >= 1"),
    "n not between 1 and 5": ("n < 1 OR n > 5",),
    "n in (30, 4, 4)": ("n IN (4, 30)",),
    "n in (4)": ("n = 4",),
    "n not in (1, 2)": ("n NOT IN (1, 2)",),
    "n <> 1": ("n <> 1",),
    "n > 1 and n <> 3 and n <> 4 and n < 9": ("n < 9", "n > 1", "n NOT IN (3, 4)"),
    "n < 1 or n > 5 or n = 3": ("n < 1 OR n >= 3", "n <= 3 OR n > 5"),
    "n < 1 or k = 2": ("k = 2 OR n < 1",),
    "n > 5 or n <= 5": ("n IS NOT NULL",),
    "n is null or n > 5": ("n > 5 OR n IS NULL",),
    "n > 5 and n < 3": ("FALSE",),
    "n > 5 and (n < 3 or k = 1)": ("k = 1", "n > 5"),
    "n > 5 and (n > 3 or k = 1)": ("n > 5",),
    "(n > 5 or k = 1) and (n > 3 or k = 1)": ("k = 1 OR n > 5",),
    "(n > 5 or k = 1) and (n < 3 or k = 1)": ("k = 1 OR n < 3", "k = 1 OR n > 5"),
    "ok": ("ok",),
    "ok = false": ("NOT ok",),
    "ok is not false": ("ok IS NOT FALSE",),
    "(n = 1) is not false": ("n = 1 OR n IS NULL",),
    "name like 'a%'": ("name LIKE 'a%'",),
    "not name like 'a%'": ("name NOT LIKE 'a%'",),
    "name like 'abc'": ("name = 'abc'",),
    "lower(name) = 'a' and lower(name) <> 'b'": ("lower(name) = 'a'",),
    "day >= date '2024-01-01'": ("day >= DATE '2024-01-01'",),
    "at < '2024-01-01 00:00:00'::timestamp": ("at < TIMESTAMP '2024-01-01 00:00:00'",),
    "n = id": ("id = n",),
    "n >= id and n <= id": ("id = n",),
    "k = id and id = 5": ("id = 5", "k = 5"),
    "n + k > 5": ("n + k > 5",),
    "k + n > 5": ("n + k > 5",),
    "n - (k - 1) > 5": ("n - (k - 1) > 5",),
    "case when ok then n else 0 end > 3": ("CASE WHEN ok THEN n ELSE 0L END > 3",),
}


@pytest.mark.parametrize(("written", "texts"), TEXTS.items(), ids=list(TEXTS))
def test_text_of_a_filter_is_readable_sql_without_alias(written, texts):
    assert filter_texts(written) == texts


@pytest.mark.parametrize("written", TEXTS)
def test_text_of_a_filter_read_as_sql_is_the_same_filter(written):
    texts = filter_texts(written)
    assert filter_texts(" and ".join(f"({text})" for text in texts)) == texts


def test_condition_that_can_fail_stays_behind_its_guard():
    assert filter_texts("1 / n > 2 and n <> 0") == ("n <> 0", "1.0D / n > 2")


def test_alternatives_with_guards_of_their_own_are_not_taken_apart():
    (text,) = filter_texts("(n <> 0 and 1 / n > 2) or (k <> 0 and 1 / k > 2)")
    assert text.count("<> 0 AND") == 2


def test_condition_that_would_need_too_many_clauses_stays_whole():
    alternatives = " or ".join(f"(n = {i} and k = {i} and id = {i} and name = '{i}')" for i in range(5))
    (text,) = filter_texts(alternatives)
    assert MAX_CLAUSES < 4**5
    assert text.count(" OR ") == 4
    reordered = " or ".join(f"(id = {i} and '{i}' = name and k = {i} and n = {i})" for i in reversed(range(5)))
    assert filter_texts(reordered) == (text,)


def test_what_all_alternatives_need_is_needed_alone():
    assert filter_texts("(n = 1 and k = 2) or (k = 2 and n = 3)") == ("k = 2", "n IN (1, 3)")


def test_nan_is_larger_than_every_integer():
    k = Column("a.k", INT)
    condition = call("<", Call("cast", (k,), DOUBLE), Literal(float("nan"), DOUBLE))
    assert evaluate(conjunction(canonical_conjuncts(condition)), {"a.k": 5}) is True


def test_number_is_not_compared_as_the_text_that_spells_it():
    number, text = Literal(1, BIGINT), Literal("1", STRING)
    assert key_of(canonical(call("=", Column("a.n", BIGINT), number))) != key_of(
        canonical(call("=", Column("a.n", STRING), text))
    )


def test_sums_are_not_regrouped():
    a, b, c = (Column(f"a.{name}", INT) for name in "abc")
    left = Call("+", (Call("+", (a, b), INT), c), INT)
    right = Call("+", (a, Call("+", (b, c), INT)), INT)
    assert key_of(canonical(left)) != key_of(canonical(right))


def test_contradiction_is_false_and_nothing_else():
    assert canonical_conjuncts(Call("and", (Column("a.o", BOOLEAN), call("not", Column("a.o", BOOLEAN))), BOOLEAN)) == (
        FALSE,
    )


def test_texts_of_aggregates_and_residuals_name_their_aliases():
    query = "select r.k, sum(s.price) p, count(*) c, count(distinct s.n) d from r, s where r.n < s.n group by r.k"
    block = blocks_of("v", read_query(query, SCHEMA))[-1]
    assert isinstance(block.top, Aggregation)
    assert [residual.text for residual in block.residuals] == ["r.n < s.n"]
    assert [aggregate_text(one) for one in block.top.calls] == ["count(DISTINCT s.n)", "count(*)", "sum(s.price)"]


def test_text_keeps_the_type_of_a_constant_that_is_computed_with():
    assert predicate_text(Call("+", (Column("a.x", DOUBLE), Literal(0.5, DOUBLE)), DOUBLE)) == "x + 0.5D"
