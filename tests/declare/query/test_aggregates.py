"""What each aggregate answers for a handful of rows, worked out by hand."""

from __future__ import annotations

import math

import pytest

from headrace.declare.sql import read_query
from headrace.meaning.evaluate import evaluate
from headrace.meaning.zset import ZSet
from headrace.model.errors import InputError
from headrace.model.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, Row, Value
from headrace.testing import make_source

T = {"t": make_source("t", {"id": INT, "x": INT, "y": DOUBLE, "name": STRING, "ok": BOOLEAN})}
ROWS: list[Row] = [
    (1, 4, 1.0, "b", True),
    (2, 1, 2.0, "a", None),
    (2, 1, 2.0, "a", None),
    (3, None, 3.0, "c", False),
    (4, 2, None, None, True),
]


def answer(expression: str, rows: list[Row] | None = None) -> Value:
    relation = read_query(f"SELECT {expression} AS value FROM t", T)
    (row,) = evaluate(relation, {"t": ZSet.of(ROWS if rows is None else rows)}).rows()
    return row[0]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("bool_and(ok)", False),
        ("every(ok) FILTER (WHERE id < 3)", True),
        ("bool_or(x > 3)", True),
        ("any(x > 4)", False),
        ("some(ok)", True),
        ("any_value(x)", 1),
        ("first(x)", 1),
        ("last(x) IGNORE NULLS", 4),
        ("var_pop(x)", 1.5),
        ("variance(x)", 2.0),
        ("stddev_pop(DISTINCT x)", math.sqrt(14 / 9)),
        ("stddev(x) FILTER (WHERE id = 1)", None),
        ("skewness(x)", math.sqrt(2 / 3)),
        ("kurtosis(x)", -1.0),
        ("covar_pop(x, y)", -2 / 3),
        ("covar_samp(x, y)", -1.0),
        ("corr(x, y)", -1.0),
        ("corr(x, 1)", None),
        ("corr(id, id)", 1.0),
        ("min_by(name, y)", "b"),
        ("max_by(x, y)", None),
        ("max_by(id, x) FILTER (WHERE id > 1)", 4),
        ("mode(x)", 1),
        ("mode() WITHIN GROUP (ORDER BY id DESC)", 2),
        ("mode() WITHIN GROUP (ORDER BY ok DESC)", True),
        ("median(x)", 1.5),
        ("median(DISTINCT x)", 2.0),
        ("percentile(x, 0.25)", 1.0),
        ("percentile_cont(0.9) WITHIN GROUP (ORDER BY y)", 2.7),
        ("percentile_cont(0) WITHIN GROUP (ORDER BY x DESC)", 4.0),
        ("percentile_disc(0.5) WITHIN GROUP (ORDER BY x)", 1.0),
        ("percentile_disc(0.5) WITHIN GROUP (ORDER BY name)", "a"),
        ("approx_percentile(x, 0.5, 100)", 1),
        ("approx_count_distinct(name)", 3),
        ("count(DISTINCT x, name)", 2),
        ("count(DISTINCT x) + count(DISTINCT name)", 6),
        ("bit_and(x)", 0),
        ("bit_or(x)", 7),
        ("bit_xor(id)", 1 ^ 3 ^ 4),
        ("bit_xor(DISTINCT id)", 1 ^ 2 ^ 3 ^ 4),
        ("array_agg(x)", (1, 1, 2, 4)),
        ("array_agg(id ORDER BY y DESC NULLS FIRST)", (4, 3, 2, 2, 1)),
        ("array_agg(x ORDER BY id) RESPECT NULLS", (4, 1, 1, None, 2)),
        ("array_agg(x) FILTER (WHERE id > 2) RESPECT NULLS", (None, 2)),
        ("collect_list(DISTINCT x)", (1, 2, 4)),
        ("collect_set(name)", ("a", "b", "c")),
        ("collect_set(name) FILTER (WHERE id > 9)", ()),
        ("string_agg(name, ', ')", "a, a, b, c"),
        ("string_agg(name, '/' ORDER BY id DESC)", "c/a/a/b"),
        ("listagg(DISTINCT name, '-') WITHIN GROUP (ORDER BY name DESC)", "c-b-a"),
        ("listagg(id)", "12234"),
        ("group_concat(name)", "a,a,b,c"),
        ("string_agg(name, NULL) FILTER (WHERE id > 9)", None),
    ],
)
def test_an_aggregate_of_a_few_rows(expression: str, expected: Value):
    found = answer(expression)
    assert found == pytest.approx(expected) if isinstance(expected, float) else found == expected


def test_equal_doubles_vary_by_nothing_at_all():
    rows: list[Row] = [(n, None, 0.1, None, None) for n in range(10)]
    assert answer("var_pop(y)", rows) == 0.0
    assert answer("skewness(y)", rows) is None


def test_a_correlated_list_of_nothing_is_empty():
    tables = {**T, "u": make_source("u", {"k": BIGINT})}
    text = "SELECT k, (SELECT collect_list(x) FROM t WHERE t.id = u.k) AS xs FROM u"
    rows = evaluate(read_query(text, tables), {"t": ZSet.of(ROWS), "u": ZSet.of([(2,), (9,)])})
    assert sorted(rows.rows()) == [(2, (1, 1)), (9, ())]


SETS = [
    ("ROLLUP (x, name)", [("x", "name"), ("x",), ()]),
    ("x, name WITH ROLLUP", [("x", "name"), ("x",), ()]),
    ("CUBE (x, name)", [("x", "name"), ("x",), ("name",), ()]),
    ("CUBE (x, (name, ok))", [("x", "name", "ok"), ("x",), ("name", "ok"), ()]),
    ("ok, ROLLUP (x)", [("ok", "x"), ("ok",)]),
    ("ROLLUP (x), CUBE (name)", [("x", "name"), ("x",), ("name",), ()]),
    ("GROUPING SETS (x, (x), (name, x), ())", [("x",), ("x",), ("x", "name"), ()]),
    ("GROUPING SETS (ROLLUP (x), name)", [("x",), (), ("name",)]),
    ("x, name GROUPING SETS ((name), (x))", [("name",), ("x",)]),
    ("ROLLUP (1, 2)", [("x", "name"), ("x",), ()]),
]


@pytest.mark.parametrize(("grouping", "sets"), SETS)
@pytest.mark.parametrize("rows", [ROWS, []], ids=["rows", "nothing"])
def test_grouping_sets_are_one_group_by_for_each_set(grouping: str, sets: list[tuple[str, ...]], rows: list[Row]):
    """The oracle is written out with UNION ALL; over nothing, even the set without keys has no row."""
    keys = ("x", "name", "ok")
    used = [key for key in keys if any(key in one for one in sets)]
    parts = [
        f"SELECT {', '.join(key if key in one else f'CAST(NULL AS {TYPES[key]})' for key in used)}, sum(y), sum(x), "
        f"{sum((key not in one) << place for place, key in enumerate(reversed(used)))}"
        f" FROM t {'GROUP BY ' + ', '.join(one) if one else 'HAVING count(*) > 0'}"
        for one in sets
    ]
    marks = f"grouping_id({', '.join(used)})"
    text = f"SELECT {', '.join(used)}, sum(y) AS sy, sum(x) AS sx, {marks} AS g FROM t GROUP BY {grouping}"
    expected = [row for part in parts for row in evaluate(read_query(part, T), {"t": ZSet.of(rows)}).rows()]
    assert ZSet.of(evaluate(read_query(text, T), {"t": ZSet.of(rows)}).rows()) == ZSet.of(expected)


TYPES = {"x": "int", "name": "string", "ok": "boolean"}


def test_having_and_grouping_tell_totals_from_null_keys():
    text = "SELECT x, count(*) AS n FROM t GROUP BY ROLLUP (x) HAVING grouping(x) = 1 OR x IS NULL"
    found = evaluate(read_query(text, T), {"t": ZSet.of(ROWS)})
    assert found == ZSet.of([(None, 1), (None, 5)])


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("percentile_cont(1.5) WITHIN GROUP (ORDER BY x)", "a number from 0 to 1"),
        ("percentile_cont(0.5)", "needs WITHIN GROUP"),
        ("percentile(x, y)", "must be a constant"),
        ("string_agg(name, name)", "must be a constant"),
        ("string_agg(ok, ',')", "needs text"),
        ("array_agg(DISTINCT x ORDER BY y)", "ordered by its argument only"),
        ("sum(x ORDER BY y)", "does not depend on an order"),
        ("first(x ORDER BY y)", "no order"),
        ("bit_or(y)", "needs integers"),
        ("stddev(name)", "needs numbers"),
        ("max_by(x)", "takes two arguments"),
        ("count()", "takes values"),
        ("sum(*)", 'not "*"'),
        ("mode(DISTINCT x)", "does not take DISTINCT"),
    ],
)
def test_a_call_that_cannot_be_is_a_mistake(expression: str, told: str):
    with pytest.raises(InputError, match=told.replace("*", r"\*")):
        read_query(f"SELECT {expression} AS value FROM t", T)
