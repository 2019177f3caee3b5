"""How window functions are read: windows, frames, and what is wrong with them."""

from __future__ import annotations

import pytest

from headrace.model.relation import Over, TopK
from tests.declare.query.reading import meaning, mistake, relation, types


def test_functions_of_one_window_are_one_step_and_equal_ones_one_field():
    text = meaning(
        "SELECT sum(total) OVER w AS a, sum(total) OVER w + 1 AS b, lag(total) OVER w AS c FROM orders "
        "WINDOW w AS (PARTITION BY customer ORDER BY id)"
    )
    assert text.count("over by") == 1
    assert text.count("sum(") == 1


def test_functions_of_other_windows_are_steps_on_top_of_each_other():
    text = meaning("SELECT rank() OVER (ORDER BY id) AS a, rank() OVER (ORDER BY total DESC) AS b FROM orders")
    assert text.count("over order") == 2


@pytest.mark.parametrize(
    ("where", "step"),
    [("n <= 3", TopK), ("n > 3", Over), ("n <= 3 OR id = 1", Over)],
)
def test_a_ranking_keeps_first_rows_only_where_it_is_bounded(where: str, step: type):
    tree = relation(
        f"SELECT id FROM (SELECT id, row_number() OVER (ORDER BY total) AS n FROM orders) AS ranked WHERE {where}"
    )
    found = []
    while hasattr(tree, "input"):
        found.append(type(tree))
        tree = tree.input
    assert step in found


def test_rankings_are_integers_as_in_spark():
    assert types("SELECT row_number() OVER (ORDER BY id) AS n, count(*) OVER () AS c FROM orders") == {
        "n": "int",
        "c": "bigint",
    }


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT id FROM orders WHERE »row_number() OVER (ORDER BY id) = 1", "is not allowed in WHERE"),
        ("SELECT »rank() OVER () AS r FROM orders", '"rank" needs ORDER BY'),
        ("SELECT »sum(total) OVER w AS s FROM orders", 'window "w" is not declared'),
        (
            "SELECT »sum(total) OVER (w PARTITION BY id) AS s FROM orders WINDOW w AS (PARTITION BY customer)",
            'what is written after window "w" is said there already',
        ),
        (
            "SELECT »sum(total) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND 1 PRECEDING) AS s FROM orders",
            "the frame ends before it begins",
        ),
        (
            "SELECT »sum(total) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 2 PRECEDING) AS s FROM orders",
            "the frame ends before it begins",
        ),
        (
            "SELECT »sum(total) OVER (ORDER BY id, total RANGE 1 PRECEDING) AS s FROM orders",
            "needs ORDER BY with one key",
        ),
        (
            "SELECT »sum(total) OVER (ORDER BY id RANGE INTERVAL '1' DAY PRECEDING) AS s FROM orders",
            "does not fit a sort key",
        ),
        ("SELECT »lag(total, id) OVER (ORDER BY id) AS s FROM orders", "must be a whole number"),
        ("SELECT »ntile(0) OVER (ORDER BY id) AS s FROM orders", 'the number of parts of "ntile" must be from 1'),
        ("SELECT »lag(total) FILTER (WHERE id > 1) OVER (ORDER BY id) AS s FROM orders", "does not take FILTER"),
    ],
)
def test_a_window_that_cannot_be_is_a_mistake(sql: str, told: str):
    assert told in mistake(sql).message
