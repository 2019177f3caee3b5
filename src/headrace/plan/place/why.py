"""Why a view runs where it does: what stays local, what travels, and what each other place would cost.

A view is first looked at alone, which is how people think of it ("2 messages instead of 361"). Then what really
matters is given: by how much the cost of the whole placement would change if only this view moved, with all sharing
counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from headrace.model.errors import InputError, Problem, nearest_name
from headrace.plan.exact_numbers import Exact, as_json, total
from headrace.plan.place.allowed import allowed_devices, in_order
from headrace.plan.place.costs import device_costs
from headrace.plan.place.graph import NOWHERE, number_dag
from headrace.plan.place.instance import CLOUD, Dag, Device, PairView, Single


@dataclass(frozen=True, slots=True)
class PlacementReason:
    """One view's decision.

    `alternatives`: how much more the whole placement would cost with the view there; 0 is a tie.

    `local` are rates that stay on the device, `up` and `down` those that travel for this view, by device.
    """

    view: str
    at: str
    local: Mapping[str, Exact]
    up: Mapping[str, Exact]
    down: Mapping[str, Exact]
    alone: Exact
    alone_in_cloud: Exact
    alternatives: Mapping[str, Exact]


def why_pair(instance: Single, placement: Mapping[str, str], wanted: str) -> PlacementReason:
    """`wanted` is a view's id, or the two devices with a comma between them (the first view of that pair)."""
    view = _find(instance, wanted)
    at = placement[view.id]
    rates = {view.a: view.rate_a, view.b: view.rate_b}
    kinds = {name: _kind(instance, name) for name in rates}
    travelling = {name: rate for name, rate in rates.items() if name != at and name not in instance.cloud_sources}
    fetched = sum((rate for name, rate in rates.items() if name != at), start=Fraction(0))
    down = {at: _plain(fetched)} if at != CLOUD else {}
    alone = sum(kinds[name].up * rate for name, rate in travelling.items()) + sum(
        kinds[name].down * rate for name, rate in down.items()
    )
    in_cloud = sum(kinds[name].up * rate for name, rate in rates.items() if name not in instance.cloud_sources)
    return PlacementReason(
        view=view.id,
        at=at,
        local={at: rates[at]} if at != CLOUD else {},
        up=travelling,
        down=down,
        alone=_plain(alone),
        alone_in_cloud=_plain(in_cloud),
        alternatives=_moves(instance, placement, view),
    )


def why_operator(dag: Dag, placement: Mapping[str, str], wanted: str) -> PlacementReason:
    """Explains the place of an operator of a graph without a core."""
    operators = {operator.id: operator for operator in dag.operators}
    if wanted not in operators:
        raise InputError([Problem(f'operator "{wanted}" is unknown', hint=nearest_name(wanted, operators))])
    operator, at = operators[wanted], placement[wanted]
    homes = {**dag.sources, **placement}
    here = {name: rate for name, rate in operator.inputs if homes[name] == at and at != CLOUD}
    far = {name: rate for name, rate in operator.inputs if homes[name] != at}
    down = {at: _plain(sum(far.values(), start=Fraction(0)))} if at != CLOUD and far else {}
    up = {name: rate for name, rate in far.items() if homes[name] != CLOUD}
    alone = sum(dag.devices.get(homes[name], dag.default).up * rate for name, rate in up.items())
    alone += sum(dag.devices.get(name, dag.default).down * rate for name, rate in down.items())
    in_cloud = sum(
        dag.devices.get(homes[name], dag.default).up * rate for name, rate in operator.inputs if homes[name] != CLOUD
    )
    alternatives = _operator_moves(dag, placement, wanted)
    return PlacementReason(wanted, at, here, up, down, _plain(alone), _plain(in_cloud), alternatives)


def why_document(why: PlacementReason) -> dict[str, object]:
    """The reason as a document, for `--json`."""

    def numbers(amounts: Mapping[str, Exact]) -> dict[str, int | float]:
        return {name: as_json(amount) for name, amount in amounts.items()}

    return {
        "view": why.view,
        "at": why.at,
        "local": numbers(why.local),
        "up": numbers(why.up),
        "down": numbers(why.down),
        "alone": as_json(why.alone),
        "alone_in_cloud": as_json(why.alone_in_cloud),
        "alternatives": numbers(why.alternatives),
    }


def why_text(why: PlacementReason, per: str = "") -> str:
    """The reason in words. `per` is the unit of time of the rates: "h" makes 360 into 360/h."""
    unit = f"/{per}" if per else ""

    def rates(amounts: Mapping[str, Exact]) -> str:
        return " and ".join(f"{_number(amount)}{unit}" for amount in amounts.values())

    if why.at == CLOUD:
        sent = rates(why.up) or "nothing"
        first = f"in the cloud: {sent} {_verb(why.up, 'comes', 'come')} up; {_messages(why.alone)}{unit}"
    else:
        parts = [f"{rates(why.local)} {_verb(why.local, 'stays', 'stay')} local"] if why.local else []
        parts += [f"{rates(why.down)} {_verb(why.down, 'comes', 'come')} down"] if why.down else []
        saved = f"{_messages(why.alone)}{unit} instead of {_number(why.alone_in_cloud)}"
        first = f"on {why.at}'s device: {', '.join(parts) or 'nothing travels'}; {saved}"
    return "\n".join([first, *(_alternative(place, cost) for place, cost in why.alternatives.items())])


def _alternative(place: str, cost: Exact) -> str:
    where = "in the cloud" if place == CLOUD else f"on {place}'s device"
    if cost == 0:
        return f"  {where} it would cost the same"
    amount = _number(cost if cost > 0 else -cost)
    return f"  {where} the whole placement would cost {amount} {'more' if cost > 0 else 'less'}"


def _verb(amounts: Mapping[str, Exact], one: str, many: str) -> str:
    return one if sum(amounts.values(), start=Fraction(0)) <= 1 else many


def _messages(amount: Exact) -> str:
    return f"{_number(amount)} {'message' if amount == 1 else 'messages'}"


def _number(amount: Exact) -> str:
    return f"{as_json(amount):,.10g}"


def _plain(amount: Exact) -> Exact:
    return amount.numerator if amount.denominator == 1 else amount


def _find(instance: Single, wanted: str) -> PairView:
    for view in instance.views:
        if wanted in (view.id, f"{view.a},{view.b}", f"{view.b},{view.a}"):
            return view
    known = [view.id for view in instance.views[:1000]]
    raise InputError(
        [Problem(f'no view "{wanted}"', hint=nearest_name(wanted, known) or "name its id, or devices a,b")]
    )


def _kind(instance: Single, name: str) -> Device:
    return instance.devices.get(name, instance.default)


def _moves(instance: Single, placement: Mapping[str, str], view: PairView) -> dict[str, Exact]:
    """What the two devices pay with the view elsewhere, less what they pay now. Places that are full are left out."""
    choices = [CLOUD, *(name for name in (view.a, view.b) if name not in instance.cloud_sources)]
    mine = [other for other in instance.views if {view.a, view.b} & {other.a, other.b}]
    now = placement[view.id]

    def paid(at: str) -> Exact:
        where = {**{other.id: placement[other.id] for other in mine}, view.id: at}
        return sum((_device_cost(instance, name, mine, where) for name in (view.a, view.b)), start=Fraction(0))

    current = paid(now)
    return {at: _plain(paid(at) - current) for at in choices if at != now and _fits(instance, placement, view, at)}


def _device_cost(instance: Single, name: str, views: list[PairView], where: Mapping[str, str]) -> Exact:
    if name in instance.cloud_sources:
        return 0
    sent: Exact = 0
    fetched: dict[str, Exact] = {}
    for view in views:
        if name not in (view.a, view.b):
            continue
        own, partner, rate = (
            (view.rate_a, view.b, view.rate_b) if view.a == name else (view.rate_b, view.a, view.rate_a)
        )
        if where[view.id] == name:
            fetched[partner] = max(fetched.get(partner, 0), rate)
        else:
            sent = max(sent, own)
    kind = _kind(instance, name)
    return kind.up * sent + kind.down * sum(fetched.values(), start=Fraction(0))


def _fits(instance: Single, placement: Mapping[str, str], view: PairView, at: str) -> bool:
    capacity = _kind(instance, at).capacity if at != CLOUD else None
    if capacity is None:
        return True
    held = sum((other.load for other in instance.views if placement[other.id] == at), start=Fraction(0))
    return held + view.load <= capacity


def _operator_moves(dag: Dag, placement: Mapping[str, str], wanted: str) -> dict[str, Exact]:
    given = number_dag(dag)
    number = {name: position for position, name in enumerate(given.devices)}
    device = given.pinned.copy()
    for position, operator in enumerate(given.operators, start=given.sources):
        device[position] = number.get(placement[operator.id], NOWHERE)
    at = given.sources + [operator.id for operator in given.operators].index(wanted)
    allowed = allowed_devices(dag, tuple(in_order(dag)))[wanted]
    choices = {CLOUD: NOWHERE, **{name: number[name] for name in sorted(allowed)}}

    def paid(place: int) -> int:
        moved = np.where(np.arange(len(device)) == at, place, device)
        return total(device_costs(given.graph, moved, given.up, given.down))

    current = paid(int(device[at]))
    return {
        name: given.exact(paid(place) - current)
        for name, place in choices.items()
        if name != placement[wanted] and _operator_fits(dag, placement, wanted, name)
    }


def _operator_fits(dag: Dag, placement: Mapping[str, str], wanted: str, at: str) -> bool:
    if any(operator.id == wanted and operator.pin is not None for operator in dag.operators):
        return False
    capacity = dag.devices.get(at, dag.default).capacity if at != CLOUD else None
    if capacity is None:
        return True
    loads = {operator.id: operator.load for operator in dag.operators}
    held = sum((load for name, load in loads.items() if placement[name] == at), start=Fraction(0))
    return held + loads[wanted] <= capacity
