"""Views over pairs of devices."""

from __future__ import annotations

from typing import Any

from headrace.plan.exact_json import Path, show_value
from headrace.plan.place.fields import LARGEST, PlacementFields
from headrace.plan.place.instance import CLOUD, PairView


def read_views(fields: PlacementFields) -> tuple[PairView, ...]:
    given: dict[str, int] = {}
    taken: set[str] = set()
    views = []
    for at, pair in enumerate(fields.required_items("pairs")):
        view = _plain_view(pair, given) or _read_view(fields, pair, ("pairs", at), given)
        if view is None:
            continue
        if view.id in taken:
            fields.wrong(("pairs", at), f'view id "{view.id}" is given twice')
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


def _read_view(fields: PlacementFields, pair: Any, path: Path, given: dict[str, int]) -> PairView | None:
    if not isinstance(pair, list) or not 4 <= len(pair) <= 6:
        fields.wrong(
            path, f"a pair is [i, j, rate of i, rate of j, optional id, optional load], not {show_value(pair)}"
        )
        return None
    a, b, rate_a, rate_b, *more = pair
    a, b = fields.name(a, (*path, 0), "a device"), fields.name(b, (*path, 1), "a device")
    if a == b and a != "?":
        fields.wrong(path, f'device "{a}" is paired with itself')
    rate_a = fields.number(rate_a, (*path, 2), f'the rate of "{a}"')
    rate_b = fields.number(rate_b, (*path, 3), f'the rate of "{b}"')
    load = fields.number(more[1], (*path, 5), "load") if len(more) > 1 and more[1] is not None else 1
    if more and more[0] is not None:
        return PairView(fields.name(more[0], (*path, 4), "a view", place=False), a, b, rate_a, rate_b, load)
    return PairView(_default_id(a, b, given), a, b, rate_a, rate_b, load)
