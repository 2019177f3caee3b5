"""Switches from one program to another while the first one keeps running.

    between     the program that runs while the new one is loaded: the old one unchanged, plus what is new
    tidied      what the ledger forgets once the new one runs

A push has to maintain its log for all readers, of the old program and of the new one: an index by a key that misses a
few changes is wrong for ever. So logs have the keys of both programs until the old one is gone. Keys that no program
needs any more are dropped with their indexes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from headrace.model.log import Commit, Edit, Log, PieceKind
from headrace.model.notes import LogKeys, NoteChange
from headrace.run.compile.keep_for_others import merge_keys
from headrace.run.program import LogSpec, Program


def between(old: Program | None, new: Program, anew: frozenset[str] = frozenset()) -> Program:
    """What runs goes on as it is made now, even if the new program makes it in another way.

    But for logs that start anew.
    """
    if old is None:
        return new
    kept = {name: task for name, task in old.tasks.items() if name not in anew or name not in new.tasks}
    # What another site makes until now, and this one from then on, is brought until the switch: its operator's state is
    # not there yet, and neither is what it will be made from.
    brought = {name for name in old.imports if name in new.tasks and name not in anew}
    tasks = {**kept, **{name: task for name, task in new.tasks.items() if name not in kept and name not in brought}}
    before = {name: spec for name, spec in old.logs.items() if name not in anew or name not in new.logs}
    logs = {name: _for_both(before.get(name), new.logs.get(name)) for name in {**before, **new.logs}}
    functions = tuple(dict.fromkeys((*old.functions, *new.functions)))
    imports = {name: one for name, one in {**old.imports, **new.imports}.items() if name not in tasks}
    exports = {**old.exports, **new.exports}
    return Program(tasks, logs, functions, {**old.answers, **new.answers}, imports, exports)


def _for_both(old: LogSpec | None, new: LogSpec | None) -> LogSpec:
    if old is None or new is None:
        found = old or new
        assert found is not None
        return found
    return merge_keys(old, new)


def find_turned(before: Program, now: Program) -> list[str]:
    """Copies of views in full that come from another site than before, or were made here until now.

    Such a view is known at the times of its pushes alone, and each site that makes it has times of its own: changes of
    one do not go on from what another one had. So these start anew.
    """
    turned = []
    for name, copy in now.imports.items():
        was = before.imports.get(name)
        if copy.task.follows and name in before.logs and (was is None or was.origin != copy.origin):
            turned.append(name)
    return turned


def find_made_from(program: Program, logs: Collection[str]) -> frozenset[str]:
    """Everything that is made from some logs, directly or not: vertices and their states."""
    found = set(logs)
    for name, task in program.tasks.items():
        if not found.isdisjoint(task.reads):
            found |= {name} if task.state is None else {name, task.state.name}
    return frozenset(found.difference(logs))


def make_tidying_commit(program: Program, logs: Mapping[str, Log], noted: Mapping[str, LogKeys]) -> Commit:
    """Forgets logs that a program does not have, and indexes and notes of keys that it does not look up by.

    Spools are no logs of programs, and stay.
    """
    gone = tuple(sorted(name for name in logs if name not in program.logs and name not in program.exports))
    notes = (*(LogKeys.remove(name) for name in gone), *_without_unneeded(program, logs, noted))
    return Commit(tuple(_without_keys(program, logs)), notes, forget=gone)


def _without_unneeded(program: Program, logs: Mapping[str, Log], noted: Mapping[str, LogKeys]) -> Iterator[NoteChange]:
    for name, known in noted.items():
        if name not in program.logs or name not in logs:
            yield LogKeys.remove(name)
            continue
        wanted = {key.columns for key in program.logs[name].keys}
        if not wanted.issuperset(known.keys):
            yield LogKeys(name, tuple(columns for columns in known.keys if columns in wanted))


def _without_keys(program: Program, logs: Mapping[str, Log]) -> Iterator[Edit]:
    for name, log in logs.items():
        if name in program.logs:
            wanted = {key.columns for key in program.logs[name].keys}
            files = tuple(piece.file for piece in log.of_kind(PieceKind.INDEX) if piece.key not in wanted)
            if files:
                yield Edit(name, log.t, log.t, drop=files)
