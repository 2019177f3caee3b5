"""Views over pairs of devices."""

from __future__ import annotations

from typing import Any

from headrace.plan.exact_json import Path, shown
from headrace.plan.place.fields import LARGEST, PlacementFields
from headrace.plan.place.instance import CLOUD, PairView


def read_views(fields: PlacementFields) -> tuple[PairView, ...]:
    given: dict[str, int] = {}
    taken: set[str] = set()
    views = []
    for at, pair in enumerate(fields.list("pairs")):
        view = _plain_view(pair, given) or _view(fields, pair, ("pairs", at), given)
        if view is None:
            continue
        if view.id in taken:
            fields.problems.add(f'view id "{view.id}" is given twice', ("pairs", at))
        taken.add(view.id)
        views.append(view)
    return tuple(views)


def _plain_view(pair: Any, given: dict[str, int]) -> PairView | None:
    """The common case, quickly: two names and two whole rates. Anything else is looked at with care."""
    if type(pair) is not list or len(pair) != 4:
        return None
    a, b, rate_a, rate_b = pair
    if not (
        type(a) is type(b) is str
        and type(rate_a) is type(rate_b) is int
        and 0 <= rate_a < LARGEST
        and 0 <= rate_b < LARGEST
    ):
        return None
    if a in (b, "", CLOUD) or b in ("", CLOUD):
        return None
    return PairView(_default_id(a, b, given), a, b, rate_a, rate_b)


def _default_id(a: str, b: str, given: dict[str, int]) -> str:
    name = f"{a}|{b}"
    given[name] = count = given.get(name, 0) + 1
    return name if count == 1 else f"{name}#{count}"


def _view(fields: PlacementFields, pair: Any, path: Path, given: dict[str, int]) -> PairView | None:
    if not isinstance(pair, list) or not 4 <= len(pair) <= 6:
        fields.problems.add(
            f"a pair is [i, j, rate of i, rate of j, optional id, optional load], not {shown(pair)}", path
        )
        return None
    a, b, rate_a, rate_b, *more = pair
    a, b = fields.name(a, "a device", (*path, 0)), fields.name(b, "a device", (*path, 1))
    if a == b and a != "?":
        fields.problems.add(f'device "{a}" is paired with itself', path)
    rate_a = fields.amount(rate_a, f'the rate of "{a}"', (*path, 2))
    rate_b = fields.amount(rate_b, f'the rate of "{b}"', (*path, 3))
    load = fields.amount(more[1], "load", (*path, 5)) if len(more) > 1 and more[1] is not None else 1
    if more and more[0] is not None:
        return PairView(fields.name(more[0], "a view", (*path, 4), place=False), a, b, rate_a, rate_b, load)
    return PairView(_default_id(a, b, given), a, b, rate_a, rate_b, load)
