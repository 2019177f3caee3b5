"""Sources and operators of a graph."""

from __future__ import annotations

import graphlib
from collections.abc import Mapping
from typing import Any

from headrace.model.errors import nearest_name
from headrace.plan.exact_json import Path, show_value
from headrace.plan.exact_numbers import Exact
from headrace.plan.place.allowed import allowed_devices, in_order
from headrace.plan.place.fields import PlacementFields
from headrace.plan.place.instance import CLOUD, Dag, PlacedOperator, PlacementMode

OPERATOR_FIELDS = ("id", "inputs", "load", "allowed", "pin")


def read_mode(fields: PlacementFields) -> PlacementMode:
    found = fields.document.get("mode", PlacementMode.DERIVE)
    if found in tuple(PlacementMode):
        return PlacementMode(found)
    fields.wrong(("mode",), f"mode is {show_value(found)}", f"one of: {', '.join(PlacementMode)}")
    return PlacementMode.DERIVE


def read_sources(fields: PlacementFields) -> dict[str, str]:
    if "sources" not in fields.document:
        fields.wrong((), '"sources" is missing')
    found = fields.members(fields.document.get("sources", {}), ("sources",), '"sources"')
    return {name: fields.name(home, ("sources", name), "a device", place=home != CLOUD) for name, home in found.items()}


def read_operators(fields: PlacementFields, sources: Mapping[str, str]) -> tuple[PlacedOperator, ...]:
    taken = set(sources)
    operators = []
    for at, entry in enumerate(fields.required_items("ops")):
        path: Path = ("ops", at)
        entry = fields.fields(entry, path, "an operator", OPERATOR_FIELDS)
        name = fields.name(entry.get("id"), (*path, "id"), "an operator", place=False)
        if name in taken:
            fields.wrong((*path, "id"), f'id "{name}" is given twice')
        taken.add(name)
        allowed, pin = entry.get("allowed"), entry.get("pin")
        operators.append(
            PlacedOperator(
                name,
                _inputs(fields, entry.get("inputs"), (*path, "inputs")),
                fields.number_of("load", 1, entry, path),
                None if allowed is None else fields.names(allowed, (*path, "allowed"), '"allowed"'),
                None if pin is None else fields.name(pin, (*path, "pin"), "a device", place=False),
            )
        )
    _check_names(fields, operators, sources, taken)
    return tuple(operators)


def _inputs(fields: PlacementFields, found: Any, path: Path) -> tuple[tuple[str, Exact], ...]:
    if not isinstance(found, list):
        fields.wrong(path, "inputs are [[stream, rate], ...]" if found is None else f"inputs are {show_value(found)}")
        return ()
    inputs = []
    for at, entry in enumerate(found):
        if not isinstance(entry, list) or len(entry) != 2:
            fields.wrong((*path, at), f"an input is [stream, rate], not {show_value(entry)}")
            continue
        name = fields.name(entry[0], (*path, at, 0), "a stream", place=False)
        inputs.append((name, fields.number(entry[1], (*path, at, 1), f'the rate of "{name}"')))
    return tuple(inputs)


def _check_names(
    fields: PlacementFields, operators: list[PlacedOperator], sources: Mapping[str, str], streams: set[str]
) -> None:
    devices = {home for home in sources.values() if home != CLOUD}
    for at, operator in enumerate(operators):
        for k, (name, _) in enumerate(operator.inputs):
            if name not in streams and name != "?":
                fields.wrong(("ops", at, "inputs", k), f'stream "{name}" is unknown', nearest_name(name, streams))
        for k, name in enumerate(operator.allowed or ()):
            if name not in devices and name != CLOUD:
                fields.wrong(("ops", at, "allowed", k), f'device "{name}" is unknown', nearest_name(name, devices))
        if operator.pin not in (None, CLOUD) and operator.pin not in devices:
            hint = nearest_name(str(operator.pin), devices)
            fields.wrong(("ops", at, "pin"), f'device "{operator.pin}" is unknown', hint)


def read_sums(fields: PlacementFields, streams: set[str]) -> frozenset[str]:
    found = fields.members(fields.document.get("share", {}), ("share",), '"share"')
    for name, how in found.items():
        if name not in streams:
            fields.wrong(("share", name), f'stream "{name}" is unknown', nearest_name(name, streams))
        if how not in ("sum", "max"):
            fields.wrong(("share", name), f'share is {show_value(how)}, not "sum" or "max"')
    return frozenset(name for name, how in found.items() if how == "sum")


def check_graph(fields: PlacementFields, dag: Dag) -> None:
    """No circles; and every pin is where the operator may run."""
    try:
        operators = tuple(in_order(dag))
    except graphlib.CycleError as error:
        fields.wrong(("ops",), f"operators read each other in a circle: {_circle(error.args[1])}")
        return
    possible = allowed_devices(dag, operators)
    for at, operator in enumerate(dag.operators):
        if operator.pin not in (None, CLOUD) and not possible[operator.id]:
            fields.wrong(
                ("ops", at, "pin"),
                f'operator "{operator.id}" is pinned to device "{operator.pin}", where it is not allowed',
                'name the device in "allowed", or choose another "mode"',
            )


def _circle(names: list[str]) -> str:
    """All of a short circle, the start of a long one."""
    shown_names = names if len(names) <= 8 else [*names[:8], f"and {len(names) - 9} more"]
    return " -> ".join(shown_names)
