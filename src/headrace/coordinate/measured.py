"""Stores the last measurements of a running service for commands that plan or explain: `.headrace/measured.json`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from headrace.model.catalogue import MeasuredSize, OperatorTime
from headrace.model.errors import UnreadableState
from headrace.model.plan import Plan
from headrace.plan.share.adapt import plan_as_measured
from headrace.plan.share.revalue import Measured
from headrace.plan.sizes import without_declared
from headrace.site.folder import Folder

log = logging.getLogger("headrace.service")

FILE = "measured.json"
VERSION = 1


@dataclass(frozen=True, slots=True)
class _Written:
    """`Measured` as a file holds it, with links written `a>b`."""

    clock_s: float
    rates: dict[str, float] = field(default_factory=dict)
    slowness: dict[str, float] = field(default_factory=dict)
    load: dict[str, float] = field(default_factory=dict)
    selectivities: dict[str, float] = field(default_factory=dict)
    blocking_s: float = 0.0
    sizes: dict[str, MeasuredSize] = field(default_factory=dict)
    times: dict[str, OperatorTime] = field(default_factory=dict)
    capacity: dict[str, float] = field(default_factory=dict)
    row_bytes: dict[str, float] = field(default_factory=dict)
    version: int = VERSION


_WRITTEN = TypeAdapter(_Written)


def write_measured(folder: Folder, measured: Measured) -> None:
    folder.write_json(FILE, _WRITTEN.dump_python(_to_written(measured)))


def _to_written(measured: Measured) -> _Written:
    return _Written(
        measured.clock_s,
        dict(measured.rates),
        dict(measured.slowness),
        {">".join(ends): share for ends, share in measured.load.items()},
        dict(measured.selectivities),
        measured.blocking_s,
        dict(measured.sizes),
        dict(measured.times),
        {">".join(ends): carries for ends, carries in measured.capacity.items()},
        dict(measured.row_bytes),
    )


def read_measured(folder: Folder) -> Measured | None:
    """None if nothing was measured yet. What cannot be read is warned of and left out: no number that was measured may
    keep a project from starting, and a service measures again. The same holds of numbers that cannot be right.
    """
    try:
        written = folder.read_json(FILE)
        if written is None:
            return None
        found = _WRITTEN.validate_python(written)
        if found.version != VERSION:
            raise folder.unreadable(FILE, f"it is of version {found.version}, not {VERSION}")
    except (UnreadableState, ValidationError) as error:
        why = error.message if isinstance(error, UnreadableState) else f'"{folder.root / FILE}" holds something else'
        log.warning("warning: continuing without the earlier measurements: %s", why)
        return None
    measured = _from_written(found)
    ignored = _find_left_out(found, _to_written(measured))
    if ignored:
        log.warning("warning: %s holds numbers that cannot be right, left out: %s", FILE, ", ".join(ignored))
    return measured


def read_told(document: Any) -> Measured | None:
    """What a site says that it measured, in the form of its file; None if it says nothing that can be read."""
    try:
        found = _WRITTEN.validate_python(document)
    except ValidationError:
        return None
    return _from_written(found) if found.version == VERSION else None


def _from_written(found: _Written) -> Measured:
    return Measured(
        found.clock_s,
        found.rates,
        found.slowness,
        _split_ends(found.load),
        selectivities=found.selectivities,
        blocking_s=found.blocking_s,
        sizes=found.sizes,
        times=found.times,
        capacity=_split_ends(found.capacity),
        row_bytes=found.row_bytes,
    )


def _split_ends(links: Mapping[str, float]) -> dict[tuple[str, str], float]:
    return {(src, dst): number for link, number in links.items() for src, _, dst in [link.partition(">")]}


def _find_left_out(found: _Written, kept: _Written) -> list[str]:
    """What is in the file and is not believed, as `rate of orders (nan)`; of results all that is known of one."""
    named = (
        ("rates", "rate"),
        ("slowness", "slowness"),
        ("load", "load"),
        ("selectivities", "share"),
        ("capacity", "capacity"),
        ("row_bytes", "bytes of rows"),
    )
    ignored = [
        f"{word} of {name} ({number:g})"
        for group, word in named
        for name, number in getattr(found, group).items()
        if name not in getattr(kept, group)
    ]
    ignored += [f"times of {op}" for op in found.times if op not in kept.times]
    ignored += [f"size of result {name}" for name, size in found.sizes.items() if kept.sizes[name] != size]
    return ignored if found.blocking_s == kept.blocking_s else [*ignored, f"waiting time ({found.blocking_s:g} s)"]


def running_to_plan_on(folder: Folder) -> Plan | None:
    """The plan that runs, at the rates that were measured of sources for which none is declared, with the sizes of
    results that nobody declares, with what operators took unless that is declared, with what links were found to carry,
    and with the time that pushes wait for each other.
    """
    running, measured = folder.running(), read_measured(folder)
    return running if running is None or measured is None else value_to_plan_on(running, measured)


def value_to_plan_on(running: Plan, measured: Measured) -> Plan:
    """A plan to plan on, at what was measured."""
    if measured.times and not running.catalogue.operator_times_declared:
        times = {**running.catalogue.operator_times, **measured.times}
        running = replace(running, catalogue=replace(running.catalogue, operator_times=times))
    sources = running.catalogue.sources
    rates = {name: rate for name, rate in measured.rates.items() if name in sources and sources[name].rate is None}
    sizes = without_declared(measured.sizes, (entry.block for entry in running.blocks), sources)
    known = Measured(measured.clock_s, rates, sizes=sizes, capacity=measured.capacity, row_bytes=measured.row_bytes)
    plan = plan_as_measured(running, known)
    headroom = plan.catalogue.headroom
    if headroom.measured or headroom.blocking_s is None:
        headroom = replace(headroom, blocking_s=measured.blocking_s, measured=True)
    return replace(plan, catalogue=replace(plan.catalogue, headroom=headroom))
