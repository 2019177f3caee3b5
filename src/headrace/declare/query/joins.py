"""FROM: its items joined in order. The rows that an outer join fills with NULLs are computed before it, not after.

A derived table's columns are expressions over the rows below. Above an outer join these would be computed from NULLs
(`coalesce(x, 0)` would be 0, not NULL), so there they become fields first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from sqlglot import exp

from headrace.declare.query import operators
from headrace.declare.query.arguments import apply
from headrace.declare.query.constants import make_one_row
from headrace.declare.query.environment import Environment, FromClause
from headrace.declare.query.expressions import check_expression, read_condition
from headrace.declare.query.forms import operands
from headrace.declare.query.laterals import read_lateral
from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.postgres_spans import refuse_span
from headrace.declare.query.quantified import read_quantified
from headrace.declare.query.ranking import keep_first
from headrace.declare.query.report import Report, refuse
from headrace.declare.query.scope import Scope, Visible, fold
from headrace.declare.query.stage import PlacedMistakes, QueryStage
from headrace.declare.query.subqueries import read_scalar
from headrace.declare.query.tables import name_function, read_item, refuse_clauses
from headrace.declare.query.unfolding import find_function, unfold_item
from headrace.meaning.functions import FUNCTIONS
from headrace.model.dialect import SqlDialect
from headrace.model.errors import UnsupportedSql, nearest_name
from headrace.model.expr import Column, Expr, columns_of, conjunction, conjuncts, is_deterministic
from headrace.model.promotion import common_type
from headrace.model.relation import Filter, Join, JoinKind, Output, Projection, Relation, Unfold, fields_of
from headrace.model.types import INTERVALS, NULL

_KINDS = {"SEMI": JoinKind.SEMI, "ANTI": JoinKind.ANTI, "": None, "INNER": None, "CROSS": None, "OUTER": None}
_SIDES = {"": JoinKind.INNER, "LEFT": JoinKind.LEFT, "RIGHT": JoinKind.RIGHT, "FULL": JoinKind.FULL}
_LEFT_ONLY = (JoinKind.SEMI, JoinKind.ANTI)
_FILLS_LEFT = (JoinKind.RIGHT, JoinKind.FULL)
_FILLS_RIGHT = (JoinKind.LEFT, JoinKind.FULL)


def read_from(
    node: exp.Expr, joins: Sequence[exp.Join], environment: Environment, outer: QueryStage | None
) -> FromClause:
    """The rows of FROM, and the names that are in sight after it."""
    core = _item(node, environment, outer)
    for join in joins:
        core = _join_clause(core, join, environment, outer)
    return core


def move_subqueries(select: exp.Select) -> None:
    """Move conditions with queries in them from ON to WHERE, where that means the same: of inner joins, none of whose
    rows a later join fills with NULLs.
    """
    joins = select.args.get("joins") or []
    for place, join in enumerate(joins):
        later = {str(other.args.get("side") or "").upper() for other in joins[place:]}
        on = join.args.get("on")
        plain = not join.args.get("side") and str(join.args.get("kind") or "").upper() in ("", "INNER")
        if on is None or not plain or later & {"RIGHT", "FULL"} or on.find(exp.Query) is None:
            continue
        parts = operands(on) if isinstance(on.unnest(), exp.And) else [on.unnest()]
        moved = [part for part in parts if part.find(exp.Query) is not None]
        left = [part for part in parts if part not in moved]
        where = select.args.get("where")
        join.set("on", exp.and_(*left, copy=False) if left else exp.true())
        kept = [where.this] if where is not None else []
        select.set("where", exp.Where(this=exp.and_(*kept, *moved, copy=False)))


def read_lateral_view(
    node: exp.Lateral, left: FromClause, environment: Environment, outer: QueryStage | None
) -> FromClause:
    """LATERAL VIEW [OUTER] explode(...), which follows all items of FROM."""
    with environment.report.gathering():
        return _unfold(left, node, environment, outer)
    return left


def _unfold(left: FromClause | None, node: exp.Expr, environment: Environment, outer: QueryStage | None) -> FromClause:
    """The rows before an item, once for each row that the function there gives for them."""
    before = FromClause(make_one_row(environment), Scope()) if left is None else left
    stage = QueryStage(
        environment,
        "FROM",
        before.scope,
        before.relation,
        not_null=before.not_null,
        outer=outer,
        subquery=read_scalar,
        quantified=read_quantified,
    )
    with PlacedMistakes(stage, node):
        if find_function(node) is None:
            refuse(f"table function: {name_function(node)}", environment.at(node))
        shown = unfold_item(node, before, environment, stage)
        if before.scope.table(shown.scope.tables[-1].alias) is not None:
            alias = shown.scope.tables[-1].alias
            environment.error(f'"{alias}" occurs twice in FROM', node, "give one of them another name with AS")
        return replace(shown, correlated=before.correlated)
    return before


def _item(node: exp.Expr, environment: Environment, outer: QueryStage | None) -> FromClause:
    """A table, or joins in parentheses."""
    if isinstance(node, exp.Subquery) and not isinstance(node.this, exp.Query):
        refuse_clauses(node, environment, "this", "joins")
        core = _item(node.this, environment, outer)
    elif find_function(node) is not None:
        core = _unfold(None, node, environment, outer)
    else:
        core = read_item(node, environment, outer)
    for join in node.args.get("joins") or ():
        core = _join_clause(core, join, environment, outer)
    return core


def _join_clause(left: FromClause, node: exp.Join, environment: Environment, outer: QueryStage | None) -> FromClause:
    kind = _kind(node, environment)
    if find_function(node.this) is not None:
        return _join_function(left, node, kind, environment, outer)
    if isinstance(node.this, exp.Lateral):
        return _lateral(left, node, kind, environment, outer)
    right = _item(node.this, environment, outer)
    _check_aliases(left.scope, right.scope, node, environment)
    stage = QueryStage(environment, "ON", _side_by_side(left.scope, right.scope), left.relation, outer=outer)
    columns = _shared_columns(node, left.scope, right.scope)
    if columns:
        parts = _using(columns, left.scope, right.scope, node, stage)
        return _Pair(left, right, kind, parts, columns).joined(node, environment)
    left, right, queries = _attach_queries(node, left, right, stage)
    on = node.args.get("on")
    plain = [part for part in _operands(on) if part not in queries] if on is not None else []
    parts = tuple(part for one in plain for part in conjuncts(read_condition(one, stage)))
    return _Pair(left, right, kind, (*parts, *queries.values()), ()).joined(node, environment)


def _operands(on: exp.Expr) -> list[exp.Expr]:
    return list(operands(on)) if isinstance(on.unnest(), exp.And) else [on]


def _attach_queries(
    node: exp.Join, left: FromClause, right: FromClause, stage: QueryStage
) -> tuple[FromClause, FromClause, dict[exp.Expr, Expr]]:
    """Conditions with queries in them that name columns of one side only: the rows of that side are joined with what
    the queries say of them, and only then with the other side.
    """
    on, found = node.args.get("on"), dict[exp.Expr, Expr]()
    for part in _operands(on) if on is not None else []:
        if part.find(exp.Query) is None:
            continue
        for is_right in (True, False):
            side = right if is_right else left
            made = _attach_query(part, side, stage)
            if made is None:
                continue
            found[part], side = made
            left, right = (left, side) if is_right else (side, right)
            break
    return left, right, found


def _attach_query(part: exp.Expr, side: FromClause, stage: QueryStage) -> tuple[Expr, FromClause] | None:
    """A condition over one side, and the side with what it needs; None if it names other columns, too."""
    environment = replace(stage.environment, report=Report())
    here = QueryStage(
        environment,
        "ON",
        side.scope,
        side.relation,
        not_null=side.not_null,
        outer=stage.outer,
        subquery=read_scalar,
        quantified=read_quantified,
    )
    scans = stage.environment.books.scans
    try:
        condition = read_condition(part.copy(), here)
    except UnsupportedSql:
        condition = None
    if (
        condition is None
        or environment.report.errors
        or not columns_of(condition) <= {field.name for field in fields_of(here.relation)}
    ):
        stage.environment.books.scans = scans
        return None
    return condition, replace(side, relation=here.relation)


def _join_function(
    left: FromClause, node: exp.Join, kind: JoinKind, environment: Environment, outer: QueryStage | None
) -> FromClause:
    """Joins a function of rows, which may name columns of the items before it."""
    stage = QueryStage(environment, "ON", left.scope, left.relation, outer=outer)
    with PlacedMistakes(stage, node), environment.report.gathering():
        if kind not in (JoinKind.INNER, JoinKind.LEFT) or _shared_columns(node, left.scope, left.scope):
            raise NotMaintained("lateral join", "join a table function with CROSS JOIN or LEFT JOIN ... ON TRUE")
        shown = _unfold(left, node.this, environment, outer)
        relation = shown.relation
        on = _on(node, replace(stage, scope=shown.scope, relation=relation))
        if kind == JoinKind.LEFT and on:
            raise NotMaintained("lateral join", "write ON TRUE, and the condition in a query in FROM")
        if kind == JoinKind.LEFT and isinstance(relation, Unfold):
            relation = replace(relation, outer=True)
        return replace(shown, relation=Filter(relation, conjunction(on)) if on else relation)
    return left


def _lateral(
    left: FromClause, node: exp.Join, kind: JoinKind, environment: Environment, outer: QueryStage | None
) -> FromClause:
    """Joins a query that names columns of the items before it."""
    stage = QueryStage(environment, "LATERAL", left.scope, left.relation, not_null=left.not_null, outer=outer)
    with PlacedMistakes(stage, node), environment.report.gathering():
        if kind not in (JoinKind.INNER, JoinKind.LEFT) or left.correlated:
            raise NotMaintained("lateral join", "join it with JOIN or LEFT JOIN")
        right = read_lateral(node.this, stage, fills=kind == JoinKind.LEFT)
        _check_aliases(left.scope, right.shown.scope, node, environment)
        here = QueryStage(environment, "ON", _side_by_side(left.scope, right.shown.scope), left.relation, outer=outer)
        on = _on(node, here)
        if right.always and kind == JoinKind.LEFT and on:
            raise NotMaintained("lateral join", "write the condition as HAVING of the inner query, and ON TRUE")
        if right.always:
            relation = right.join(left.relation)
            relation = Filter(relation, conjunction(on)) if on else relation
            return FromClause(relation, here.scope, left.not_null, left.correlated)
        return _Pair(left, right.shown, kind, (*right.correlated, *on), ()).joined(node, environment)
    return left


def _shared_columns(node: exp.Join, left: Scope, right: Scope) -> tuple[str, ...]:
    """The columns that USING names; for NATURAL those that both sides have."""
    if str(node.args.get("method") or "").lower() != "natural":
        return tuple(name.name for name in node.args.get("using") or ())
    names = {fold(column.name) for column in right.all()}
    return tuple(dict.fromkeys(column.name for column in left.all() if fold(column.name) in names))


def _side_by_side(left: Scope, right: Scope) -> Scope:
    return Scope(left.tables + right.tables, left.merged + right.merged, left.hidden | right.hidden)


def _kind(node: exp.Join, environment: Environment) -> JoinKind:
    if node.args.get("method"):
        method = str(node.args["method"]).lower()
        if method != "natural":
            operator = "asof join" if method == "asof" else f"clause: {method} join"
            environment.report.refuse(operator, environment.at(node))
    refuse_clauses(node, environment, "this", "on", "side", "kind", "using", "hint", "method")
    side, kind = str(node.args.get("side") or "").upper(), str(node.args.get("kind") or "").upper()
    if kind not in _KINDS or side not in _SIDES or (_KINDS[kind] is not None and side not in ("", "LEFT")):
        environment.report.refuse(f"clause: {f'{side} {kind}'.strip().lower()} join", environment.at(node))
        return JoinKind.INNER
    return _KINDS[kind] or _SIDES[side]


def _check_aliases(left: Scope, right: Scope, node: exp.Join, environment: Environment) -> None:
    for table in right.tables:
        if left.table(table.alias) is not None:
            environment.error(f'"{table.alias}" occurs twice in FROM', node, "give one of them another name with AS")


def _on(node: exp.Join, stage: QueryStage) -> tuple[Expr, ...]:
    on = node.args.get("on")
    return () if on is None else conjuncts(read_condition(on, stage))


def _using(names: tuple[str, ...], left: Scope, right: Scope, node: exp.Join, stage: QueryStage) -> tuple[Expr, ...]:
    def equal(name: str) -> Expr:
        if stage.environment.text.dialect is SqlDialect.POSTGRES:
            for side in (left, right):
                refuse_span(side.find_origin_type(name, None), f"USING ({name}) of")
        return operators.compare("=", _one(name, left), _one(name, right))

    nodes = zip(names, node.args.get("using") or [node] * len(names), strict=True)
    return tuple(check_expression(place, stage, partial(equal, name)) for name, place in nodes)


def _one(name: str, scope: Scope) -> Expr:
    """The column that USING means on one side."""
    found = scope.find(name, None)
    if len(found) == 1:
        return found[0]
    if not scope.complete:
        return operators.UNKNOWN
    problem = "is ambiguous" if found else "does not exist"
    hint = None if found else nearest_name(name, [column.name for column in scope.all()])
    raise Mistake(f'column "{name}" {problem} on one side of USING', hint)


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two sides with the parts of their condition. `using` are the columns that become one."""

    left: FromClause
    right: FromClause
    kind: JoinKind
    parts: tuple[Expr, ...]
    using: tuple[str, ...]

    def joined(self, node: exp.Expr, environment: Environment) -> FromClause:
        left, right, parts = self._apply_ranks()
        inner = self.kind == JoinKind.INNER
        if not inner and (left.correlated or right.correlated):
            refuse("correlated subquery", environment.books.outer_place or environment.at(node))
        here = {field.name for side in (left, right) for field in fields_of(side.relation)}
        moved = inner and not environment.in_place
        correlated = tuple(part for part in parts if moved and not columns_of(part) <= here)
        timed = tuple(part for part in parts if inner and not is_deterministic(part) and part not in correlated)
        on = conjunction(tuple(part for part in parts if part not in correlated and part not in timed))
        if self.kind in _FILLS_LEFT:
            left = _compute_columns(left, columns_of(on), node, environment)
        if self.kind in _FILLS_RIGHT:
            right = _compute_columns(right, columns_of(on), node, environment)
        relation: Relation = Join(self.kind, left.relation, right.relation, on)
        relation = Filter(relation, conjunction(timed)) if timed else relation
        return FromClause(
            relation, self._scope(left, right), self._not_null(), (*left.correlated, *right.correlated, *correlated)
        )

    def _apply_ranks(self) -> tuple[FromClause, FromClause, tuple[Expr, ...]]:
        """Conditions on a rank decide how many rows a side keeps, where the join does not have to keep them all."""
        left, right, parts = self.left, self.right, self.parts
        if self.kind in (JoinKind.INNER, JoinKind.RIGHT):
            relation, parts = keep_first(left.relation, parts)
            left = replace(left, relation=relation)
        if self.kind in (JoinKind.INNER, JoinKind.LEFT, *_LEFT_ONLY):
            relation, parts = keep_first(right.relation, parts)
            right = replace(right, relation=relation)
        return left, right, parts

    def _not_null(self) -> frozenset[str]:
        kept_left = frozenset() if self.kind in _FILLS_LEFT else self.left.not_null
        kept_right = frozenset() if self.kind in (*_FILLS_RIGHT, *_LEFT_ONLY) else self.right.not_null
        return kept_left | kept_right

    def _scope(self, left: FromClause, right: FromClause) -> Scope:
        seen = left.scope if self.kind in _LEFT_ONLY else _side_by_side(left.scope, right.scope)
        for name in self.using:
            seen = self._merge_column(name, left.scope, right.scope, seen)
        return seen

    def _merge_column(self, name: str, left: Scope, right: Scope, seen: Scope) -> Scope:
        sides = left.find(name, None), right.find(name, None)
        if any(len(found) != 1 for found in sides):
            return seen  # a mistake that is reported
        values = sides[0] + sides[1]
        value = values[1] if self.kind == JoinKind.RIGHT else values[0]
        if self.kind == JoinKind.FULL and common_type(*(side.type for side in values)) is not None:
            value = apply(FUNCTIONS["coalesce"], values)
        spelled = next(column.name for column in left.all() if fold(column.name) == fold(name))
        others = tuple(column for column in seen.merged if fold(column.name) != fold(name))
        owners = ((fold(table.alias), fold(name)) for table in seen.tables if table.named(name))
        types = {left.find_origin_type(name, None), right.find_origin_type(name, None)}
        merged = Visible(spelled, value, types.pop() if len(types) == 1 else None)
        return Scope(seen.tables, (*others, merged), seen.hidden | frozenset(owners))


def _compute_columns(side: FromClause, also: frozenset[str], node: exp.Expr, environment: Environment) -> FromClause:
    """The side with every visible column a field. `also` are fields that the join's condition reads."""
    visible = [
        (f"{table.alias}.{column.name}", column.value) for table in side.scope.tables for column in table.columns
    ]
    visible += [(column.name, column.value) for column in side.scope.merged]
    # NULL is the same before and after.
    computed = [value for _, value in visible if not isinstance(value, Column) and value.type != NULL]
    if not computed:
        return side
    if any(value.type in INTERVALS for value in computed):
        refuse("interval column", environment.at(node))
    outputs: dict[Expr, Output] = {}
    for name, value in visible:
        if value not in outputs and value.type != NULL:
            field_name = value.name if isinstance(value, Column) else environment.books.fresh(environment.path + name)
            outputs[value] = Output(field_name, value)
    for field in fields_of(side.relation):
        column = Column(field.name, field.type)
        if field.name in also and column not in outputs:
            outputs[column] = Output(field.name, column)
    relation = Projection(side.relation, tuple(outputs.values()))
    return replace(side, relation=relation, scope=_move_scope(side.scope, outputs))


def _move_scope(scope: Scope, outputs: dict[Expr, Output]) -> Scope:
    def field(column: Visible) -> Visible:
        output = outputs.get(column.value)
        return column if output is None else replace(column, value=Column(output.name, column.value.type))

    tables = tuple(replace(table, columns=tuple(map(field, table.columns))) for table in scope.tables)
    return replace(scope, tables=tables, merged=tuple(map(field, scope.merged)))
