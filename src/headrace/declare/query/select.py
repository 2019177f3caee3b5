"""One SELECT, clause by clause in the order in which they mean something."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from headrace.declare.query.aggregation import group, is_aggregated
from headrace.declare.query.conditions import keep_where
from headrace.declare.query.environment import Environment, Purpose, Rows, Size
from headrace.declare.query.expressions import read_value
from headrace.declare.query.items import as_fields, outputs, read_items
from headrace.declare.query.joins import read_from
from headrace.declare.query.limits import Sorted, is_limited, keep_limit
from headrace.declare.query.ranking import read_ranking
from headrace.declare.query.report import refuse
from headrace.declare.query.scope import Visible, fold
from headrace.declare.query.stage import QueryStage
from headrace.declare.query.subqueries import read_scalar
from headrace.declare.query.tables import refuse_clauses
from headrace.model.expr import Column
from headrace.model.relation import Aggregate, AggregateFunction, Distinct, Projection, Relation, TopK

_CLAUSES = (
    *("with_", "expressions", "hint", "distinct", "from_", "joins", "where", "group", "having", "qualify"),
    *("order", "limit", "offset"),
)


def read_select(node: exp.Select, environment: Environment, outer: QueryStage | None, purpose: Purpose) -> Rows:
    """The rows of a SELECT and its columns as expressions over them."""
    refuse_clauses(node, environment, *_CLAUSES)
    if node.args.get("from_") is None:
        refuse("select without from", environment.at(node))
    core = read_from(node.args["from_"].this, node.args.get("joins") or (), environment, outer)
    stage = QueryStage(
        environment,
        "WHERE",
        core.scope,
        core.relation,
        not_null=core.not_null,
        outer=outer,
        subquery=read_scalar,
        correlated=core.correlated,
    )
    if node.args.get("where"):
        keep_where(node.args["where"].this, stage)
    aggregated = is_aggregated(node, stage)
    stage.clause = "GROUP BY"
    if aggregated:
        stage = group(node, stage, purpose)
    return _read_select(node, stage, purpose, _size(node, aggregated))


def _size(node: exp.Select, aggregated: bool) -> Size:
    if not aggregated or node.args.get("group"):
        return Size.ANY
    return Size.AT_MOST_ONE if node.args.get("having") else Size.ONE


def _read_select(node: exp.Select, stage: QueryStage, purpose: Purpose, size: Size) -> Rows:
    """What is left after HAVING, SELECT, QUALIFY, DISTINCT, ORDER BY and LIMIT."""
    counts = _counts(stage.relation)
    if node.args.get("having"):
        _keep_having(node, stage)
    stage.clause, stage.ranking = "SELECT", read_ranking
    items = read_items(node.expressions, stage, named=purpose == Purpose.TABLE)
    if node.args.get("qualify"):
        stage.clause = "QUALIFY"
        keep_where(node.args["qualify"].this, stage)
    before = _keep_distinct(node, Sorted(stage, items, purpose, size))
    if stage.correlated and (before.fields is not None or is_limited(node, before)):
        environment = stage.environment
        refuse("correlated subquery", environment.books.outer_place or environment.at(node))
    relation, items = keep_limit(node, before)
    single = isinstance(relation, TopK) and relation.limit == 1 and size == Size.ANY
    return Rows(
        relation,
        tuple(Visible(item.name, item.value) for item in items),
        stage.not_null,
        stage.correlated,
        complete=stage.scope.complete or not any(part.is_star for part in node.expressions),
        size=Size.AT_MOST_ONE if single else size,
        counts=counts,
    )


def _counts(relation: Relation) -> frozenset[str]:
    """Aggregates that are 0 over nothing."""
    calls = relation.calls if isinstance(relation, Aggregate) else ()
    return frozenset(call.name for call in calls if call.function == AggregateFunction.COUNT)


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
    refuse_clauses(distinct, stage.environment, "expressions")
    membership = before.purpose in (Purpose.EXISTENCE, Purpose.MEMBERS) and not is_limited(node, before)
    if membership or before.size != Size.ANY:
        return before
    made = outputs(before.items, stage.environment)
    stage.relation = Distinct(Projection(stage.relation, made))
    fields = {output.expr: Column(output.name, output.expr.type) for output in made}
    return replace(before, items=as_fields(before.items, made), fields=fields)
