"""Carries out what `rebuild.py` decides about logs of vertices. What is forgotten here, others load again."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from headrace.model.errors import Conflict
from headrace.model.log import Commit, Edit, Log
from headrace.model.notes import LogKeys, read_notes
from headrace.run.load.transition import find_made_from
from headrace.run.logs.rebuild import Rebuild
from headrace.run.logs.upkeep import Upkeep
from headrace.run.program import Program
from headrace.run.push.engine import Engine


def forget_damaged(engine: Engine, rebuild: Rebuild) -> list[str]:
    """Forgets vertices and history; returns the vertices, with all that was made from them. Nobody else may push."""
    for name in (*rebuild.starts, *rebuild.dropped):
        found = engine.ledger.logs([name]).get(name)
        try:
            engine.ledger.commit(engine.lease, Commit(() if found is None else (_forget_files(found, rebuild),)))
        except Conflict:
            continue  # a capture moved its spool on: next time
    return engine.forget(rebuild.vertices) if rebuild.vertices else []


def _forget_files(log: Log, rebuild: Rebuild) -> Edit:
    """Drops history and indexes of a log, as far as they are still there."""
    edit = log.without_changes_up_to(rebuild.starts.get(log.name, log.start))
    there = {piece.file for piece in log.pieces}
    return replace(edit, drop=(*edit.drop, *(file for file in rebuild.dropped.get(log.name, ()) if file in there)))


def make_forgetting_commit(
    rebuild: Rebuild, program: Program, logs: Mapping[str, Log], noted: Mapping[str, LogKeys]
) -> Commit:
    """Forgets all that has to be made again but for sources, before anything runs: what is missing is then made."""
    tasks = (program.tasks.get(name) for name in rebuild.vertices)
    states = {task.state.name for task in tasks if task is not None and task.state is not None}
    gone = rebuild.vertices | states | find_made_from(program, rebuild.vertices)
    touched = {*rebuild.starts, *rebuild.dropped} & logs.keys()
    edits = [_forget_files(logs[name], rebuild) for name in sorted(touched)]
    return Commit(tuple(edits), _without_keys(rebuild.indexes, noted), forget=tuple(sorted(gone & logs.keys())))


def _without_keys(
    indexes: Mapping[str, Collection[tuple[str, ...]]], noted: Mapping[str, LogKeys]
) -> tuple[LogKeys, ...]:
    """Notes that logs lack some indexes, which are then built."""
    return tuple(
        LogKeys(name, tuple(key for key in noted[name].keys if key not in keys))
        for name, keys in indexes.items()
        if name in noted
    )


def rebuild_indexes(upkeep: Upkeep, indexes: Mapping[str, Collection[tuple[str, ...]]]) -> None:
    """Builds indexes again from the rows of their logs.

    The damaged ones stay until then: whoever looks something up must not find nothing.
    """
    engine = upkeep.engine
    notes = _without_keys(indexes, read_notes(engine.ledger, LogKeys))
    engine.ledger.commit(engine.lease, Commit(notes=notes))
    upkeep.build_keys()
