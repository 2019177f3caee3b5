"""Views over pairs of devices."""

from __future__ import annotations

from typing import Any

from headrace.plan.place.fields import Fields, as_written
from headrace.plan.place.instance import CLOUD, PairView
from headrace.plan.place.json_text import Path


def read_views(fields: Fields) -> tuple[PairView, ...]:
    given: dict[str, int] = {}
    taken: set[str] = set()
    views = []
    for at, pair in enumerate(fields.list("pairs")):
        view = _view(fields, pair, ("pairs", at), given)
        if view is None:
            continue
        if view.id in taken:
            fields.problems.add(f'view id "{view.id}" is given twice', ("pairs", at))
        taken.add(view.id)
        views.append(view)
    return tuple(views)


def _view(fields: Fields, pair: Any, path: Path, given: dict[str, int]) -> PairView | None:
    if not isinstance(pair, list) or not 4 <= len(pair) <= 6:
        fields.problems.add(
            f"a pair is [i, j, rate of i, rate of j, optional id, optional load], not {as_written(pair)}", path
        )
        return None
    a, b, rate_a, rate_b, *more = pair
    if not (type(a) is str and type(b) is str and a and b and CLOUD not in (a, b)):
        a, b = fields.name(a, "a device", (*path, 0)), fields.name(b, "a device", (*path, 1))
    if a == b and a != "?":
        fields.problems.add(f'device "{a}" is paired with itself', path)
    if not (type(rate_a) is int and rate_a >= 0):
        rate_a = fields.amount(rate_a, f'the rate of "{a}"', (*path, 2))
    if not (type(rate_b) is int and rate_b >= 0):
        rate_b = fields.amount(rate_b, f'the rate of "{b}"', (*path, 3))
    load = fields.amount(more[1], "load", (*path, 5)) if len(more) > 1 and more[1] is not None else 1
    if more and more[0] is not None:
        return PairView(fields.name(more[0], "a view", (*path, 4), place=False), a, b, rate_a, rate_b, load)
    name = f"{a}|{b}"
    given[name] = given.get(name, 0) + 1
    return PairView(name if given[name] == 1 else f"{name}#{given[name]}", a, b, rate_a, rate_b, load)
