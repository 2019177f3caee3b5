"""What a reader of a view asks for: a condition and an order, in the SQL of views, over the view's columns."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headrace.declare.query import ranking
from headrace.declare.query.text import order_text, parse_order
from headrace.declare.sql import make_stage, read_predicate, report_mistakes
from headrace.model.catalogue import Source, SourceColumn, SourceKind
from headrace.model.errors import InputError, Location, Problem
from headrace.model.expr import Expr
from headrace.model.relation import Field, Order

WHERE, ORDER = "--where", "--order"
"""The texts by the names under which people give them: mistakes point there."""


def read_where(text: str, view: str, fields: Sequence[Field]) -> Expr:
    """A condition over columns that are named `VIEW.column`. Raises InputError."""
    return read_predicate(text, Location(WHERE), _as_source(view, fields))


def read_order(text: str, view: str, fields: Sequence[Field]) -> tuple[Order, ...]:
    """Sort keys as after ORDER BY, over columns that are named `VIEW.column`. Raises InputError."""
    written = order_text(text, Location(ORDER))
    stage = make_stage(written, _as_source(view, fields), "ORDER BY")
    with report_mistakes(stage):
        tree = parse_order(written)
        for part in tree.expressions:
            if isinstance(part.this, exp.Literal) and not part.this.is_string:
                part.this.replace(_column_at(part.this, fields))
        return ranking.read_order(tree, stage)


def _column_at(position: exp.Literal, fields: Sequence[Field]) -> exp.Column:
    number = int(position.name) if position.name.isdigit() else 0
    if not 1 <= number <= len(fields):
        raise InputError([Problem(f"there is no column {position.name}", Location(ORDER), f"there are {len(fields)}")])
    return exp.column(fields[number - 1].name, quoted=True)


def _as_source(view: str, fields: Sequence[Field]) -> Source:
    """The view's columns, in the form in which conditions on sources are read."""
    columns = tuple(SourceColumn(field.name, field.type) for field in fields)
    return Source(
        view, SourceKind.TABLE, "", (), columns, None, None, False, False, None, None, None, None, Location(view)
    )
