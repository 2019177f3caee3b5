"""Vertices that bad rows have halted: their records in the ledger, and the vertices that wait for them.

A push that fails for a row fails again as long as that change is in the log, even after the row itself is deleted. So
the vertex is halted: it keeps its content, and `Engine.rebuild` recomputes it when the data may be good again.
"""

from __future__ import annotations

from collections.abc import Collection

from headrace.model.notes import Halted, read_notes
from headrace.run.ports import Ledger
from headrace.run.program import Program


def read_halted(ledger: Ledger) -> dict[str, Halted]:
    """The halted vertices and why, by vertex."""
    return read_notes(ledger, Halted)


def waiting_for(program: Program, halted: Collection[str]) -> dict[str, str]:
    """Every vertex that cannot be pushed, halted ones included, and the halted one that it waits for."""
    found: dict[str, str] = {}
    for name, task in program.tasks.items():
        first = name if name in halted else next((found[read] for read in task.reads if read in found), None)
        if first is not None:
            found[name] = first
    return found
