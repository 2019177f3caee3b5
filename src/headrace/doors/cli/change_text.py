"""How `headrace plan` describes the difference from the running plan: what would be added, moved, removed and kept."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.doors.cli.output import count, wrap
from headrace.doors.cli.plan_text import dollars_per_hour
from headrace.model.difference import Difference
from headrace.model.steps import Steps, say_step


def change_text(change: Difference, steps: Steps) -> str:
    return "\n".join(_change_lines(change, steps))


def _change_lines(change: Difference, steps: Steps) -> Iterator[str]:
    yield "compared with the running plan"
    if change.is_nothing:
        yield f"  nothing changes: {count(len(change.reused), 'vertex stays as it is', 'vertices stay as they are')}"
        return
    for step in steps:
        yield from wrap(say_step(step), "  ", "    ")
    yield f"  {count(len(change.reused), 'vertex stays as it is', 'vertices stay as they are')}"
    before, after = dollars_per_hour(change.cost_before), dollars_per_hour(change.cost_after)
    yield f"  resources: {before} planned before, {after} after"
