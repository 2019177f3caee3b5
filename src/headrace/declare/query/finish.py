"""What can only be said of the finished tree: every name has its row, and time is used for filters only."""

from __future__ import annotations

from dataclasses import replace

from headrace.declare.query.arrivals import window_by_arrival
from headrace.declare.query.constants import decide_sources
from headrace.declare.query.environment import Environment
from headrace.declare.query.event_tables import join_as_of_events
from headrace.declare.query.now import is_time_filter
from headrace.declare.query.report import refuse
from headrace.declare.query.streams import StreamCheck
from headrace.declare.query.time_values import settle_time
from headrace.declare.query.trees import expressions_of, nodes, rebuilt
from headrace.model.expr import columns_of, conjuncts, is_deterministic
from headrace.model.relation import (
    Filter,
    Projection,
    Relation,
    Scan,
    Sessions,
    TopK,
    Windows,
    fields_of,
    inputs_of,
)

MOST_NESTED = 40
"""Steps within each other that are maintained: the planner, and what compiles and runs its plan, recurse over them."""


def finish(relation: Relation, environment: Environment) -> Relation:
    """The tree as it is handed on. Refuses what only now shows itself to be not maintained."""
    if (steps := _count_nested(relation)) > MOST_NESTED:
        hint = f"{steps} joins, groupings and unions are nested, including those of views; at most "
        refuse("deep nesting", environment.text.origin, f"{hint}{MOST_NESTED} are maintained")
    if not environment.in_full:
        relation = rebuilt(relation, lambda node: window_by_arrival(node, environment))
        relation = rebuilt(relation, lambda node: settle_time(node, environment))
    relation = decide_sources(relation, environment)
    used: set[str] = set()
    for node in nodes(relation):
        if not environment.in_full:
            _check_time(node, environment)
        used |= _check_names(node, environment)
    StreamCheck(environment).flow(relation)
    relation = join_as_of_events(relation, environment)
    return rebuilt(relation, lambda node: _without_unused_rank(node, used))


def _count_nested(relation: Relation) -> int:
    """How many steps the deepest rows go through. Counts without recursion, for which a tree may be too deep."""
    most, waiting = 0, [(relation, 0)]
    while waiting:
        node, around = waiting.pop()
        depth = around + (not isinstance(node, Scan | Filter | Projection))
        most = max(most, depth)
        waiting += [(input_, depth) for input_ in inputs_of(node)]
    return most


def _check_time(node: Relation, environment: Environment) -> None:
    parts = conjuncts(node.predicate) if isinstance(node, Filter) else expressions_of(node)
    for part in parts:
        if not is_deterministic(part) and not (isinstance(node, Filter) and is_time_filter(part)):
            name = "processing time" if isinstance(node, Windows | Sessions) else "now() as a value"
            refuse(name, environment.books.now_place or environment.text.origin)


def _check_names(node: Relation, environment: Environment) -> set[str]:
    """The columns that an operator reads. One that its inputs do not have belongs to a query around it."""
    here = {field.name for input_ in inputs_of(node) for field in fields_of(input_)}
    used = {name for expr in expressions_of(node) for name in columns_of(expr)}
    if not used <= here:
        refuse("correlated subquery", environment.books.outer_place or environment.text.origin)
    return used


def _without_unused_rank(node: Relation, used: set[str]) -> Relation:
    return replace(node, rank_name=None) if isinstance(node, TopK) and node.rank_name not in used else node
