"""What going over from one plan to another does, in words and in the order in which it is done.

`apply` does it, `apply --dry-run` and `plan` only say it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from headrace.model.amounts import format_seconds
from headrace.model.difference import ChangeStep, Difference
from headrace.model.names import name_of_view
from headrace.model.plan import ContractPlan, Graph, Plan
from headrace.model.words import name_dataset, name_vertex
from headrace.plan.price import upstream_first


def first_steps(plan: Plan) -> tuple[ChangeStep, ...]:
    """Of a project of which nothing runs."""
    return tuple(_loads(plan, plan.graph.vertices, [entry.contract for entry in plan.contracts]))


def steps_between(old: Plan, new: Plan, found: Difference) -> tuple[ChangeStep, ...]:
    """`found` says what differs."""
    return (
        *(_reread(new, name, found.rebuilt) for name in found.reread),
        *(
            ChangeStep("take over", f"take over {one.what}: {one.field} {one.before} -> {one.after}")
            for one in found.values
        ),
        *_loads(new, found.added, (*found.contracts_added, *found.contracts_changed)),
        *(_move(old, new, *pair) for pair in found.moved),
        *(
            ChangeStep("rewire", f"compute {name_vertex(new.graph.vertices[name])} differently", (name,))
            for name in found.rewired
        ),
        *_changes(old, new, found.contracts_changed),
        *(
            ChangeStep("keep", f"keep {one.contract} as it runs: refused, because {one.because.detail}")
            for one in new.goes_on
        ),
        *_stops(old, found.contracts_removed, found.removed),
        *_drops(old, found.contracts_removed, found.removed),
    )


def _reread(plan: Plan, source: str, rebuilt: Iterable[str]) -> ChangeStep:
    made = made_from(plan.graph, (source,))
    names = tuple(name for name in rebuilt if name in made)
    return ChangeStep(
        "reread", f"read {source} again, and rebuild everything computed from it ({_count(names)})", names
    )


def made_from(graph: Graph, sources: Collection[str]) -> frozenset[str]:
    """The vertices of some sources, and all that are computed from them."""
    found = set[str]()
    for name in upstream_first(graph, graph.vertices):
        vertex, edge = graph.vertices[name], graph.edges.get(name)
        if (vertex.base and vertex.scope[0] in sources) or (edge is not None and found.intersection(edge.inputs)):
            found.add(name)
    return frozenset(found)


def _loads(plan: Plan, vertices: Iterable[str], first: Iterable[str]) -> Iterator[ChangeStep]:
    """What is new is told with the contract that it is for, one that comes before one that is there already."""
    entries, order = {entry.contract: entry for entry in plan.contracts}, list(first)
    found: dict[str, list[str]] = {}
    for name in vertices:
        serves = plan.vertex_figures[name].serves
        found.setdefault(next((one for one in order if one in serves), serves[0]), []).append(name)
    for contract, names in found.items():
        yield ChangeStep("load", f"load {_what(entries[contract])} ({_count(names)})", tuple(names))


def _what(entry: ContractPlan) -> str:
    return f"{name_of_view(entry.view)} at {entry.site}"


def _count(names: Iterable[str]) -> str:
    number = len(list(names))
    return "1 vertex" if number == 1 else f"{number} vertices"


def _move(old: Plan, new: Plan, before: str, after: str) -> ChangeStep:
    start, target = old.graph.vertices[before], new.graph.vertices[after]
    return ChangeStep("move", f"move {name_dataset(target)} from {start.site} to {target.site}", (before, after))


def _changes(old: Plan, new: Plan, contracts: Iterable[str]) -> Iterator[ChangeStep]:
    before = {entry.contract: entry for entry in old.contracts}
    for entry in new.contracts:
        if entry.contract in contracts and entry.contract in before:
            yield ChangeStep("change", f"change {entry.contract}: {_terms(before[entry.contract], entry)}")


def _terms(before: ContractPlan, after: ContractPlan) -> str:
    pairs = (
        (_what(before), _what(after)),
        (format_seconds(before.freshness_s), format_seconds(after.freshness_s)),
        (f"penalty {before.penalty:g} $/row", f"penalty {after.penalty:g} $/row"),
    )
    told = [f"{first} -> {second}" for first, second in pairs if first != second]
    if before.vertex != after.vertex and not told:
        told.append("another query")
    return ", ".join(told) or "other columns, owner or delivery"


def _stops(old: Plan, contracts: Iterable[str], removed: Iterable[str]) -> Iterator[ChangeStep]:
    """Contracts that go, each with what served nobody else."""
    gone = frozenset(removed)
    for entry in old.contracts:
        if entry.contract in contracts:
            names = tuple(name for name in old.graph.vertices if name in gone and _serves_first(old, name, entry))
            yield ChangeStep("stop", f"stop {entry.contract}: {_what(entry)} ({_count(names)})", names)


def _serves_first(old: Plan, vertex: str, entry: ContractPlan) -> bool:
    return old.vertex_figures[vertex].serves[0] == entry.contract


def _drops(old: Plan, contracts: Iterable[str], removed: Iterable[str]) -> Iterator[ChangeStep]:
    """What contracts that stay have no use for any more."""
    gone, found = frozenset(contracts), dict[tuple[str, ...], list[str]]()
    for name in removed:
        serves = old.vertex_figures[name].serves
        if serves[0] not in gone:
            found.setdefault(tuple(one for one in serves if one not in gone), []).append(name)
    for staying, names in found.items():
        need = "needs" if len(staying) == 1 else "need"
        yield ChangeStep("drop", f"drop what {_list(staying)} no longer {need} ({_count(names)})", tuple(names))


def _list(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
