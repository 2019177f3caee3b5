"""Keeps what sites that run an earlier plan still read, beside the program of a later plan.

Names of logs say what they hold, so both plans fit into one program. What both have is made as the later plan says.
Nobody here reads what is kept: it is pushed when another site asks for it, and goes when no site runs the earlier plan.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from headrace.run.compile.site_program import take_part
from headrace.run.program import LogSpec, Program, SiteCopy, Task


def find_needed_copies(whole: Program, sites: Collection[str]) -> frozenset[str]:
    """The copies of a whole program that sites read, and all that these are made of on their way."""
    parts = {site: take_part(whole, site) for site in sorted({spec.site for spec in whole.logs.values()})}
    copies = {name: copy for part in parts.values() for name, copy in part.imports.items()}
    found, todo = set[str](), [name for name, copy in copies.items() if copy.site in sites]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += parts[copies[name].origin].imports_of(copies[name].task.reads)
    return frozenset(found)


def keep_for_others(program: Program, earlier: Program, copies: Collection[str]) -> Program:
    """The program of one site, with what it takes to go on giving some copies of its part of an earlier program."""
    exports = {name: copy for name, copy in earlier.exports.items() if name in copies and name not in program.exports}
    tasks, imports = _find_upstream(program, earlier, exports)
    own = {name: earlier.logs[name] for name in (*tasks, *imports)}
    states = {task.state.name: task.state for task in tasks.values() if task.state is not None}
    # Inputs come first: those that the later program makes may be read by what is kept, and never the other way round.
    return replace(
        program,
        tasks={**program.tasks, **tasks},
        logs={**_add_keys(program.logs, earlier.logs, tasks), **own, **states},
        functions=tuple(dict.fromkeys((*program.functions, *earlier.functions))),
        imports={**program.imports, **imports},
        exports={**program.exports, **exports},
        kept=program.kept | frozenset((*own, *states)),
    )


def _find_upstream(
    program: Program, earlier: Program, exports: Mapping[str, SiteCopy]
) -> tuple[dict[str, Task], dict[str, SiteCopy]]:
    """What copies are made of, as far as the later program does not make it: tasks with inputs first, and imports."""
    found, todo = set[str](), [name for copy in exports.values() for name in copy.task.reads]
    while todo:
        name = todo.pop()
        if name not in program.tasks and name not in found:
            found.add(name)
            todo += earlier.tasks[name].reads if name in earlier.tasks else ()
    tasks = {name: task for name, task in earlier.tasks.items() if name in found}
    return tasks, {name: copy for name, copy in earlier.imports.items() if name in found.difference(program.imports)}


def _add_keys(
    logs: Mapping[str, LogSpec], earlier: Mapping[str, LogSpec], tasks: Mapping[str, Task]
) -> dict[str, LogSpec]:
    """Logs of both plans keep the keys that what is kept looks them up by."""
    read = {name for task in tasks.values() for name in task.reads if name in earlier and name in logs}
    return {name: merge_keys(spec, earlier[name]) if name in read else spec for name, spec in logs.items()}


def merge_keys(one: LogSpec, other: LogSpec) -> LogSpec:
    """A log that can be looked up by the keys of both."""
    known = {key.columns for key in one.keys}
    return replace(one, keys=(*one.keys, *(key for key in other.keys if key.columns not in known)))
