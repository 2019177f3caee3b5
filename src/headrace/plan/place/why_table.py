"""The views around one pair of a table, as an instance small enough to explain."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from headrace.model.errors import InputError, Problem
from headrace.plan.place.instance import CLOUD, Device, PairView, Single
from headrace.plan.place.pairs import Pairs, Where


def neighbourhood(
    pairs: Pairs, where: Where, scale: int, kind: Device, devices: tuple[int, int], name: Callable[[int], str]
) -> tuple[Single, dict[str, str]]:
    """All views of two devices, with the places decided for them. Ids are row numbers, counted from 1."""
    involved = np.isin(pairs.a, devices) | np.isin(pairs.b, devices)
    views, placement = [], {}
    for row in np.flatnonzero(involved).tolist():
        a, b = name(int(pairs.a[row])), name(int(pairs.b[row]))
        rates = (Fraction(int(rate[row]), scale) for rate in (pairs.rate_a, pairs.rate_b))
        view = PairView(f"row {row + 1}", a, b, *rates)
        views.append(view)
        placement[view.id] = (CLOUD, a, b)[int(where[row])]
    return Single(tuple(views), kind), placement


def two_devices(wanted: str, number: Callable[[str], int | None]) -> tuple[int, int]:
    """The numbers of the two devices in "a,b"."""
    names = wanted.split(",")
    if len(names) != 2:
        raise InputError([Problem(f'"{wanted}" is not a pair', hint="name two devices with a comma: --why anna,bob")])
    found = [number(name) for name in names]
    unknown = [name for name, at in zip(names, found, strict=True) if at is None]
    if unknown:
        raise InputError([Problem(f'device "{unknown[0]}" is in no pair of the table')])
    return int(found[0] or 0), int(found[1] or 0)
