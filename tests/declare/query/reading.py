"""Reading SQL in tests: what it means as text, or what is wrong with it and where.

`»` in a query marks the place where its problem is expected to be reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from headrace.declare.sql import read_query
from headrace.model.catalogue import PythonFunction, Source, SourceKind
from headrace.model.errors import InputError, Location, Problem, UnsupportedSql
from headrace.model.expr import Expr
from headrace.model.relation import Projection, Relation, fields_of
from headrace.model.show import show
from tests.queries.schemas import by_name, source

SHOP: Mapping[str, Source] = by_name(
    source("customers", "id bigint, name string, city string, vip boolean", "id"),
    source(
        "orders",
        "id bigint, customer bigint, total decimal(10,2), quantity int, weight double, placed date, paid timestamp, "
        "note string",
        "id",
    ),
    source("items", "order_id bigint, line int, product string, price decimal(8,2)", "order_id line"),
    source("clicks", "customer bigint, page string, at timestamp", kind=SourceKind.STREAM, time="at"),
    replace(
        source("calls", "customer bigint, at timestamp", kind=SourceKind.STREAM, time="at"), joins_as_of_event=True
    ),
    source("views", "customer bigint, page string, at timestamp", kind=SourceKind.STREAM, time="at"),
)


def relation(sql: str, functions: Mapping[str, PythonFunction] | None = None) -> Relation:
    return read_query(sql, SHOP, functions=functions)


def meaning(sql: str) -> str:
    """The tree of a query, as text."""
    return show(relation(sql))


def types(sql: str) -> dict[str, str]:
    """The columns of a query's result with their types."""
    return {field.name: str(field.type) for field in fields_of(relation(sql))}


def value(expression: str) -> Expr:
    """What an expression over `orders` means."""
    tree = relation(f"SELECT {expression} AS value FROM orders")
    assert isinstance(tree, Projection)
    return tree.outputs[0].expr


def marked(sql: str) -> tuple[str, Location]:
    """A query without its mark, and the place of the mark."""
    before, mark, after = sql.partition("»")
    assert mark, "no place is marked"
    lines = before.split("\n")
    return before + after, Location("query.sql", len(lines), len(lines[-1]) + 1)


def mistakes(sql: str) -> tuple[Problem, ...]:
    """All problems of a query that is wrong."""
    with pytest.raises(InputError) as caught:
        relation(sql.replace("»", ""))
    assert not isinstance(caught.value, UnsupportedSql), f"refused instead: {caught.value}"
    return caught.value.problems


def mistake(sql: str) -> Problem:
    """The one problem of a query, which is where the mark is."""
    text, where = marked(sql)
    (problem,) = mistakes(text)
    assert problem.where == where, f"{problem.message} at {problem.where}"
    return problem


def refusal(sql: str) -> str:
    """The name of what is not maintained in a query, which is where the mark is."""
    text, where = marked(sql)
    with pytest.raises(UnsupportedSql) as caught:
        relation(text)
    (problem,) = caught.value.problems
    assert problem.where == where, f"{problem.message} at {problem.where}"
    assert problem.message == f'"{caught.value.operator}" is not maintained incrementally'
    assert problem.hint
    return caught.value.operator
