"""Minimum cuts: which yes/no choices are cheapest when every price is a penalty for one choice being "in" and another
"out".

`Choices` is the one form in which all decisions beyond a single device's are written:

    variable u in or out        out_cost[u] if out, in_cost[u] if in
    arc u -> v of cost c        c if u is in and v is out            (FOREVER: not allowed)
    conflict {u, v}             u and v may not both be in

Without conflicts one minimum cut decides. With conflicts whose graph has two colours, one cut decides after turning
round the meaning of one colour. Otherwise two copies of every variable, one turned round, give half-integral answers:
a lower bound, and every variable on which its copies agree has that value in some optimum (roof duality; Hammer,
Hansen, Simeone 1984).

All arithmetic is on integers of any size. SciPy is imported by those who decide: it takes 25 MB, and every service
knows this module.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headrace.plan.exact_numbers import SAFE, BoolArray, Index, IntArray, total

if TYPE_CHECKING:
    from scipy.sparse import csr_array

FOREVER = -1
"""The cost of an arc that may not be cut."""

FLOW_BITS = 30
"""SciPy computes flows in int32 and truncates larger capacities without a word."""


@dataclass(frozen=True, slots=True)
class Choices:
    """Yes/no variables and their penalties. Costs are >= 0; `constant` is paid in any case."""

    out_cost: IntArray
    in_cost: IntArray
    tail: Index
    head: Index
    arc_cost: IntArray
    conflicts: Index
    """Shape (n, 2)."""
    constant: int = 0

    @property
    def count(self) -> int:
        return len(self.out_cost)

    def cost(self, chosen: BoolArray) -> int:
        """The price of these choices. Forbidden ones are not noticed."""
        cut = chosen[self.tail] & ~chosen[self.head]
        paid = total(self.out_cost[~chosen]) + total(self.in_cost[chosen])
        return self.constant + paid + total(self.arc_cost[cut])

    def allows(self, chosen: BoolArray) -> bool:
        bound = self.arc_cost == FOREVER
        broken = chosen[self.tail[bound]] & ~chosen[self.head[bound]]
        return not broken.any() and not (chosen[self.conflicts[:, 0]] & chosen[self.conflicts[:, 1]]).any()


@dataclass(frozen=True, slots=True)
class HalfIntegral:
    """What two copies of every variable say. `twice_bound` / 2 is a lower bound.

    `chosen` is feasible (both copies in) and costs at most twice the bound; only where `open` may an optimum differ
    from it.
    """

    chosen: BoolArray
    open: BoolArray
    twice_bound: int


def no_conflicts() -> Index:
    return np.empty((0, 2), dtype=np.int64)


def minimum_cut(choices: Choices) -> BoolArray:
    """The cheapest choices of a problem without conflicts, with the fewest variables in."""
    n = choices.count
    source, sink = n, n + 1
    every = np.arange(n, dtype=np.int64)
    tail = np.concatenate([choices.tail, np.full(n, source), every])
    head = np.concatenate([choices.head, every, np.full(n, sink)])
    cost = np.concatenate([choices.arc_cost, choices.out_cost, choices.in_cost])
    return _source_side(n + 2, tail, head, cost)[:n]


def two_coloured_cut(choices: Choices, flipped: BoolArray) -> BoolArray:
    """The cheapest choices when every conflict joins a flipped variable with one that is not, and no arc does."""
    return minimum_cut(turn_round(choices, flipped)) ^ flipped


def turn_round(choices: Choices, flipped: BoolArray) -> Choices:
    """The problem with "in" and "out" exchanged for the flipped variables; conflicts become arcs."""
    backwards = flipped[choices.tail]
    first, second = choices.conflicts[:, 0], choices.conflicts[:, 1]
    plain = np.where(flipped[first], second, first)
    turned = np.where(flipped[first], first, second)
    # u and v not both in, v flipped: u in => v out, that is v' in.
    return Choices(
        out_cost=np.where(flipped, choices.in_cost, choices.out_cost),
        in_cost=np.where(flipped, choices.out_cost, choices.in_cost),
        tail=np.concatenate([np.where(backwards, choices.head, choices.tail), plain]),
        head=np.concatenate([np.where(backwards, choices.tail, choices.head), turned]),
        arc_cost=np.concatenate([choices.arc_cost, np.full(len(plain), FOREVER)]),
        conflicts=no_conflicts(),
        constant=choices.constant,
    )


def half_integral_cut(choices: Choices) -> HalfIntegral:
    """Two copies of every variable, the second turned round: solved by one cut whatever the conflicts are."""
    n = choices.count
    flipped = np.repeat([False, True], n)
    first, second = choices.conflicts[:, 0], choices.conflicts[:, 1]
    doubled = Choices(
        out_cost=np.tile(choices.out_cost, 2),
        in_cost=np.tile(choices.in_cost, 2),
        tail=np.concatenate([choices.tail, choices.tail + n]),
        head=np.concatenate([choices.head, choices.head + n]),
        arc_cost=np.tile(choices.arc_cost, 2),
        conflicts=np.column_stack([np.concatenate([first, second]), np.concatenate([second, first]) + n]),
        constant=2 * choices.constant,
    )
    both = two_coloured_cut(doubled, flipped)
    one, other = both[:n], both[n:]
    return HalfIntegral(chosen=one & other, open=one ^ other, twice_bound=doubled.cost(both))


def two_colours(choices: Choices) -> tuple[BoolArray, BoolArray]:
    """Colours by which arcs stay inside one colour and conflicts cross, and where that is impossible.

    Both per variable. Impossible is a property of a variable's whole connected component.
    """
    n = choices.count
    tail, head = choices.tail, choices.head
    first, second = choices.conflicts[:, 0], choices.conflicts[:, 1]
    rows = np.concatenate([tail, tail + n, first, first + n])
    columns = np.concatenate([head, head + n, second + n, second])
    part = _find_parts(rows, columns, 2 * n)
    return part[:n] > part[n:], part[:n] == part[n:]


def parts(choices: Choices, together: Index | None = None) -> Index:
    """The number of the connected component, over arcs, conflicts and the pairs in `together`, of every variable."""
    links = [
        np.column_stack([choices.tail, choices.head]),
        choices.conflicts,
        *([] if together is None else [together]),
    ]
    rows, columns = np.concatenate(links).T
    return _find_parts(rows, columns, choices.count)


def _find_parts(rows: Index, columns: Index, count: int) -> Index:
    """The number of the connected component of each of `count` nodes."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(rows), dtype=np.int8), (rows, columns)), shape=(count, count))
    found: Index = connected_components(graph, directed=False)[1].astype(np.int64)
    return found


def split(choices: Choices, part: Index) -> Iterator[tuple[Index, Choices]]:
    """The problem of each part, with its variables, in the order of the parts.

    Parts share nothing; the constant is left out.
    """
    count = int(part.max(initial=-1)) + 1
    variables, arcs, conflicts = (
        _group_positions(numbers, count) for numbers in (part, part[choices.tail], part[choices.conflicts[:, 0]])
    )
    number = np.empty(choices.count, dtype=np.int64)
    for mine, inner, clashes in zip(variables, arcs, conflicts, strict=True):
        number[mine] = np.arange(len(mine))
        yield (
            mine,
            Choices(
                out_cost=choices.out_cost[mine],
                in_cost=choices.in_cost[mine],
                tail=number[choices.tail[inner]],
                head=number[choices.head[inner]],
                arc_cost=choices.arc_cost[inner],
                conflicts=number[choices.conflicts[clashes]],
            ),
        )


def _group_positions(group: Index, count: int) -> list[Index]:
    """Positions by group number."""
    order = np.argsort(group, kind="stable")
    return np.split(order, np.searchsorted(group[order], np.arange(1, count)))


def restrict(choices: Choices, kept: BoolArray, fixed: BoolArray) -> Choices:
    """The problem over the kept variables when the others have the values in `fixed`.

    What the fixed values forbid costs more than anything else rather than being forbidden.
    """
    number = np.cumsum(kept) - 1
    never = 2 * (total(choices.out_cost) + total(choices.in_cost) + total(choices.arc_cost[choices.arc_cost > 0])) + 1
    bound = never * (choices.count + len(choices.tail) + len(choices.conflicts) + 1)
    out_cost, in_cost = widen_integers(bound, choices.out_cost.copy(), choices.in_cost.copy())
    tail, head = choices.tail, choices.head
    _add(in_cost, tail, choices.arc_cost, ~kept[head] & ~fixed[head], never)
    _add(out_cost, head, choices.arc_cost, ~kept[tail] & fixed[tail], never)
    for one, other in (choices.conflicts.T, choices.conflicts.T[::-1]):
        _add(in_cost, one, np.full(len(one), FOREVER), ~kept[other] & fixed[other], never)
    inside = kept[tail] & kept[head]
    both = kept[choices.conflicts].all(axis=1)
    # Penalties between two fixed variables were added to both of them; the first sum counts each once.
    settled_in, settled_out = ~kept & fixed, ~kept & ~fixed
    paid = total(in_cost[settled_in]) + total(choices.out_cost[settled_out])
    return Choices(
        out_cost=out_cost[kept],
        in_cost=in_cost[kept],
        tail=number[tail[inside]],
        head=number[head[inside]],
        arc_cost=choices.arc_cost[inside],
        conflicts=number[choices.conflicts[both]].reshape(-1, 2),
        constant=choices.constant + paid,
    )


def widen_integers(largest: int, *arrays: IntArray) -> tuple[IntArray, ...]:
    """The integers in a type that holds sums up to `largest`."""
    return arrays if largest < SAFE else tuple(array.astype(object) for array in arrays)


def _add(target: IntArray, where: Index, amounts: IntArray, used: BoolArray, never: int) -> None:
    penalties = np.where(amounts[used] == FOREVER, never, amounts[used].astype(target.dtype))
    np.add.at(target, where[used], penalties)


def _source_side(n: int, tail: Index, head: Index, cost: IntArray) -> BoolArray:
    """Nodes that the source (n - 2) still reaches after a maximum flow to the sink (n - 1): the smallest minimum cut.

    The flow is found from the leading bits of the capacities down: what is left at each finer scale is less than one
    unit of the coarser one per arc of its cut, so every step fits into SciPy's int32.
    """
    never = total(cost[cost != FOREVER]) + 1
    (wide,) = widen_integers(4 * never, np.asarray(cost))
    graph = _with_reverse_arcs(n, tail, head, wide, never)
    capacity = graph.data
    supply = total(capacity[graph.indptr[n - 2] : graph.indptr[n - 1]])
    shift = max(0, supply.bit_length() - FLOW_BITS)
    left = capacity >> shift
    while True:
        left = left - _flow(graph, left, (1 << FLOW_BITS) - 1)
        reached = _reachable(graph, left)
        if shift == 0:
            return reached
        rows = np.repeat(np.arange(n), np.diff(graph.indptr))
        crossing = int((reached[rows] & ~reached[graph.indices]).sum())
        step = min(shift, max(1, FLOW_BITS - crossing.bit_length()))
        shift -= step
        left = (left << step) + ((capacity >> shift) & ((1 << step) - 1))


def _with_reverse_arcs(n: int, tail: Index, head: Index, cost: IntArray, never: int) -> csr_array:
    """Every arc with its reverse, parallel arcs added up, rows sorted; arcs that hold forever get the cost `never`."""
    from scipy.sparse import csr_array

    used = (cost != 0) & (tail != head)
    tail, head, cost = tail[used], head[used], cost[used]
    key = np.concatenate([tail * n + head, head * n + tail])
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    amounts = np.concatenate([cost, np.zeros_like(cost)])[order]
    forever = amounts == FOREVER
    data = np.add.reduceat(np.where(forever, 0, amounts), starts) if len(key) else amounts
    data[np.logical_or.reduceat(forever, starts) if len(key) else forever] = never
    rows, columns = np.divmod(ordered[starts], n)
    pointers = np.searchsorted(rows, np.arange(n + 1)).astype(np.int32)
    graph = csr_array((np.zeros(len(data), np.int8), columns.astype(np.int32), pointers), shape=(n, n))
    graph.data = data
    return graph


def _flow(graph: csr_array, left: IntArray, most: int) -> IntArray:
    """A maximum flow through what is left, which is at most `most` in all: no arc needs more."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    n = graph.shape[0]
    capacity = np.minimum(left, most).astype(np.int32)
    network = csr_array((capacity, graph.indices, graph.indptr), shape=graph.shape)
    flow = maximum_flow(network, n - 2, n - 1).flow
    flow.sort_indices()
    return np.asarray(flow.data, dtype=left.dtype)


def _reachable(graph: csr_array, left: IntArray) -> BoolArray:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    open_arcs = (left > 0).astype(np.int8)
    network = csr_array((open_arcs, graph.indices.copy(), graph.indptr.copy()), shape=graph.shape)
    network.eliminate_zeros()
    reached = np.zeros(graph.shape[0], dtype=np.bool_)
    found = breadth_first_order(network, graph.shape[0] - 2, directed=True, return_predecessors=False)
    reached[found] = True
    return reached
