"""Whole rows of a table as values, in PostgreSQL's dialect: `row_to_json(t)` and `json_agg(t)` name all its columns."""

from __future__ import annotations

from sqlglot import exp

from headrace.declare.query.mistakes import NotMaintained
from headrace.declare.query.scope import FromTable, same_name
from headrace.declare.query.stage import QueryStage

_OF_ROWS = frozenset(("json_member", "json_written", "row_to_json", "to_json", "to_jsonb"))
"""Functions that take a row, as they are called once a query was parsed."""


def name_columns(node: exp.Expr, stage: QueryStage) -> None:
    """Writes a row that is an argument as a call of its names and values."""
    if not isinstance(node, exp.Anonymous) or node.name.lower() not in _OF_ROWS or not node.expressions:
        return
    argument = node.expressions[-1]
    table = find_row(argument, stage)
    if table is None:
        return
    if may_be_lacking(node):
        hint = f"name its parts: json_build_object('a', {table.alias}.a, 'b', {table.alias}.b)"
        raise NotMaintained(f"function: {node.name.lower()} of a row that an outer join may lack", hint)
    parts: list[exp.Expr] = []
    for column in table.columns:
        name, owner = (exp.to_identifier(text, quoted=True) for text in (column.name, table.alias))
        parts += [exp.Literal.string(column.name), exp.Column(this=name, table=owner)]
    made = exp.Anonymous(this="json_row", expressions=parts)
    made.meta.update(argument.meta)
    node.set("expressions", [*node.expressions[:-1], made])


def find_row(node: exp.Expr, stage: QueryStage) -> FromTable | None:
    """The table whose name stands where no column of that name is."""
    if not isinstance(node, exp.Column) or bool(node.table) != isinstance(node.this, exp.Star):
        return None
    name = node.table or node.name
    if not node.table and any(same_name(column.name, name) for column in stage.scope.all()):
        return None
    table = stage.scope.table(name)
    return table if table is not None and table.complete and table.itself is None else None


def may_be_lacking(node: exp.Expr) -> bool:
    select = node.find_ancestor(exp.Select)
    joins = (select.args.get("joins") or []) if select is not None else []
    return any(join.args.get("side") for join in joins)
