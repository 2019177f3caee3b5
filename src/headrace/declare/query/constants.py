"""Rows that no source holds: SELECT without FROM.

The algebra reads sources only. An aggregate without keys has one row whatever it reads, so one row is the count of no
rows of a source. Which source is decided when the whole tree is known (`finish`): one that the view reads anyway, or
else the first that is declared.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.declare.query.environment import Environment
from headrace.declare.query.report import refuse
from headrace.declare.query.trees import nodes, rebuilt
from headrace.model.catalogue import Source, SourceKind
from headrace.model.expr import FALSE
from headrace.model.relation import Aggregate, AggregateCall, AggregateFunction, Filter, Relation, Scan
from headrace.model.types import BIGINT

UNDECIDED = ""
"""The source of scans that stand for any source. Nobody can declare one of this name."""


def make_one_row(environment: Environment) -> Relation:
    """One row, of a field that nobody reads."""
    alias = environment.books.fresh(f"{environment.path}nothing")
    count = AggregateCall(f"{alias}.rows", AggregateFunction.COUNT, None, False, BIGINT)
    return Aggregate(Filter(Scan(UNDECIDED, alias, (), ()), FALSE), (), (count,))


def is_one_row(relation: Relation) -> bool:
    return isinstance(relation, Aggregate) and _is_undecided(relation)


def _is_undecided(relation: Aggregate) -> bool:
    below = relation.input
    return isinstance(below, Filter) and isinstance(below.input, Scan) and below.input.source == UNDECIDED


def decide_sources(relation: Relation, environment: Environment) -> Relation:
    """The tree with a source in place of those that are undecided."""
    scans = [node for node in nodes(relation) if isinstance(node, Scan)]
    if all(scan.source != UNDECIDED for scan in scans):
        return relation
    source = _choose_source([scan.source for scan in scans if scan.source != UNDECIDED], environment)
    if source.name not in environment.reads and not _is_read(source.name, scans):
        environment.reads.append(source.name)
    assert source.columns is not None, "sources without columns are not chosen"
    names = tuple(column.name for column in source.columns)
    types = tuple(column.type for column in source.columns)

    def decide(node: Relation) -> Relation:
        if isinstance(node, Scan) and node.source == UNDECIDED:
            return replace(node, source=source.name, columns=names, types=types)
        return node

    return rebuilt(relation, decide)


def _is_read(name: str, scans: list[Scan]) -> bool:
    return any(scan.source == name for scan in scans)


def _choose_source(read: list[str], environment: Environment) -> Source:
    sources = environment.declared.sources
    choices = [sources[name] for name in read if name in sources] or list(sources.values())
    known = [source for source in choices if source.columns is not None]
    tables = [source for source in known if source.kind == SourceKind.TABLE]
    if not known:
        hint = "declare a source: views are planned where their sources are"
        refuse("clause: select without from", environment.text.origin, hint)
    return (tables or known)[0]
