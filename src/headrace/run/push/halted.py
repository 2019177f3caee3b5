"""Vertices that bad rows have halted: their records in the ledger, and the vertices that wait for them.

A push that fails for a row fails again as long as that change is in the log, even after the row itself is deleted. So
the vertex is halted: it keeps its content, and `run.rebuild` recomputes it when the data may be good again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass

from headrace.run.ports import Ledger
from headrace.run.program import Program

HALTED_NOTE = "halted:"
"""The note of a vertex that is halted: why, since when, and as of which time it was last tried."""


@dataclass(frozen=True, slots=True)
class Halted:
    """`why` is for people. Times are microseconds: `since` the row came, `tried` that the data was looked at last."""

    why: str
    since: int
    tried: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def halted_in(ledger: Ledger) -> dict[str, Halted]:
    """By vertex."""
    notes = ledger.notes(HALTED_NOTE)
    return {name.removeprefix(HALTED_NOTE): Halted(**json.loads(text)) for name, text in notes.items()}


def waiting_for(program: Program, halted: Collection[str]) -> dict[str, str]:
    """Every vertex that cannot be pushed, halted ones included, and the halted one that it waits for."""
    found: dict[str, str] = {}
    for name, task in program.tasks.items():
        first = name if name in halted else next((found[read] for read in task.reads if read in found), None)
        if first is not None:
            found[name] = first
    return found


def note_halted(found: Mapping[str, Halted]) -> dict[str, str | None]:
    return {HALTED_NOTE + name: one.to_json() for name, one in found.items()}


def note_free(vertices: Collection[str]) -> dict[str, str | None]:
    return {HALTED_NOTE + name: None for name in vertices}
