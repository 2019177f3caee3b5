"""Where the operators of a graph may run, and an order in which inputs come before their readers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from graphlib import TopologicalSorter

from headrace.plan.place.instance import CLOUD, Dag, PlacedOperator, PlacementMode


def in_order(dag: Dag) -> Iterator[PlacedOperator]:
    """The operators, inputs before readers: as they are listed, if they are listed so."""
    known = set(dag.sources)
    if all(_after_its_inputs(operator, known) for operator in dag.operators):
        return iter(dag.operators)
    by_id = {operator.id: operator for operator in dag.operators}
    sorter = TopologicalSorter(
        {operator.id: [name for name, _ in operator.inputs if name in by_id] for operator in dag.operators}
    )
    return (by_id[name] for name in sorter.static_order())


def _after_its_inputs(operator: PlacedOperator, known: set[str]) -> bool:
    known.add(operator.id)
    return all(name in known and name != operator.id for name, _ in operator.inputs)


def derived_from(dag: Dag, operators: Sequence[PlacedOperator]) -> dict[str, frozenset[str]]:
    """The devices whose data each stream comes from."""
    derived = {name: frozenset({home} - {CLOUD}) for name, home in dag.sources.items()}
    for operator in operators:
        derived[operator.id] = frozenset().union(*(derived[name] for name, _ in operator.inputs))
    return derived


def allowed_devices(dag: Dag, operators: Sequence[PlacedOperator]) -> dict[str, frozenset[str]]:
    """Where each operator may run besides the Cloud. With mode `located`, where one of its inputs may be."""
    everywhere = frozenset(dag.sources.values()) - {CLOUD}
    derived = derived_from(dag, operators) if dag.mode != PlacementMode.ANY else {}
    possible: dict[str, frozenset[str]] = {name: frozenset({home} - {CLOUD}) for name, home in dag.sources.items()}
    for operator in operators:
        if operator.allowed is not None:
            devices = frozenset(operator.allowed) - {CLOUD}
        else:
            devices = everywhere if dag.mode == PlacementMode.ANY else derived[operator.id]
        if operator.pin is not None:
            devices &= {operator.pin}
        if dag.mode == PlacementMode.LOCATED:
            devices &= frozenset().union(*(possible[name] for name, _ in operator.inputs))
        possible[operator.id] = devices
    return {operator.id: possible[operator.id] for operator in operators}
