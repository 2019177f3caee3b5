"""Views that are computed now and then instead of continuously: the same decisions, over sizes of data instead of
rates.

Every reader takes a dataset whole, so that a device either sends all it has or fetches what it needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from headrace.plan.exact_numbers import Exact
from headrace.plan.place.instance import Dag, Device, PairView, Single


def offline_pairs(
    sizes: Mapping[str, Exact],
    joins: Iterable[tuple[str, str]],
    default: Device = Device(1, 1),  # noqa: B008
) -> Single:
    """One join per pair of devices, each over all the data of both (in bytes, or any unit)."""
    views = tuple(PairView(f"{a}|{b}", a, b, sizes[a], sizes[b]) for a, b in joins)
    return Single(views, default)


def offline_graph(dag: Dag, sizes: Mapping[str, Exact]) -> Dag:
    """The graph with the size of every stream that is read, sources and results alike, instead of its rates."""
    operators = tuple(
        replace(operator, inputs=tuple((name, sizes[name]) for name, _ in operator.inputs))
        for operator in dag.operators
    )
    return replace(dag, operators=operators)
