"""Why a template is planned as it is, and why one of its pairs runs where it does."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from headrace.model.errors import UnknownName, UsageError
from headrace.model.explanation import WhyPlacedPair, WhyTemplate
from headrace.model.plan import Plan
from headrace.plan.place.family import PlacedGroup, describe_templates
from headrace.plan.place.instance import CLOUD, Dag, Device, PairView, PlacedOperator, Single
from headrace.plan.place.pair_columns import TemplateDemand
from headrace.plan.place.pairs import AT_A, Where
from headrace.plan.place.place_templates import MICRO, feed_rate
from headrace.plan.place.why import PlacementReason, why_document, why_operator, why_pair, why_text


def read_pair_name(name: str) -> tuple[str, tuple[str, ...]] | None:
    """The template and the devices of `nearby_friends:anna,bob`; None if a name has no colon."""
    template, colon, devices = name.partition(":")
    return (template, tuple(devices.split(","))) if colon else None


def explain_template(plan: Plan, name: str) -> WhyTemplate | None:
    """None if the plan has no program for a template of that name."""
    known = plan.templates or describe_templates(plan, {})
    found = next((one for one in known if one.template == name), None)
    return None if found is None else WhyTemplate(found)


def explain_placed_pair(group: PlacedGroup, template: str, devices: tuple[str, ...]) -> WhyPlacedPair:
    """Raises UsageError if there is no such pair."""
    number = group.find(template)
    if number is None:
        raise UsageError(f'template "{template}" is refused: none of its pairs runs')
    one, where = group.wanted[number], group.placed.where[number]
    row = _find_row(group, one, devices)
    reason = _why_alone(group, one, where, row) if one.rows.b is None else _why_two(group, number, row)
    return WhyPlacedPair(template, devices, reason.at, why_document(reason), why_text(reason, "s"))


def _find_row(group: PlacedGroup, one: TemplateDemand, devices: tuple[str, ...]) -> int:
    sides = one.rows.sides
    if len(devices) != len(sides):
        hint = f"write {one.name}:{','.join('ID' for _ in sides)}"
        raise UsageError(f'a pair of template "{one.name}" has {len(sides)} device{"s"[: len(sides) - 1]}', hint)
    numbers = []
    for device in devices:
        found = np.flatnonzero(group.ids.astype(str) == device)
        if not len(found):
            raise UnknownName(f'device "{device}" is not in table "{group.devices.table}"', None)
        numbers.append(int(found[0]))
    same = np.all([one.rows.side(side) == number for side, number in zip(sides, numbers, strict=True)], axis=0)
    rows = np.flatnonzero(same)
    if not len(rows):
        raise UnknownName(
            f'template "{one.name}" has no pair {",".join(devices)}', "its table has a row for every pair"
        )
    return int(rows[0])


def _why_two(group: PlacedGroup, number: int, row: int) -> PlacementReason:
    """The pair among all pairs of its two devices, those of other templates included."""
    asked = group.wanted[number]
    ends = (int(asked.rows.a[row]), int(asked.rows.side("b")[row]))
    views, placement = list[PairView](), dict[str, str]()
    for position, (one, where) in enumerate(zip(group.wanted, group.placed.where, strict=True)):
        if one.rows.b is None:
            continue
        a, b = one.rows.a, one.rows.b
        near = np.flatnonzero((np.isin(a, ends) | np.isin(b, ends)) & (a != b))
        if position == number and row not in near:
            near = np.array([row])
        rates = [np.rint(feed_rate(one, side, group.facts)[near] * MICRO).astype(np.int64) for side in ("a", "b")]
        for place, at in enumerate(near.tolist()):
            own, other = str(group.ids[a[at]]), str(group.ids[b[at]])
            exact = (Fraction(int(rate[place]), int(MICRO)) for rate in rates)
            view = PairView(f"{one.name}:{own},{other}", own, other, *exact)
            views.append(view)
            placement[view.id] = (CLOUD, own, other)[int(where[at])]
    wanted = f"{asked.name}:{group.ids[ends[0]]},{group.ids[ends[1]]}"
    return why_pair(Single(tuple(views), _kind(group), _capacities(group, ends)), placement, wanted)


def _why_alone(group: PlacedGroup, one: TemplateDemand, where: Where, row: int) -> PlacementReason:
    device = str(group.ids[one.rows.a[row]])
    stream = Fraction(int(np.rint(feed_rate(one, "a", group.facts)[row] * MICRO)), int(MICRO))
    tables = {table: Fraction(repr(group.facts.tables.get(table, 0.0))) for table in one.tables}
    name = f"{one.name}:{device}"
    sources = {f"streams of {device}": device, **dict.fromkeys(tables, CLOUD)}
    inputs = ((f"streams of {device}", stream), *tables.items())
    number = (int(one.rows.a[row]),)
    dag = Dag(sources, (PlacedOperator(name, inputs),), default=_kind(group), devices=_capacities(group, number))
    return why_operator(dag, {name: device if where[row] == AT_A else CLOUD}, name)


def _kind(group: PlacedGroup) -> Device:
    return Device(Fraction(repr(group.facts.up)), Fraction(repr(group.facts.down)))


def _capacities(group: PlacedGroup, devices: tuple[int, ...]) -> dict[str, Device]:
    if group.facts.capacity is None:
        return {}
    kind = _kind(group)
    return {str(group.ids[one]): Device(kind.up, kind.down, int(group.facts.capacity[one])) for one in devices}
