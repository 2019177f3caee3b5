"""What a given placement costs, in integers: uploads, downloads, and traffic over links between Cloud nodes."""

from __future__ import annotations

import numpy as np

from headrace.plan.exact_numbers import BoolArray, Index, IntArray, total
from headrace.plan.place.cut import widen_integers
from headrace.plan.place.networks import DemandGraph


def device_costs(graph: DemandGraph, device: Index, up: IntArray, down: IntArray) -> IntArray:
    """What each device pays when every stream is made at `device` (negative: in the Cloud)."""
    largest = (total(up) + total(down) + 1) * (total(graph.rate) + 1)
    up, down = widen_integers(2 * largest, up, down)
    paid = np.zeros(len(up), dtype=up.dtype)
    made, read = device[graph.stream], device[graph.reader]
    sent = np.flatnonzero((made != read) & (made >= 0))
    first, amounts = shared_rates(graph, sent, graph.stream[sent])
    np.add.at(paid, made[first], up[made[first]] * amounts)
    received = np.flatnonzero((made != read) & (read >= 0))
    first, amounts = shared_rates(graph, received, graph.stream[received] * len(up) + read[received])
    np.add.at(paid, read[first], down[read[first]] * amounts)
    return paid


def crossing_rate(graph: DemandGraph, side: BoolArray) -> int:
    """The rate that crosses a link when streams are made and read on these sides of it."""
    crossing = np.flatnonzero(side[graph.stream] != side[graph.reader])
    return total(shared_rates(graph, crossing, graph.stream[crossing])[1])


def shared_rates(graph: DemandGraph, demands: Index, key: Index) -> tuple[Index, IntArray]:
    """The rate at which each key's demands are served together: one demand of each, and the rate."""
    _, first, number = np.unique(key, return_index=True, return_inverse=True)
    rate = graph.rate[demands].astype(object) if total(graph.rate) >= 1 << 62 else graph.rate[demands]
    amounts = np.zeros(len(first), dtype=rate.dtype)
    summed = graph.sums[graph.stream[demands]]
    np.maximum.at(amounts, number[~summed], rate[~summed])
    np.add.at(amounts, number[summed], rate[summed])
    return demands[first], amounts
