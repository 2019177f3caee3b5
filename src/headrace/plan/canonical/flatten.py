"""The algebra as queries: projections are substituted, filters collected, inner joins made flat; all else becomes
nodes.

Every scan and node gets an alias of its own, so a view that is read twice is two inputs. Right joins become left joins.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from headrace.model.errors import Problem, UnsupportedSql
from headrace.model.expr import Call, Column, Expr, conjuncts, substitute, walk
from headrace.model.relation import (
    Aggregate,
    Distinct,
    Field,
    Filter,
    Join,
    JoinKind,
    Matching,
    Negate,
    Output,
    Over,
    Projection,
    Relation,
    Scan,
    Sessions,
    Stamped,
    TopK,
    Unfold,
    UnionAll,
    Version,
    Windows,
    fields_of,
)
from headrace.plan.canonical.drafts import (
    CoreInput,
    Dated,
    Deduplicated,
    DraftCore,
    DraftQuery,
    DraftWindow,
    Framed,
    Grouped,
    Node,
    Ranked,
    Sessioned,
    Sided,
    Unfolded,
    United,
    Windowed,
    add_predicates,
    column_at,
    query_of_node,
)
from headrace.plan.canonical.time_windows import group_by_window, spread_windows

MAX_EXPRESSION_SIZE = 20_000
"""Calls in one substituted expression. Views that double an expression at every level would grow without bound."""


def flatten(relation: Relation) -> DraftQuery:
    return _Flattener().whole(relation)


@dataclass(slots=True)
class _Flattener:
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def whole(self, relation: Relation) -> DraftQuery:
        """A query that nothing groups: its windows are columns."""
        return spread_windows(self.query(relation), self._alias())

    def query(self, relation: Relation) -> DraftQuery:
        match relation:
            case Scan():
                return self._scan(relation)
            case Filter(input_, predicate):
                return add_predicates(self.query(input_), conjuncts(predicate))
            case Projection(input_, outputs):
                query = self.query(input_)
                return DraftQuery(query.core, tuple(substitute_output(output, query) for output in outputs))
            case Join(JoinKind.INNER, left, right, on):
                return add_predicates(_product(self.query(left), self.query(right)), conjuncts(on))
            case Join(JoinKind.RIGHT, left, right, on):
                swapped = self.query(Join(JoinKind.LEFT, right, left, on))
                values = swapped.values
                # Unions go by position, and top-k breaks ties by it.
                return DraftQuery(swapped.core, tuple(Output(f.name, values[f.name]) for f in fields_of(relation)))
            case Aggregate():
                return self._aggregate(relation)
            case Negate() | Matching():
                raise AssertionError(f"no query has this operator: {relation}")
            case _:
                return query_of_node(self._node(relation), self._alias())

    def _alias(self) -> str:
        return f"n{next(self._numbers)}"

    def _scan(self, scan: Scan) -> DraftQuery:
        assert scan.version is Version.NOW, f'a query reads rows as they are now: "{scan.source}"'
        alias = f"s{next(self._numbers)}"
        outputs = (
            Output(f"{scan.alias}.{column}", column_at(alias, Field(column, type_)))
            for column, type_ in zip(scan.columns, scan.types, strict=True)
        )
        return DraftQuery(DraftCore((CoreInput(alias, scan),)), tuple(outputs))

    def _node(self, relation: Distinct | Join | Over | Sessions | Stamped | TopK | Unfold | UnionAll | Windows) -> Node:
        match relation:
            case Join(kind, left, right, on):
                return Sided(kind, self.whole(left), self.whole(right), conjuncts(on))
            case Windows(input_):
                window = DraftWindow(
                    relation.time,
                    relation.size_ms,
                    relation.slide_ms,
                    relation.offset_ms,
                    relation.start,
                    relation.end,
                )
                return Windowed(self.whole(input_), window)
            case Unfold(input_, columns, place, outer):
                return Unfolded(self.whole(input_), columns, place, outer)
            case Stamped(input_, time, from_beginning):
                return Dated(self.whole(input_), time, from_beginning)
            case Distinct(input_):
                query = self.whole(input_)
                return Deduplicated(query.core, query.outputs)
            case Sessions():
                return self._sessions(relation)
            case TopK():
                return self._top_k(relation)
            case Over():
                return self._over(relation)
            case UnionAll(inputs):
                return _unite_branches(tuple(self.whole(input_) for input_ in inputs))

    def _aggregate(self, relation: Aggregate) -> DraftQuery:
        query = self.query(relation.input)
        keys = tuple(substitute_output(key, query) for key in relation.keys)
        calls = tuple(call.over(lambda expr: _substitute(expr, query)) for call in relation.calls)
        return group_by_window(Grouped(query.core, keys, calls), self._alias())

    def _top_k(self, relation: TopK) -> Ranked:
        query = self.whole(relation.input)
        return Ranked(
            query.core,
            query.outputs,
            tuple(_substitute(expr, query) for expr in relation.partition),
            tuple(replace(order, expr=_substitute(order.expr, query)) for order in relation.order),
            relation.limit,
            relation.offset,
            relation.ranking,
            relation.rank_name,
        )

    def _sessions(self, relation: Sessions) -> Sessioned:
        query = self.whole(relation.input)
        partition = tuple(_substitute(expr, query) for expr in relation.partition)
        bounds = (relation.start, relation.end)
        return Sessioned(
            query.core, query.outputs, partition, _substitute(relation.time, query), relation.gap_ms, *bounds
        )

    def _over(self, relation: Over) -> Framed:
        query = self.whole(relation.input)
        return Framed(
            query.core,
            query.outputs,
            tuple(_substitute(expr, query) for expr in relation.partition),
            tuple(replace(order, expr=_substitute(order.expr, query)) for order in relation.order),
            tuple(call.over(lambda expr: _substitute(expr, query)) for call in relation.calls),
        )


def substitute_output(output: Output, query: DraftQuery) -> Output:
    return Output(output.name, _substitute(output.expr, query))


def _substitute(expr: Expr, query: DraftQuery) -> Expr:
    values = query.values
    size = sum(
        _size(values[node.name]) if isinstance(node, Column) and node.name in values else 1 for node in walk(expr)
    )
    if size > MAX_EXPRESSION_SIZE:
        problem = Problem(
            f"an expression has more than {MAX_EXPRESSION_SIZE} parts once the views it reads are written out",
            hint="compute the repeated part in a view with GROUP BY or DISTINCT, which is not written out",
        )
        raise UnsupportedSql("expression size", problem)
    return substitute(expr, values)


def _size(expr: Expr) -> int:
    return sum(1 for _ in walk(expr)) if isinstance(expr, Call) else 1


def _product(left: DraftQuery, right: DraftQuery) -> DraftQuery:
    core = DraftCore((*left.core.inputs, *right.core.inputs), (*left.core.predicates, *right.core.predicates))
    return DraftQuery(core, (*left.outputs, *right.outputs))


def _unite_branches(branches: tuple[DraftQuery, ...]) -> United:
    """Outputs of all branches get the names of the first one's."""
    names = [output.name for output in branches[0].outputs]
    renamed = (
        DraftQuery(
            branch.core, tuple(Output(name, output.expr) for name, output in zip(names, branch.outputs, strict=True))
        )
        for branch in branches
    )
    return United(tuple(renamed))
