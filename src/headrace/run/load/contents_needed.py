"""Which contents of other sites vertices start from: those that a load follows backwards to, and that are not kept."""

from __future__ import annotations

from collections.abc import Collection

from headrace.run.program import Ingest, Pass, Program


def find_read_contents(program: Program, new: Collection[str], kept: Collection[str]) -> list[str]:
    """Imports whose rows a load of new vertices reads, and those that hold contents and start with them."""
    wanted, seen = set[str](), set[str]()
    todo = [name for name in new if program.logs[name].has_contents or program.tasks[name].state is not None]
    todo = [read for name in todo for read in _read_by(program, name)]
    while todo:
        name = todo.pop()
        if name in seen or name in kept:
            continue
        seen.add(name)
        if name in program.imports:
            wanted.add(name)
        elif name in program.tasks:
            todo.extend(_read_by(program, name))
    wanted |= {name for name in program.imports_of(new) if program.logs[name].has_contents and name not in kept}
    return [name for name in program.imports if name in wanted]


def _read_by(program: Program, vertex: str) -> tuple[str, ...]:
    """What a load reads of a vertex: one that passes rows of several logs on has all of them in the first."""
    task = program.tasks[vertex]
    match task.step:
        case Ingest():
            return ()
        case Pass(inputs):
            return (inputs[0].log,)
        case _:
            return task.reads
