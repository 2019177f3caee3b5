"""How `headrace plan` describes the difference from the running plan: what would be added, moved, removed and kept."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.doors.cli.output import count, wrap
from headrace.doors.cli.plan_text import dollars_per_hour
from headrace.model.difference import Difference


def change_text(change: Difference | None) -> tuple[str, ...]:
    """Nothing if nothing runs."""
    return () if change is None else ("\n".join(_lines(change)),)


def _lines(change: Difference) -> Iterator[str]:
    yield "compared with the running plan"
    if change.is_nothing:
        yield f"  nothing changes: {count(len(change.reused), 'vertex stays as it is', 'vertices stay as they are')}"
        return
    for step in change.steps:
        yield from wrap(step.text, "  ", "    ")
    yield f"  {count(len(change.reused), 'vertex stays as it is', 'vertices stay as they are')}"
    before, after = dollars_per_hour(change.cost_before), dollars_per_hour(change.cost_after)
    yield f"  resources: {before} planned before, {after} after"
