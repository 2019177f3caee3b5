"""`Choices` and rows as a mixed-integer program, solved by HiGHS: an answer, and a bound that can be relied on.

HiGHS computes in floating point, and tolerates constraints that are broken by 1e-6, which only lowers its bound, and
reduced costs that are wrong by 1e-7, which may raise it. Costs here are integers: while all of them together stay below
`TRUSTED`, such errors are far less than the unit that separates two costs. Beyond that its bound is not used.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from headrace.plan.exact_numbers import BoolArray, IntArray, total
from headrace.plan.place.cut import FOREVER, Choices
from headrace.plan.place.rows import Row, obeys

TRUSTED = 200_000

LARGEST = 300_000
"""Variables and arcs beyond which not even the first relaxation is solved in reasonable time."""

MARGIN = 0.5


class MilpAnswer(NamedTuple):
    """Feasible choices, if HiGHS found some, and a proven lower bound on the cost, if there is one.

    `impossible`: proven to have none.
    """

    chosen: BoolArray | None
    bound: int | None
    impossible: bool


def milp_answer(choices: Choices, rows: tuple[Row, ...], nodes: int) -> MilpAnswer:
    if choices.count + len(choices.tail) > LARGEST:
        return MilpAnswer(None, None, False)
    from scipy.optimize import Bounds, milp  # slow to load, and most decisions never need it

    unit = math.gcd(*map(int, [*choices.out_cost, *choices.in_cost, *choices.arc_cost[choices.arc_cost > 0]])) or 1
    finite = np.flatnonzero(choices.arc_cost > 0)
    objective = np.concatenate([choices.in_cost - choices.out_cost, choices.arc_cost[finite]]) // unit
    result = milp(
        objective.astype(float),
        integrality=np.repeat([1, 0], [choices.count, len(finite)]),
        bounds=Bounds(0, 1),
        constraints=_constraints(choices, rows, finite),
        options={"node_limit": nodes, "mip_rel_gap": 0.0},
    )
    base = (choices.constant + total(choices.out_cost), unit)
    weight = (total(choices.out_cost) + total(choices.in_cost) + total(choices.arc_cost[finite])) // unit
    exact = weight + sum(abs(c) for row in rows for c in row.coefficients) <= TRUSTED
    return MilpAnswer(
        chosen=_round_choices(choices, rows, result.x),
        bound=_bound(result.mip_dual_bound, *base) if exact else None,
        impossible=exact and result.status == 2,
    )


def _constraints(choices: Choices, rows: tuple[Row, ...], finite: IntArray):  # type: ignore[no-untyped-def]
    """u - v <= 0 for arcs that hold forever, u - v - cut <= 0 for others, u + v <= 1 for conflicts, and the rows."""
    from scipy.optimize import LinearConstraint
    from scipy.sparse import coo_array, vstack

    n, width = choices.count, choices.count + len(finite)
    forever = np.flatnonzero(choices.arc_cost == FOREVER)
    arcs = np.concatenate([forever, finite])
    lines = np.arange(len(arcs))
    cut_lines = len(forever) + np.arange(len(finite))
    first = coo_array(
        (
            np.repeat([1, -1, -1], [len(arcs), len(arcs), len(finite)]),
            (
                np.concatenate([lines, lines, cut_lines]),
                np.concatenate([choices.tail[arcs], choices.head[arcs], n + np.arange(len(finite))]),
            ),
        ),
        shape=(len(arcs), width),
    )
    clashes = np.arange(len(choices.conflicts))
    second = coo_array(
        (np.ones(2 * len(clashes)), (np.tile(clashes, 2), choices.conflicts.T.reshape(-1))), shape=(len(clashes), width)
    )
    third = coo_array(
        (
            np.array([float(c) for row in rows for c in row.coefficients]),
            (
                np.repeat(np.arange(len(rows)), [len(row.variables) for row in rows]),
                np.array([v for row in rows for v in row.variables], dtype=np.int64),
            ),
        ),
        shape=(len(rows), width),
    )
    most = np.concatenate([np.zeros(len(arcs)), np.ones(len(clashes)), [float(row.limit) for row in rows]])
    return LinearConstraint(vstack([first, second, third]).tocsr(), -np.inf, most)


def _round_choices(choices: Choices, rows: tuple[Row, ...], values: IntArray | None) -> BoolArray | None:
    if values is None:
        return None
    chosen = np.asarray(values[: choices.count] > 0.5, dtype=np.bool_)
    return chosen if choices.allows(chosen) and obeys(rows, chosen) else None


def _bound(dual: float | None, base: int, unit: int) -> int | None:
    if dual is None or not math.isfinite(dual):
        return None
    return base + unit * math.ceil(dual - MARGIN)
