"""Sources and operators of a graph."""

from __future__ import annotations

import graphlib
from collections.abc import Mapping
from typing import Any

from headrace.model.errors import nearest_name
from headrace.plan.exact_json import Path, shown
from headrace.plan.place.allowed import allowed_devices, in_order
from headrace.plan.place.fields import PlacementFields
from headrace.plan.place.instance import CLOUD, Dag, PlacedOperator, PlacementMode
from headrace.plan.place.numbers import Exact

OPERATOR_FIELDS = ("id", "inputs", "load", "allowed", "pin")


def read_mode(fields: PlacementFields) -> PlacementMode:
    found = fields.document.get("mode", PlacementMode.DERIVE)
    if found in tuple(PlacementMode):
        return PlacementMode(found)
    fields.problems.add(f"mode is {shown(found)}", ("mode",), f"one of: {', '.join(PlacementMode)}")
    return PlacementMode.DERIVE


def read_sources(fields: PlacementFields) -> dict[str, str]:
    if "sources" not in fields.document:
        fields.problems.add('"sources" is missing', ())
    found = fields.object(fields.document.get("sources", {}), ("sources",))
    return {name: fields.name(home, "a device", ("sources", name), place=home != CLOUD) for name, home in found.items()}


def read_operators(fields: PlacementFields, sources: Mapping[str, str]) -> tuple[PlacedOperator, ...]:
    taken = set(sources)
    operators = []
    for at, entry in enumerate(fields.list("ops")):
        path: Path = ("ops", at)
        entry = fields.object(entry, path)
        fields.fields(entry, path, OPERATOR_FIELDS)
        name = fields.name(entry.get("id"), "an operator", (*path, "id"), place=False)
        if name in taken:
            fields.problems.add(f'id "{name}" is given twice', (*path, "id"))
        taken.add(name)
        allowed, pin = entry.get("allowed"), entry.get("pin")
        operators.append(
            PlacedOperator(
                name,
                _inputs(fields, entry.get("inputs"), (*path, "inputs")),
                fields.number("load", 1, entry, path),
                None if allowed is None else fields.names(allowed, (*path, "allowed")),
                None if pin is None else fields.name(pin, "a device", (*path, "pin"), place=False),
            )
        )
    _check_names(fields, operators, sources, taken)
    return tuple(operators)


def _inputs(fields: PlacementFields, found: Any, path: Path) -> tuple[tuple[str, Exact], ...]:
    if not isinstance(found, list):
        fields.problems.add("inputs are [[stream, rate], ...]" if found is None else f"inputs are {shown(found)}", path)
        return ()
    inputs = []
    for at, entry in enumerate(found):
        if not isinstance(entry, list) or len(entry) != 2:
            fields.problems.add(f"an input is [stream, rate], not {shown(entry)}", (*path, at))
            continue
        name = fields.name(entry[0], "a stream", (*path, at, 0), place=False)
        inputs.append((name, fields.amount(entry[1], f'the rate of "{name}"', (*path, at, 1))))
    return tuple(inputs)


def _check_names(
    fields: PlacementFields, operators: list[PlacedOperator], sources: Mapping[str, str], streams: set[str]
) -> None:
    devices = {home for home in sources.values() if home != CLOUD}
    for at, operator in enumerate(operators):
        for k, (name, _) in enumerate(operator.inputs):
            if name not in streams and name != "?":
                fields.problems.add(
                    f'stream "{name}" is unknown', ("ops", at, "inputs", k), nearest_name(name, streams)
                )
        for k, name in enumerate(operator.allowed or ()):
            if name not in devices and name != CLOUD:
                fields.problems.add(
                    f'device "{name}" is unknown', ("ops", at, "allowed", k), nearest_name(name, devices)
                )
        if operator.pin not in (None, CLOUD) and operator.pin not in devices:
            hint = nearest_name(str(operator.pin), devices)
            fields.problems.add(f'device "{operator.pin}" is unknown', ("ops", at, "pin"), hint)


def read_sums(fields: PlacementFields, streams: set[str]) -> frozenset[str]:
    found = fields.object(fields.document.get("share", {}), ("share",))
    for name, how in found.items():
        if name not in streams:
            fields.problems.add(f'stream "{name}" is unknown', ("share", name), nearest_name(name, streams))
        if how not in ("sum", "max"):
            fields.problems.add(f'share is {shown(how)}, not "sum" or "max"', ("share", name))
    return frozenset(name for name, how in found.items() if how == "sum")


def check_graph(fields: PlacementFields, dag: Dag) -> None:
    """No circles; and every pin is where the operator may run."""
    try:
        operators = tuple(in_order(dag))
    except graphlib.CycleError as error:
        fields.problems.add(f"operators read each other in a circle: {_circle(error.args[1])}", ("ops",))
        return
    possible = allowed_devices(dag, operators)
    for at, operator in enumerate(dag.operators):
        if operator.pin not in (None, CLOUD) and not possible[operator.id]:
            fields.problems.add(
                f'operator "{operator.id}" is pinned to device "{operator.pin}", where it is not allowed',
                ("ops", at, "pin"),
                'name the device in "allowed", or choose another "mode"',
            )


def _circle(names: list[str]) -> str:
    """All of a short circle, the start of a long one."""
    shown_names = names if len(names) <= 8 else [*names[:8], f"and {len(names) - 9} more"]
    return " -> ".join(shown_names)
