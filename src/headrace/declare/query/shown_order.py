"""The order in which the rows of a view are shown: its own ORDER BY, as keys over the columns of its result.

A view is a bag, and nothing below keeps an order: rows are sorted where they are shown. A key that is not in the result
cannot be sorted by: it and the keys after it are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headrace.declare.query.postgres_origins import find_origin_type
from headrace.declare.query.postgres_spans import sort_value
from headrace.declare.query.ranking import plain_key
from headrace.declare.query.scope import fold
from headrace.model.expr import Column
from headrace.model.relation import Field, Order


def find_order(tree: exp.Query, fields: Sequence[Field]) -> tuple[Order, ...]:
    """The keys of the outermost ORDER BY of a query that has been read without mistakes."""
    order, keys = tree.args.get("order"), list[Order]()
    for part in () if order is None else order.expressions:
        field = _find_field(part.this, tree, fields)
        if field is None:
            break
        keys.append(plain_key(part, sort_value(Column(field.name, field.type), find_origin_type(part.this))))
    return tuple(keys)


def _find_field(key: exp.Expr, tree: exp.Query, fields: Sequence[Field]) -> Field | None:
    """Finds a field by position, by name, or by being the same expression as one that is selected."""
    if isinstance(key, exp.Literal):
        position = int(key.name) if not key.is_string and key.name.isdigit() else 0
        return fields[position - 1] if 1 <= position <= len(fields) else None
    named = {fold(field.name): field for field in fields}
    if isinstance(key, exp.Column) and not key.table:
        return named.get(fold(key.name))
    selected = [item.unalias() for item in tree.selects]
    if len(selected) == len(fields) and key in selected:
        return fields[selected.index(key)]
    starred = any(item.is_star for item in selected)
    return named.get(fold(key.name)) if starred and isinstance(key, exp.Column) else None
