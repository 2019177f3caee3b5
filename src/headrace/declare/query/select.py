"""One SELECT, clause by clause in the order in which they mean something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from headrace.declare.query.aggregation import group, is_aggregated
from headrace.declare.query.conditions import keep_where
from headrace.declare.query.constants import make_one_row
from headrace.declare.query.correlation import split_conditions
from headrace.declare.query.environment import Environment, FromClause, Purpose, Rows, Size
from headrace.declare.query.expressions import read_value
from headrace.declare.query.items import as_fields, outputs, read_items
from headrace.declare.query.joins import move_subqueries, read_from, read_lateral_view
from headrace.declare.query.limits import Sorted, is_limited, keep_limit, keep_one_of_each, read_key
from headrace.declare.query.postgres_spans import refuse_sorting
from headrace.declare.query.quantified import read_quantified
from headrace.declare.query.report import refuse
from headrace.declare.query.scope import Scope, fold
from headrace.declare.query.stage import PlacedMistakes, QueryStage
from headrace.declare.query.subqueries import read_scalar
from headrace.declare.query.tables import refuse_clauses
from headrace.declare.query.unfolding import unfold_keys, unfold_list, unfolds
from headrace.declare.query.window_functions import read_window, windows_in
from headrace.model.dialect import SqlDialect
from headrace.model.expr import Column, Expr, Literal
from headrace.model.relation import Aggregate, Distinct, Projection, Ranking, Relation, TopK, fields_of, over_nothing

_CLAUSES = (
    *("with_", "expressions", "hint", "distinct", "from_", "joins", "where", "group", "having", "qualify"),
    *("windows", "order", "limit", "offset", "laterals", "locks"),
)


def read_select(node: exp.Select, environment: Environment, outer: QueryStage | None, purpose: Purpose) -> Rows:
    """The rows of a SELECT and its columns as expressions over them."""
    refuse_clauses(node, environment, *_CLAUSES)
    if node.args.get("locks"):
        environment.report.note("a view locks no rows: FOR UPDATE and its kin are left out", environment.at(node))
    move_subqueries(node)
    core = _read_rows(node, environment, outer)
    stage = QueryStage(
        environment,
        "WHERE",
        core.scope,
        core.relation,
        not_null=core.not_null,
        outer=outer,
        subquery=read_scalar,
        quantified=read_quantified,
        correlated=core.correlated,
    )
    if node.args.get("where"):
        keep_where(node.args["where"].this, stage)
    aggregated = is_aggregated(node, stage)
    stage.clause = "GROUP BY"
    written = node.expressions
    try:
        unfolded = unfold_keys(node, stage) if aggregated else None
        if unfolded is not None:
            node.set("expressions", unfolded)
        if aggregated:
            stage = group(node, stage, purpose)
        size = Size.ANY if unfolds(written) else _size(node, aggregated)
        if unfolded is None:
            _read_windows_first(node, stage)
            of_groups = aggregated and (outer is not None or _has_windows(node))
            node.set("expressions", unfold_list(node.expressions, stage, aggregated=of_groups))
        return _read_select(node, stage, purpose, size)
    finally:
        node.set("expressions", written)  # whoever reads or writes the query next finds what stands there


def _has_windows(node: exp.Select) -> bool:
    return any(True for _ in windows_in(*node.expressions))


def _read_windows_first(node: exp.Select, stage: QueryStage) -> None:
    """Window functions beside a function of rows are of the rows before that, in PostgreSQL."""
    if (
        stage.environment.text.dialect is SqlDialect.POSTGRES
        and unfolds(node.expressions)
        and not node.args.get("having")
    ):
        _allow_windows(node, stage)
        for window in windows_in(*node.expressions):
            read_value(window, stage)


def _allow_windows(node: exp.Select, stage: QueryStage) -> None:
    stage.clause, stage.windowing = "SELECT", read_window
    stage.named_windows = {fold(window.name): window for window in node.args.get("windows") or ()}


def _read_rows(node: exp.Select, environment: Environment, outer: QueryStage | None) -> FromClause:
    if node.args.get("from_") is None:
        return FromClause(make_one_row(environment), Scope())
    core = read_from(node.args["from_"].this, node.args.get("joins") or (), environment, outer)
    for view in node.args.get("laterals") or ():
        core = read_lateral_view(view, core, environment, outer)
    return core


def _size(node: exp.Select, aggregated: bool) -> Size:
    if not aggregated and node.args.get("from_") is None:
        return Size.AT_MOST_ONE if node.args.get("where") or node.args.get("qualify") else Size.ONE
    if not aggregated or node.args.get("group"):
        return Size.ANY
    return Size.AT_MOST_ONE if node.args.get("having") else Size.ONE


def _read_select(node: exp.Select, stage: QueryStage, purpose: Purpose, size: Size) -> Rows:
    """What is left after HAVING, SELECT, QUALIFY, DISTINCT, ORDER BY and LIMIT."""
    counts = _counts(stage.relation)
    if node.args.get("having"):
        _keep_having(node, stage)
    _allow_windows(node, stage)
    items = read_items(node.expressions, stage, named=purpose == Purpose.TABLE)
    if node.args.get("qualify"):
        stage.clause = "QUALIFY"
        for window in windows_in(node.args["qualify"], node.args.get("order")):
            read_value(window, stage)  # of all rows, before the first is left out
        keep_where(node.args["qualify"].this, stage)
    before = _keep_distinct(node, Sorted(stage, items, purpose, size))
    if stage.correlated and (before.fields is not None or is_limited(node, before)):
        return _limit_for_each(node, before)
    kept = keep_limit(node, before)
    single = size == Size.ANY and _is_single(kept.relation)
    return Rows(
        kept.relation,
        tuple(item.visible for item in kept.items),
        stage.not_null,
        stage.correlated,
        complete=stage.scope.complete or not any(part.is_star for part in node.expressions),
        size=Size.AT_MOST_ONE if single else size,
        counts=counts,
    )


def _is_single(relation: Relation) -> bool:
    """Whether LIMIT 1 is left of the rows, and not the first of each partition."""
    is_first = isinstance(relation, TopK) and relation.limit == 1 and relation.ranking is Ranking.ROW_NUMBER
    return is_first and isinstance(relation, TopK) and not relation.partition


def _limit_for_each(node: exp.Select, before: Sorted) -> Rows:
    """The first rows for each row of the query around: within the columns that are compared with it."""
    stage, environment = before.stage, before.stage.environment
    sides = split_conditions(stage.correlated, {field.name for field in fields_of(stage.relation)})
    if sides is None or before.fields is not None:
        refuse("correlated subquery", environment.books.outer_place or environment.at(node))
    kept = keep_limit(node, replace(before, partition=tuple(dict.fromkeys(side.inner for side in sides))))
    assert isinstance(kept.relation, TopK), "limited rows are ranked"
    fields = dict(zip(dict.fromkeys(side.inner for side in sides), kept.partition, strict=True))
    return Rows(
        kept.relation,
        tuple(item.visible for item in kept.items),
        correlated=tuple(side.compare(fields[side.inner]) for side in sides),
        complete=stage.scope.complete,
        size=Size.AT_MOST_ONE if kept.relation.limit == 1 else Size.ANY,
    )


def _counts(relation: Relation) -> Mapping[str, Literal]:
    """Aggregates that are something over nothing."""
    calls = relation.calls if isinstance(relation, Aggregate) else ()
    found = ((call, over_nothing(call)) for call in calls)
    return {call.name: nothing for call, nothing in found if nothing.value is not None}


def _keep_having(node: exp.Select, stage: QueryStage) -> None:
    """HAVING, which may name items of SELECT by their aliases."""
    condition = node.args["having"].this
    named = {fold(column.name) for column in condition.find_all(exp.Column) if not column.table}
    wanted = [item for item in node.expressions if isinstance(item, exp.Alias) and fold(item.alias) in named]
    stage.clause = "HAVING"
    stage.aliases = {
        fold(item.alias): read_value(item.this, stage) for item in wanted if not stage.scope.find(item.alias, None)
    }
    keep_where(condition, stage)
    stage.aliases = {}


def _keep_distinct(node: exp.Select, before: Sorted) -> Sorted:
    """Each row once, unless that makes no difference to what the rows are for."""
    distinct, stage = node.args.get("distinct"), before.stage
    if distinct is None:
        return before
    refuse_clauses(distinct, stage.environment, "expressions", "on")
    if distinct.args.get("on"):
        return keep_one_of_each(node, before, _distinct_on(distinct.args["on"], before))
    for item in node.expressions:
        with PlacedMistakes(stage, item):
            refuse_sorting(item.unalias(), "DISTINCT of")
    membership = before.purpose in (Purpose.EXISTENCE, Purpose.MEMBERS) and not is_limited(node, before)
    if membership or before.size != Size.ANY:
        return before
    made = outputs(before.items, stage.environment)
    stage.relation = Distinct(Projection(stage.relation, made))
    fields = {output.expr: Column(output.name, output.expr.type) for output in made}
    return replace(before, items=as_fields(before.items, made), fields=fields)


def _distinct_on(node: exp.Expr, before: Sorted) -> tuple[Expr, ...]:
    """What DISTINCT ON compares; it may name items by position or alias."""
    parts = node.expressions if isinstance(node, exp.Tuple) else [node.unnest()]
    return tuple(dict.fromkeys(read_key(part, before) for part in parts))
