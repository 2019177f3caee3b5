"""A device is gone for good: what derives from its data goes with it, and nothing else does.

By default nothing else runs on a device. Operators that were pinned or allowed there without needing its data stay
and are placed again. (A device that is only away for a while changes nothing: its data are kept and replayed.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.plan.place.adapt import PlacementChange, StandingPlacement
from headrace.plan.place.allowed import derived_from, in_order
from headrace.plan.place.instance import CloudTree, Dag, PlacedOperator


@dataclass(frozen=True, slots=True)
class Failed:
    """The instance that is left, the operators that are lost, and those whose pin or allowed device is gone."""

    dag: Dag
    lost: frozenset[str]
    displaced: frozenset[str]


def without_device(dag: Dag, device: str) -> Failed:
    derived = derived_from(dag, tuple(in_order(dag)))
    lost = frozenset(operator.id for operator in dag.operators if device in derived[operator.id])
    left = [operator for operator in dag.operators if operator.id not in lost]
    displaced = frozenset(
        operator.id for operator in left if operator.pin == device or device in (operator.allowed or ())
    )
    sources = {name: home for name, home in dag.sources.items() if home != device}
    core = dag.core
    if core is not None:
        core = CloudTree(core.links, {name: node for name, node in core.attach.items() if name != device})
    return Failed(
        replace(
            dag,
            sources=sources,
            operators=tuple(_elsewhere(operator, device) for operator in left),
            devices={name: kind for name, kind in dag.devices.items() if name != device},
            sums=dag.sums - lost - (dag.sources.keys() - sources.keys()),
            core=core,
        ),
        lost,
        displaced,
    )


def _elsewhere(operator: PlacedOperator, device: str) -> PlacedOperator:
    allowed = operator.allowed
    return replace(
        operator,
        allowed=None if allowed is None else tuple(name for name in allowed if name != device),
        pin=None if operator.pin == device else operator.pin,
    )


def failure_of(standing: StandingPlacement, device: str) -> PlacementChange:
    """One level: the change that removes a device's views. Only its partners are decided again."""
    return PlacementChange(removed=standing.views_of.get(device, frozenset()))
