"""A template and its reference rows become one physical view graph: a view per row, and what rows share only once.

A logical view depends on some of the row's two keys, "a" and "b". Rows that agree on those keys share the physical
view: with `near(a, b)` over `place(a)` and `place(b)`, a person with fifty friends has one `place` and fifty `near`.
Adding and removing rows changes only what these rows touch; a shared view goes with the last row that needs it.
(RACE, sections 2.1 and 3.3.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.plan.exact_numbers import Exact
from headrace.plan.place.instance import CLOUD, Dag, Device, PlacedOperator

Row = Mapping[str, Any]
"""One row of the reference table. The keys "a" and "b" hold the devices; other columns may hold rates."""

SIDES = ("a", "b")


@dataclass(frozen=True, slots=True)
class LogicalInput:
    """Reads a stream or logical view for some of the row's keys, at a rate: a number, or the name of a column of the
    row.

    `keys` are the keys of the stream in the reader's terms: `place` with keys ("b",) is the place of the row's b.
    """

    name: str
    keys: tuple[str, ...]
    rate: Exact | str


@dataclass(frozen=True, slots=True)
class LogicalView:
    """A view of the template; `keys` says on which of the row's keys it depends."""

    name: str
    keys: tuple[str, ...]
    inputs: tuple[LogicalInput, ...]


@dataclass(frozen=True, slots=True)
class LogicalTemplate:
    """The template's views, inputs before readers, the last of them per row; and the streams that live in the Cloud.

    All other streams live at the device that is their key.
    """

    views: tuple[LogicalView, ...]
    in_cloud: frozenset[str] = frozenset()


Demands = Mapping[str, Counter[Exact]]
"""By stream: the rates at which rows ask for it, and how many rows ask for each. The largest is what is read."""


@dataclass(frozen=True, slots=True)
class Instantiated:
    """The physical views of some rows. `uses` counts the rows that need a view, `demands` what each view reads."""

    template: LogicalTemplate
    uses: Mapping[str, int] = field(default_factory=dict)
    demands: Mapping[str, Demands] = field(default_factory=dict)
    homes: Mapping[str, str] = field(default_factory=dict)

    def dag(self, default: Device, devices: Mapping[str, Device] | None = None) -> Dag:
        """The view graph as an instance: sources that are read, and the views in an order that does not depend on the
        rows'.
        """
        read = {stream for demands in self.demands.values() for stream in demands}
        operators = tuple(
            PlacedOperator(view, tuple((stream, max(rates)) for stream, rates in sorted(self.demands[view].items())))
            for view in sorted(self.demands)
        )
        sources = {stream: self.homes[stream] for stream in sorted(read - self.demands.keys())}
        known = set(sources.values())
        kinds = {name: kind for name, kind in (devices or {}).items() if name in known}
        return Dag(sources, operators, default=default, devices=kinds)


@dataclass(frozen=True, slots=True)
class RowsChanged:
    """What a change of rows did to the views."""

    views: Instantiated
    added: frozenset[str]
    removed: frozenset[str]
    changed: frozenset[str]


@dataclass(frozen=True, slots=True)
class Demand:
    """An edge of the demand graph: stream `by` needs stream `of` at a rate, because `view` joins them."""

    of: str
    by: str
    rate: Exact
    view: str


def instantiate(template: LogicalTemplate, rows: Iterable[Row]) -> Instantiated:
    return change_rows(Instantiated(template), added=rows).views


def change_rows(before: Instantiated, added: Iterable[Row] = (), removed: Iterable[Row] = ()) -> RowsChanged:
    """Adds and removes rows; a removed row must be one that was added, with the same rates."""
    uses, demands, homes = dict(before.uses), dict(before.demands), dict(before.homes)
    touched: dict[str, dict[str, Counter[Exact]]] = {}
    for rows, sign in ((removed, -1), (added, +1)):
        for row in rows:
            for view in before.template.views:
                name = physical(view.name, view.keys, row)
                uses[name] = uses.get(name, 0) + sign
                mine = touched.setdefault(
                    name, {s: Counter(rates) for s, rates in before.demands.get(name, {}).items()}
                )
                for given in view.inputs:
                    stream = physical(given.name, given.keys, row)
                    rate: Exact = row[given.rate] if isinstance(given.rate, str) else given.rate
                    mine.setdefault(stream, Counter())[rate] += sign
                    homes.setdefault(stream, _home(before.template, given, row))
    for name, mine in touched.items():
        kept = {stream: +rates for stream, rates in mine.items() if +rates}
        if uses[name]:
            demands[name] = kept
        else:
            del uses[name]
            demands.pop(name, None)
    after = replace(before, uses=uses, demands=demands, homes=homes)
    changed = {
        name
        for name in touched
        if name in uses and name in before.uses and _find_reads(before, name) != _find_reads(after, name)
    }
    return RowsChanged(
        after,
        frozenset(name for name in touched if name in uses and name not in before.uses),
        frozenset(name for name in touched if name not in uses and name in before.uses),
        frozenset(changed),
    )


def physical(name: str, keys: tuple[str, ...], row: Row) -> str:
    """The name of a logical stream or view for one row. Rows that agree on the keys have it in common."""
    return f"{name}[{','.join(str(row[key]) for key in keys)}]"


def demand_graph(dag: Dag) -> tuple[Demand, ...]:
    """Who needs whose data: for every view and any two of its inputs, each needs the other at the rate the view reads
    it.
    """
    return tuple(
        Demand(of, by, rate, operator.id)
        for operator in dag.operators
        for of, rate in operator.inputs
        for by, _ in operator.inputs
        if by != of
    )


def _home(template: LogicalTemplate, given: LogicalInput, row: Row) -> str:
    return CLOUD if given.name in template.in_cloud or not given.keys else str(row[given.keys[0]])


def _find_reads(views: Instantiated, name: str) -> dict[str, Exact]:
    return {stream: max(rates) for stream, rates in views.demands[name].items()}
