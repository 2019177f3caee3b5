"""A project's template as a `LogicalTemplate`: what its view reads, through views, becomes levels of logical views.

A view that is read reads in turn: if it needs only one of the two devices it is shared by all rows with that device.
Tables are reference data in the Cloud. Rates come from the devices' declaration unless measured; the output of a view
that another reads needs one, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from headrace.model.catalogue import Devices, Template, View
from headrace.model.errors import InputError, Problem
from headrace.plan.exact_numbers import Exact
from headrace.plan.place.instance import Device, PairView, Single
from headrace.plan.place.templates import SIDES, LogicalInput, LogicalTemplate, LogicalView, Row


def make_logical_template(
    template: Template,
    devices: Devices,
    views: Mapping[str, View],
    rates: Mapping[str, Exact | str] | None = None,
) -> LogicalTemplate:
    """`rates`: of streams, tables and views by name, a number or a column of the reference rows; they override
    declarations.
    """
    known = {**{stream.name: stream.rate for stream in devices.streams}, **(rates or {})}
    done: dict[str, LogicalView] = {}
    tables: set[str] = set()
    _add(template.view, views, known, template, done, tables)
    return LogicalTemplate(tuple(done.values()), frozenset(tables))


def _add(
    name: str,
    views: Mapping[str, View],
    rates: Mapping[str, Exact | float | str | None],
    template: Template,
    done: dict[str, LogicalView],
    tables: set[str],
) -> LogicalView:
    if name in done:
        return done[name]
    inputs = []
    for read in views[name].reads:
        side, _, stream = read.partition(".")
        if side in SIDES and stream:
            inputs.append(LogicalInput(stream, (side,), _rate(stream, rates, template)))
        elif read in views:
            inner = _add(read, views, rates, template, done, tables)
            inputs.append(LogicalInput(read, inner.keys, _rate(read, rates, template)))
        else:
            tables.add(read)
            inputs.append(LogicalInput(read, (), _rate(read, {read: 0, **rates}, template)))
    keys = tuple(side for side in SIDES if any(side in given.keys for given in inputs))
    done[name] = LogicalView(name, keys, tuple(inputs))
    return done[name]


def _rate(name: str, rates: Mapping[str, Exact | float | str | None], template: Template) -> Exact | str:
    rate = rates.get(name)
    if rate is None:
        hint = "declare the stream's rate, or measure it"
        problem = Problem(f'template "{template.name}" needs the rate of "{name}"', template.declared_at, hint)
        raise InputError([problem])
    if isinstance(rate, float):
        exact = Fraction(repr(rate))
        return exact.numerator if exact.denominator == 1 else exact
    return rate


def device_kinds(devices: Devices, rows: Iterable[Row]) -> tuple[Device, dict[str, Device]]:
    """The devices' prices, and for each device (a row of their table) its capacity where that is a column."""
    up, down = Fraction(repr(devices.up)), Fraction(repr(devices.down))
    if not isinstance(devices.capacity, str):
        return Device(up, down, devices.capacity), {}
    column = devices.capacity
    return Device(up, down), {str(row[devices.id]): Device(up, down, row[column]) for row in rows}


def pairs_of(
    template: LogicalTemplate, rows: Iterable[Row], default: Device, devices: Mapping[str, Device] | None = None
) -> Single | None:
    """The views of a template as pairs, if the template is one view over one stream of each device: the form for
    millions of rows.
    """
    if len(template.views) != 1 or template.in_cloud:
        return None
    by_side = {given.keys: given for given in template.views[0].inputs}
    if by_side.keys() != {("a",), ("b",)} or len(template.views[0].inputs) != 2:
        return None
    one, other = by_side["a",], by_side["b",]
    if one.name != other.name:
        return None
    name = template.views[0].name

    def rate(given: LogicalInput, row: Row) -> Exact:
        found: Exact = row[given.rate] if isinstance(given.rate, str) else given.rate
        return found

    views = tuple(
        PairView(f"{name}[{row['a']},{row['b']}]", str(row["a"]), str(row["b"]), rate(one, row), rate(other, row))
        for row in rows
    )
    return Single(views, default, dict(devices or {}))
