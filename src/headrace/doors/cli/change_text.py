"""What `headrace plan` tells people about the plan that runs: what would come, move, go, and stay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.doors.cli.output import wrap
from headrace.doors.cli.plan_text import dollars_per_hour
from headrace.model.difference import Difference


def change_text(change: Difference | None) -> tuple[str, ...]:
    """Nothing if nothing runs."""
    return () if change is None else ("\n".join(_lines(change)),)


def _lines(change: Difference) -> Iterator[str]:
    yield "against what runs"
    if change.is_nothing:
        yield f"  nothing changes: {_vertices(change.reused)} as they are"
        return
    yield from _named("contracts added", change.contracts_added)
    yield from _named("contracts changed", change.contracts_changed)
    yield from _named("contracts removed", change.contracts_removed)
    yield from _each("~", (f"source {name} changed: it and all that reads it start anew" for name in change.reread))
    yield from _each("+", change.added)
    yield from _each(">", (f"{start} moves to {target}" for start, target in change.moved))
    yield from _each("~", (f"{name} is made in another way" for name in change.rewired))
    yield from _each("-", change.removed)
    yield f"  {_vertices(change.reused)} re-used"
    yield f"  {dollars_per_hour(change.cost_before)} before, {dollars_per_hour(change.cost_after)} after"


def _vertices(names: tuple[str, ...]) -> str:
    return "1 vertex" if len(names) == 1 else f"{len(names)} vertices"


def _named(what: str, names: Iterable[str]) -> Iterator[str]:
    found = ", ".join(names)
    if found:
        yield from wrap(found, f"  {what}: ", "    ")


def _each(sign: str, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        yield from wrap(name, f"  {sign} ", "      ")
