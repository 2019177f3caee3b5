"""The order in which a view's rows are shown."""

from __future__ import annotations

import pytest

from headrace.declare.ask import read_order, read_where
from headrace.declare.sql import ViewText, read_views
from headrace.model.errors import InputError
from headrace.model.relation import Field, Order
from headrace.model.show import show_expr
from headrace.model.types import BIGINT, STRING
from tests.declare.query.reading import SHOP

FIELDS = (Field("total", BIGINT), Field("Größe", STRING))


def order_of(sql: str) -> list[tuple[str, bool]]:
    views, problems = read_views({"v": ViewText("v", sql, "views/v.sql")}, SHOP, {})
    assert not problems
    return described(views["v"].order)


def described(order: tuple[Order, ...]) -> list[tuple[str, bool]]:
    return [(show_expr(key.expr), key.descending) for key in order]


@pytest.mark.parametrize(
    ("sql", "order"),
    [
        ("SELECT id, total FROM orders ORDER BY total DESC, 1", [("total", True), ("id", False)]),
        ("SELECT o.id AS number FROM orders o ORDER BY o.id", [("number", False)]),
        ("SELECT * FROM orders o ORDER BY o.total", [("total", False)]),
        ("SELECT customer, sum(total) AS t FROM orders GROUP BY customer ORDER BY sum(total) DESC", [("t", True)]),
        ("SELECT id FROM orders UNION ALL SELECT id FROM customers ORDER BY id DESC", [("id", True)]),
        ("SELECT id FROM orders ORDER BY id LIMIT 3", [("id", False)]),
        ("SELECT id, note FROM orders ORDER BY note, total, id", [("note", False)]),
        ("SELECT id FROM orders", []),
    ],
)
def test_a_view_is_shown_in_the_order_of_its_order_by(sql: str, order: list[tuple[str, bool]]):
    assert order_of(sql) == order


def test_a_reader_sorts_by_columns_expressions_and_positions():
    order = read_order('"Größe" desc nulls first, total % 3, 1', "v", FIELDS)
    assert described(order) == [("v.Größe", True), ("v.total % 3", False), ("v.total", False)]
    assert [key.nulls_first for key in order] == [True, True, True]


def test_a_reader_chooses_rows_by_any_condition_on_columns():
    assert show_expr(read_where("total > 2 AND `Größe` IS NULL", "v", FIELDS)) == "v.total > 2 and v.Größe is null"


@pytest.mark.parametrize(
    ("read", "text", "place"),
    [
        (read_where, "totl > 2", "--where:1:1"),
        (read_where, "total > ", "--where:1:7"),
        (read_where, "total", "--where:1:1"),
        (read_where, "total > 1; DROP TABLE x", "--where:1:12"),
        (read_where, "", "--where:1:1"),
        (read_where, "EXISTS (SELECT 1)", "--where:1:16"),
        (read_order, "total, siez", "--order:1:8"),
        (read_order, "total desc,", "--order:1:11"),
        (read_order, "3", "--order:1:1"),
        (read_order, "sum(total)", "--order:1:1"),
        (read_order, "", "--order:1:1"),
    ],
)
def test_mistakes_of_a_reader_have_a_place(read, text: str, place: str):
    with pytest.raises(InputError) as raised:
        read(text, "v", FIELDS)
    assert str(raised.value.problems[0].where) == place
