"""What PostgreSQL's text says about tables: their schema, and the columns that their key decides."""

from __future__ import annotations

from typing import NoReturn

import pytest
from sqlglot import exp

from headrace.declare.query.forms import FORMS
from headrace.declare.query.report import OUR_FAULT
from headrace.declare.sql import ViewText, convert_view, read_query, read_views
from headrace.model.catalogue import Refusal
from headrace.model.dialect import SqlDialect
from headrace.model.errors import InputError, UnsupportedSql
from headrace.model.relation import Relation, fields_of
from headrace.model.show import show
from tests.declare.query.reading import SHOP


def read(sql: str) -> Relation:
    return read_query(sql, SHOP, dialect=SqlDialect.POSTGRES)


def test_a_table_of_public_is_the_table():
    assert show(read("SELECT public.orders.id FROM public.orders")) == show(read("SELECT orders.id FROM orders"))
    text = ViewText("v", "SELECT id FROM public.orders", "v.sql", SqlDialect.POSTGRES)
    assert "public" not in convert_view("v", {"v": text}, SHOP, {})


def test_a_view_of_public_is_the_view():
    texts = {
        "late": ViewText("late", "SELECT id FROM public.early", "late.sql", SqlDialect.POSTGRES),
        "early": ViewText("early", "SELECT id FROM orders", "early.sql", SqlDialect.POSTGRES),
    }
    views, problems = read_views(texts, SHOP, {})
    assert not problems
    assert views["late"].reads == ("early",)


def test_a_table_of_another_schema_is_another_table():
    with pytest.raises(InputError, match=r'table "sales.orders" does not exist'):
        read("SELECT id FROM sales.orders")


def test_a_key_decides_the_other_columns_of_its_table():
    written = read(
        "SELECT c.id, c.name, upper(c.city) AS city, count(*) AS n FROM customers c "
        "JOIN orders o ON o.customer = c.id GROUP BY c.id HAVING c.vip ORDER BY c.name LIMIT 5"
    )
    assert [field.name for field in fields_of(written)] == ["id", "name", "city", "n"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT c.id, o.note FROM customers c JOIN orders o ON o.customer = c.id GROUP BY c.id",
        "SELECT order_id, product FROM items GROUP BY order_id",
        "SELECT customer, page FROM clicks GROUP BY customer",
    ],
)
def test_other_columns_are_grouped_by_or_aggregated(sql: str):
    with pytest.raises(InputError, match="neither grouped by nor aggregated"):
        read(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT (no_such_function(note))[1] AS a FROM orders",
        "SELECT 'x'::uuid AS a",
        "SELECT g FROM generate_series(date '2024-01-01', date '2024-01-05', 1) g",
        "SELECT '1,2'::int[] AS a",
        "SELECT json_build_object('a') AS a FROM orders",
        "SELECT extract(year FROM age(paid, paid, paid)) AS a FROM orders",
    ],
)
def test_mistakes_are_told_as_mistakes(sql: str):
    with pytest.raises(InputError) as caught:
        read(sql)
    assert not isinstance(caught.value, UnsupportedSql)


def test_a_view_that_headrace_cannot_read_leaves_the_others_readable(monkeypatch: pytest.MonkeyPatch):
    """No text is known on which this happens, or it would be mended: a reader that fails stands for one."""
    monkeypatch.setitem(FORMS, exp.Null, _fail)
    texts = {
        "broken": ViewText("broken", "SELECT id,\n  NULL IS NULL AS a FROM orders", "broken.sql"),
        "sound": ViewText("sound", "SELECT id FROM orders", "sound.sql"),
    }
    views, problems = read_views(texts, SHOP, {})
    assert not problems
    assert isinstance(views["sound"].query, Relation)
    refused = views["broken"].query
    assert isinstance(refused, Refusal)
    assert refused.operator == OUR_FAULT
    (problem,) = refused.problems
    assert "the fault is ours: ZeroDivisionError" in problem.message
    assert "line 2" in str(problem) or ":2:" in str(problem)


def _fail(*_: object) -> NoReturn:
    raise ZeroDivisionError("unexpected")
