"""A ledger that says what it says while a plan runs, without anything that was captured or computed."""

from __future__ import annotations

from headrace.coordinate.existing import Existing
from headrace.coordinate.steps import copies_asked, shapes_of, slots_asked, sources_read
from headrace.model.log import Commit, Edit
from headrace.model.notes import CaptureSlot, LogKeys, Note, SourceLoaded, SourceShape
from headrace.model.plan import Plan
from headrace.run.capture.spool import SPOOL
from headrace.run.compile.compile_plan import compile_plan
from headrace.site.folder import Folder


def existing_while_running(plan: Plan, directory: str) -> Existing:
    program, sources = compile_plan(plan), sources_read(plan)
    return Existing(
        frozenset((*program.logs, *(SPOOL + name for name in sources))),
        sources,
        shapes_of(plan),
        {name: frozenset(key.columns for key in spec.keys) for name, spec in program.logs.items()},
        tuple(copies_asked(plan)),
        tuple(CaptureSlot(f"of_{one}", project, one, "") for project, one in sorted(slots_asked(plan, directory))),
        directory,
    )


def write_existing(folder: Folder, plan: Plan) -> None:
    """Writes what `existing_in` finds while a plan runs."""
    found = existing_while_running(plan, str(folder.project.absolute()))
    ledger = folder.ledger()
    try:
        lease = ledger.acquire("service", "test", 60.0)
        edits = tuple(Edit(name, None, 1, start=1, site="us") for name in sorted(found.logs))
        notes: list[Note] = [SourceLoaded(name, 1) for name in found.loaded]
        notes += [SourceShape(name, shape) for name, shape in found.shapes.items()]
        notes += [LogKeys(name, tuple(sorted(keys))) for name, keys in found.keys.items()]
        ledger.commit(lease, Commit(edits, (*notes, *found.copies, *found.slots)))
        ledger.release(lease)
    finally:
        ledger.close()
