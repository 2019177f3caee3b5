"""Rows turned into prices: a problem without rows whose cost is never above that of any answer that obeys them.

A row "sum of coefficients <= limit" with a price p adds p * coefficient to every chosen variable and takes p * limit
off the constant. Any price gives a bound; a good one is found by bisection, since a row that is broken asks for a
higher price.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from headrace.plan.exact_numbers import BoolArray, total
from headrace.plan.place.cut import Choices, half_integral_cut, widen_integers
from headrace.plan.place.rows import Row

FINENESS = 64
"""Costs are taken times this, so that whole prices are fine enough."""

SWEEPS = 2


def price_rows(choices: Choices, rows: tuple[Row, ...]) -> tuple[Choices, tuple[Row, ...]]:
    """The problem with rows as prices, its costs FINENESS times as large; and the rows that got a price.

    Rows with negative coefficients are left out.
    """
    fine = _times(choices, FINENESS)
    packed = [row for row in rows if min(row.coefficients, default=0) >= 0]
    prices = [0] * len(packed)
    for _ in range(SWEEPS if len(packed) > 1 else 1):
        for at, row in enumerate(packed):
            others = _with_prices(fine, [(other, price) for k, (other, price) in _zip(packed, prices) if k != at])
            prices[at] = _best_price(others, row)
    priced = [(row, price) for _, (row, price) in _zip(packed, prices) if price]
    return _with_prices(fine, priced), tuple(row for row, _ in priced)


def _zip(rows: list[Row], prices: list[int]) -> list[tuple[int, tuple[Row, int]]]:
    return list(enumerate(zip(rows, prices, strict=True)))


def _best_price(choices: Choices, row: Row) -> int:
    """The lowest price at which the row holds: there the bound is highest, up to the fineness."""
    low, high = 0, _more_than_any(choices)
    if row.excess(_answer(choices, row, 0)) <= 0:
        return 0
    while high - low > 1:
        middle = (low + high) // 2
        if row.excess(_answer(choices, row, middle)) > 0:
            low = middle
        else:
            high = middle
    return high if _bound(choices, row, high) >= _bound(choices, row, low) else low


def _answer(choices: Choices, row: Row, price: int) -> BoolArray:
    return half_integral_cut(_with_prices(choices, [(row, price)])).chosen


def _bound(choices: Choices, row: Row, price: int) -> int:
    return half_integral_cut(_with_prices(choices, [(row, price)])).twice_bound


def _more_than_any(choices: Choices) -> int:
    return sum(map(total, (choices.out_cost, choices.in_cost, choices.arc_cost[choices.arc_cost > 0]))) + 1


def _times(choices: Choices, factor: int) -> Choices:
    out_cost, in_cost, arc_cost = widen_integers(
        4 * factor * _more_than_any(choices), choices.out_cost, choices.in_cost, choices.arc_cost
    )
    return replace(
        choices,
        out_cost=out_cost * factor,
        in_cost=in_cost * factor,
        arc_cost=np.where(arc_cost > 0, arc_cost * factor, arc_cost),
        constant=choices.constant * factor,
    )


def _with_prices(choices: Choices, priced: list[tuple[Row, int]]) -> Choices:
    in_cost = choices.in_cost.astype(object)
    constant = choices.constant
    for row, price in priced:
        for variable, coefficient in zip(row.variables, row.coefficients, strict=True):
            in_cost[variable] += price * coefficient
        constant -= price * row.limit
    return replace(choices, in_cost=in_cost, constant=constant)
