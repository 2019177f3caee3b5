"""What one site does of a whole program: its own tasks, what it has brought from others, and what others have of it.

Changes cross from one site to another as copies alone: a task that reads logs of another site passes their rows on. So
cutting a program at its copies leaves parts that read nothing but their own site's logs.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.run.program import Pass, Program, SiteCopy, TimedPass, origins_of


def take_part(whole: Program, site: str) -> Program:
    """The part of one site; the parts of all sites are the whole program."""
    program = _move_timers(whole)
    copies = [copy for name in program.tasks if (copy := _find_copy(program, name)) is not None]
    imports = {copy.name: copy for copy in copies if copy.site == site}
    exports = {copy.name: copy for copy in copies if copy.origin == site}
    tasks = {name: task for name, task in program.tasks.items() if task.site == site and name not in imports}
    logs = {name: spec for name, spec in program.logs.items() if spec.site == site}
    answers = {contract: log for contract, log in program.answers.items() if log in tasks}
    return replace(program, tasks=tasks, logs=logs, answers=answers, imports=imports, exports=exports)


def _move_timers(program: Program) -> Program:
    """Conditions on time of a copy are looked after where its rows come from: what does not hold now is not sent."""
    tasks, logs = dict(program.tasks), dict(program.logs)
    for name, task in program.tasks.items():
        if isinstance(task.step, TimedPass) and (origins := origins_of(program, task)):
            assert task.state is not None, f'"{name}" has no state'
            (origin,) = origins
            state = replace(task.state, site=origin)
            tasks[name] = replace(task, site=origin, state=state)
            logs |= {name: replace(logs[name], site=origin), state.name: state}
    return replace(program, tasks=tasks, logs=logs)


def _find_copy(program: Program, name: str) -> SiteCopy | None:
    task = program.tasks[name]
    origins = origins_of(program, task)
    if not origins:
        return None
    sites = {program.logs[read].site for read in task.reads}
    assert isinstance(task.step, Pass) and len(sites) == 1, f'"{name}" reads {sorted(sites)}: that is no copy'
    (origin,) = origins
    return SiteCopy(task, program.logs[name], origin)
