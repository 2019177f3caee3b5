"""A push of one vertex as a work item, from logs as they are, and what it changes in the ledger once done. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.model.log import Edit, Log, PieceKind
from headrace.run.logs.merge import shards_wanted
from headrace.run.ports import Store
from headrace.run.program import Ingest, Program, RecomputeStep, Task, reads_time
from headrace.run.push.work import Files, Produced, WorkItem


def has_work(task: Task, log: Log, t: int, logs: Mapping[str, Log]) -> bool:
    """Whether a push to a time has to run; if not, no input has changed, and only the time is noted."""
    return reads_time(task.step) or any(logs[read].changes(log.t, t) for read in task.reads)


def make_item(
    program: Program, store: Store, name: str, t: int, logs: Mapping[str, Log], expected_s: float = 0.0
) -> WorkItem:
    """The push of a vertex to a time. `logs` has its own, its state's and those that it reads."""
    task, log = program.tasks[name], logs[name]
    changes = {read: Files(logs[read].site, logs[read].changes(log.t, t)) for read in task.reads}
    rows = sum(piece.rows for files in changes.values() for piece in files.pieces)
    looked_up = [*task.reads, task.vertex, *([] if task.state is None else [task.state.name])]
    indexes = {
        (name, key.columns): Files(logs[name].site, logs[name].indexes(key.columns))
        for name in looked_up
        if name in program.logs
        for key in program.logs[name].keys
    }
    whole = {name: Files(logs[name].site, logs[name].contents) for name in _read_whole(task)}
    rows += sum(piece.rows for files in whole.values() for piece in files.pieces)
    earlier = Files(log.site)
    if isinstance(task.step, Ingest):
        spool = logs[task.step.spool]
        earlier = Files(spool.site, tuple(p for p in spool.of_kind(PieceKind.CHANGE) if p.upto <= log.t))
    return WorkItem(
        task=task,
        log=program.logs[task.vertex],
        after=log.t,
        upto=t,
        store=store,
        changes=changes,
        indexes=indexes,
        own=Files(log.site, log.contents if isinstance(task.step, Ingest) else ()),
        earlier=earlier,
        whole=whole,
        specs={name: program.logs[name] for name in looked_up if name in program.logs},
        shards={where: shards_wanted(logs[where[0]].pieces, where[1], rows) for where in indexes if where[0] in logs},
        weight=float(rows + 1),
        functions=program.functions,
        expected_s=expected_s,
    )


def _read_whole(task: Task) -> list[str]:
    """Logs of which a push reads all rows, whatever has changed."""
    if not isinstance(task.step, RecomputeStep):
        return []
    return [*(reading.log for reading in task.step.inputs.values()), task.step.state]


def edits_of_time(task: Task, after: int, t: int) -> list[Edit]:
    """Nothing to do but to note the time."""
    names = [task.vertex, *([] if task.state is None else [task.state.name])]
    return [Edit(name, after, t) for name in names]


def edits_of(item: WorkItem, produced: Produced) -> list[Edit]:
    """What a push made."""
    names = [item.name, *([] if item.task.state is None else [item.task.state.name])]
    return [
        Edit(name, item.after, item.upto, tuple(piece for log, piece in produced.pieces if log == name))
        for name in names
    ]
