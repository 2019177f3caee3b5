"""UNION, INTERSECT and EXCEPT: rows by position, in the names of the first query and in types that hold all.

INTERSECT ALL and EXCEPT ALL count rows. Equal rows of each side are numbered from one, and then a row with its number
is on the other side or not: three copies less two leave the one with number three.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from sqlglot import exp

from headrace.declare.query import operators
from headrace.declare.query.environment import Environment, Purpose, Rows, Size
from headrace.declare.query.expressions import check_expression
from headrace.declare.query.items import SelectItem, outputs
from headrace.declare.query.limits import Sorted, keep_limit
from headrace.declare.query.postgres_spans import refuse_span
from headrace.declare.query.report import refuse
from headrace.declare.query.scope import Scope, Visible, fold
from headrace.declare.query.stage import PlacedMistakes, QueryStage
from headrace.declare.query.tables import refuse_clauses
from headrace.model.dialect import SqlDialect
from headrace.model.errors import InputError, Problem
from headrace.model.expr import Call, Column, Expr, Literal, conjunction
from headrace.model.relation import Distinct, Join, JoinKind, Output, Projection, Relation, TopK, UnionAll, fields_of
from headrace.model.types import BOOLEAN, NULL, Type

MOST_COPIES = 2**31 - 1
"""More equal rows than a bag ever has."""


def read_set(node: exp.SetOperation, environment: Environment, outer: QueryStage | None, purpose: Purpose) -> Rows:
    """The rows of queries combined by UNION [ALL], INTERSECT or EXCEPT, with the ORDER BY and LIMIT that may follow."""
    refuse_clauses(node, environment, "with_", "this", "expression", "distinct", "by_name", "order", "limit", "offset")
    kind = type(node).__name__.lower()
    branches = _branches(node)
    places = [environment, *(_place(kind, environment) for _ in branches[1:])]
    results = [_branch(branch, place, outer) for branch, place in zip(branches, places, strict=True)]
    if node.args.get("by_name"):
        results = _align_by_name(results)
    return limit_rows(node, _combine_rows(node, results, branches, places), environment, purpose)


def _branches(node: exp.SetOperation) -> list[exp.Expr]:
    """The queries of a chain of UNION ALL, or the two of another operation, in order."""
    found: list[exp.Expr] = [node.expression]
    current: exp.Expr = node.this
    while _continues(node, current):
        found.append(current.expression)
        current = current.this
    return [current, *reversed(found)]


def _continues(node: exp.SetOperation, current: exp.Expr) -> bool:
    unions = isinstance(node, exp.Union) and isinstance(current, exp.Union)
    more = any(current.args.get(clause) for clause in ("order", "limit", "offset", "with_", "distinct"))
    same = bool(node.args.get("by_name")) == bool(current.args.get("by_name"))
    return unions and same and not node.args.get("distinct") and not more


def _place(kind: str, environment: Environment) -> Environment:
    if kind == "union":
        return environment
    return environment.inside_another(kind)


def _branch(node: exp.Expr, environment: Environment, outer: QueryStage | None) -> Rows:
    if isinstance(node, exp.Values):
        refuse("values", environment.at(node))
    if not isinstance(node, exp.Query):
        raise InputError([Problem("a query is expected here", environment.at(node))])
    rows = environment.read_query(node, environment, outer, Purpose.TABLE)
    if rows.correlated:
        refuse("correlated subquery", environment.books.outer_place or environment.at(node))
    return rows


def _align_by_name(results: Sequence[Rows]) -> list[Rows]:
    """Rows with the columns of all queries, in the order in which they occur first: NULL where a query has no such
    column.
    """
    if not all(rows.complete for rows in results):
        return [replace(rows, complete=False) for rows in results]
    named = [{fold(column.name): column for column in rows.columns} for rows in results]
    every = {name: column.name for columns in reversed(named) for name, column in columns.items()}
    order = dict.fromkeys(name for columns in named for name in columns)
    return [
        replace(
            rows,
            columns=tuple(columns.get(name) or Visible(every[name], Literal(None, NULL)) for name in order),
        )
        for rows, columns in zip(results, named, strict=True)
    ]


def _combine_rows(
    node: exp.SetOperation, results: Sequence[Rows], branches: Sequence[exp.Expr], places: Sequence[Environment]
) -> Rows:
    first = results[0]
    for rows, branch, place in zip(results, branches, places, strict=True):
        if len(rows.columns) != len(first.columns):
            if all(result.complete for result in results):
                message = f"the queries have {len(first.columns)} and {len(rows.columns)} columns"
                place.error(message, branch.expressions[0] if branch.expressions else branch)
            return replace(first, complete=False)
    environment = places[0]
    types = _types(results, branches, places)
    inputs = [
        _project_rows(rows, types, [column.name for column in first.columns], branch, place)
        for rows, branch, place in zip(results, branches, places, strict=True)
    ]
    shared = [_share_origin_type(columns) for columns in zip(*(rows.columns for rows in results), strict=True)]
    if not isinstance(node, exp.Union) or node.args.get("distinct"):
        for rows, branch, place in zip(results, branches, places, strict=True):
            _refuse_spans(rows, branch, place)
    return _rows(_operator(node, inputs, environment), replace(first, columns=tuple(shared)))


def _refuse_spans(rows: Rows, branch: exp.Expr, environment: Environment) -> None:
    """Rows are told apart by the text of intervals, which PostgreSQL does not do."""
    if environment.text.dialect is SqlDialect.POSTGRES:
        with PlacedMistakes(QueryStage(environment, "UNION", Scope(), rows.relation), branch):
            for column in rows.columns:
                refuse_span(column.origin_type, "rows told apart by")


def _share_origin_type(columns: Sequence[Visible]) -> Visible:
    """The first column, of a type of PostgreSQL if all have that."""
    same = len({column.origin_type for column in columns}) == 1
    return columns[0] if same else replace(columns[0], origin_type=None)


def _types(results: Sequence[Rows], branches: Sequence[exp.Expr], places: Sequence[Environment]) -> list[Type]:
    stage = QueryStage(places[0], "UNION", Scope(), results[0].relation)
    columns = zip(*(rows.columns for rows in results), strict=True)
    values = [[column.value for column in same_place] for same_place in columns]
    return [check_expression(branches[-1], stage, partial(_first_unified, each)).type for each in values]


def _first_unified(values: Sequence[Expr]) -> Expr:
    return operators.unify(values)[0]


def _project_rows(
    rows: Rows, types: Sequence[Type], names: Sequence[str], node: exp.Expr, environment: Environment
) -> Relation:
    stage = QueryStage(environment, "UNION", Scope(), rows.relation)
    items = []
    for column, type_, name in zip(rows.columns, types, names, strict=True):
        # Columns without a common type are reported, and have none.
        value = (
            column.value
            if type_ == NULL
            else check_expression(node, stage, partial(operators.convert, column.value, type_))
        )
        items.append(SelectItem(name, value, node))
    made = outputs(items, environment)
    return rows.relation if _is_identity(rows.relation, made) else Projection(rows.relation, made)


def _is_identity(relation: Relation, made: Sequence[Output]) -> bool:
    fields = [Column(field.name, field.type) for field in fields_of(relation)]
    return [output.expr for output in made] == fields and [output.name for output in made] == [f.name for f in fields]


def _operator(node: exp.SetOperation, inputs: Sequence[Relation], environment: Environment) -> Relation:
    if isinstance(node, exp.Union):
        union = UnionAll(tuple(inputs))
        return Distinct(union) if node.args.get("distinct") else union
    kind = JoinKind.SEMI if isinstance(node, exp.Intersect) else JoinKind.ANTI
    if node.args.get("distinct"):
        left, right = Distinct(inputs[0]), inputs[1]
        return Join(kind, left, right, _all_equal(left, right))
    numbered = [_number_copies(input_, environment) for input_ in inputs]
    fields = fields_of(inputs[0])
    rest = Join(kind, numbered[0], numbered[1], _all_equal(numbered[0], numbered[1]))
    return Projection(rest, tuple(Output(field.name, Column(field.name, field.type)) for field in fields))


def _all_equal(left: Relation, right: Relation) -> Expr:
    pairs = zip(fields_of(left), fields_of(right), strict=True)
    return conjunction(tuple(Call("<=>", (Column(a.name, a.type), Column(b.name, b.type)), BOOLEAN) for a, b in pairs))


def _number_copies(relation: Relation, environment: Environment) -> Relation:
    """Equal rows with the numbers 1, 2, 3 and so on."""
    number = environment.books.fresh(f"{environment.path}copy")
    partition = tuple(Column(field.name, field.type) for field in fields_of(relation))
    return TopK(relation, partition, (), MOST_COPIES, rank_name=number)


def _rows(relation: Relation, first: Rows) -> Rows:
    fields = fields_of(relation)
    columns = zip(first.columns, fields, strict=True)
    visible = tuple(replace(column, value=Column(field.name, field.type)) for column, field in columns)
    return Rows(relation, visible, complete=first.complete)


def limit_rows(node: exp.Expr, rows: Rows, environment: Environment, purpose: Purpose) -> Rows:
    """Rows of a finished query after another ORDER BY and LIMIT, which may name its columns only."""
    if not any(node.args.get(clause) for clause in ("order", "limit", "offset")):
        return rows
    stage = QueryStage(environment, "ORDER BY", Scope((rows.as_table(""),)), rows.relation, not_null=rows.not_null)
    items = tuple(SelectItem(column.name, column.value, node, column.origin_type) for column in rows.columns)
    whole = [item.value for item in items] == [Column(field.name, field.type) for field in fields_of(rows.relation)]
    kept = keep_limit(node, Sorted(stage, items, purpose, Size.ANY, {} if whole else None))
    return replace(rows, relation=kept.relation, columns=tuple(item.visible for item in kept.items))
