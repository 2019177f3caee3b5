"""Has pushes, not readers, compute those columns of a view for which a row may have no answer.

A vertex holds the columns that its views read. Several views may share it, and each computes its own columns from it.
Where this can fail, the computed rows get their own log: a bad row then halts only that view, before anybody reads it,
and the log keeps the view's last good rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

from headrace.meaning.fallible import can_fail
from headrace.model.plan import Plan
from headrace.model.relation import Field, Output
from headrace.run.compile.columns import vertex_outputs
from headrace.run.program import LogReading, LogSpec, Pass, Program, Task

ANSWER = "#rows~"
_ONE_ORDER = (0,) * 64
"""Whichever alias changed: nobody joins answers."""


def with_answers(program: Program, plan: Plan) -> Program:
    tasks, logs, answers = dict(program.tasks), dict(program.logs), dict[str, str]()
    for entry in plan.contracts:
        outputs = vertex_outputs(plan, program, entry.view, entry.vertex)
        if any(can_fail(output.expr) for output in outputs):
            name = answers[entry.contract] = f"{entry.vertex}{ANSWER}{_digest(outputs)}"
            site = program.logs[entry.vertex].site
            columns = tuple(Field(output.name, output.expr.type) for output in outputs)
            reading = LogReading(entry.vertex, {output.name: output.expr for output in outputs}, _ONE_ORDER)
            follows = program.tasks[entry.vertex].follows
            tasks[name] = Task(name, site, Pass((reading,)), (entry.vertex,), follows=follows)
            logs[name] = LogSpec(name, site, columns, has_contents=True)
    return replace(program, tasks=tasks, logs=logs, answers=answers)


def _digest(outputs: Sequence[Output]) -> str:
    """A view that computes something else from now on gets another log."""
    text = "\n".join(f"{output.name} {output.expr.type} {output.expr!r}" for output in outputs)
    return sha256(text.encode()).hexdigest()[:8]
