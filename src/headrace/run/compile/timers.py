"""Takes conditions on time out of steps: each becomes a step of its own, which remembers what comes and goes later.

A vertex that filters by time gets a helper before it (`VERTEX#time0`), or, where the condition reads what the vertex
makes, makes its rows under another name (`VERTEX#all`) and filters those.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from graphlib import TopologicalSorter

from headrace.model.expr import Column, Expr, columns_of, conjunction, conjuncts, is_deterministic, rename_columns, walk
from headrace.model.relation import Field, Output
from headrace.run.operators.timed import BUCKET, event_fields
from headrace.run.program import (
    AggregateStep,
    DeriveStep,
    JoinStep,
    LogReading,
    LogSpec,
    LookupKey,
    OperatorStep,
    Pass,
    Program,
    Task,
    TimedPass,
)

HELPER = "#time"
BEFORE = "#all"
EVENTS = "#events"
ANY_ORDER = tuple(range(64))
"""Aliases as they are; no join has as many."""


def with_timers(program: Program) -> Program:
    """Adds timers to a program; it stays unchanged where nothing depends on time."""
    tasks, logs = dict(program.tasks), dict(program.logs)
    for task in program.tasks.values():
        for made, spec in _split_task(task, program.logs):
            tasks[made.vertex] = made
            logs[spec.name] = spec
            if made.state is not None:
                logs[made.state.name] = made.state
    if len(tasks) == len(program.tasks):
        return program
    order = TopologicalSorter({name: [r for r in task.reads if r in tasks] for name, task in tasks.items()})
    return replace(program, tasks={name: tasks[name] for name in order.static_order()}, logs=logs)


def find_whole(name: str) -> str:
    """The vertex of the plan that a task is, or is part of."""
    return name.partition(HELPER)[0].removesuffix(BEFORE)


def is_helper(vertex: str) -> bool:
    """Whether a task is not a vertex of the plan, but part of one."""
    return HELPER in vertex or vertex.endswith(BEFORE)


def _split_task(task: Task, logs: Mapping[str, LogSpec]) -> Iterator[tuple[Task, LogSpec]]:
    """New and changed tasks, each with the log that it makes."""
    step, helpers = _without_timed_readings(task, logs)
    yield from helpers
    changed = replace(task, step=step, reads=_find_reads(step, task)) if helpers else task
    after = _conditions_after(changed.step)
    if after:
        yield from _before_and_after(changed, logs[task.vertex], after)
    elif helpers:
        yield changed, logs[task.vertex]


def _without_timed_readings(task: Task, logs: Mapping[str, LogSpec]) -> tuple[OperatorStep, list[tuple[Task, LogSpec]]]:
    helpers: list[tuple[Task, LogSpec]] = []

    def plain(reading: LogReading) -> LogReading:
        timed = tuple(part for part in conjuncts(reading.filter) if not is_deterministic(part))
        if not timed:
            return reading
        helper = _helper(task, reading, timed, logs[reading.log], len(helpers))
        helpers.append(helper)
        return replace(reading, log=helper[0].vertex, filter=conjunction(()))

    step = task.step
    match step:
        case Pass(inputs):
            step = Pass(tuple(map(plain, inputs)))
        case JoinStep():
            step = replace(step, changes=plain(step.changes), relation=plain(step.relation))
        case AggregateStep():
            step = replace(step, input=plain(step.input))
        case DeriveStep():
            step = replace(
                step,
                inputs=tuple(
                    replace(
                        one,
                        changes=plain(one.changes),
                        contents=None if one.contents is None else plain(one.contents),
                    )
                    for one in step.inputs
                ),
            )
        case _:
            pass
    return step, helpers


def _helper(
    task: Task, reading: LogReading, timed: tuple[Expr, ...], source: LogSpec, number: int
) -> tuple[Task, LogSpec]:
    name = f"{task.vertex}{HELPER}{number}"
    rest = tuple(part for part in conjuncts(reading.filter) if is_deterministic(part))
    values: dict[str, Expr] = {column.name: Column(column.name, column.type) for column in source.columns}
    order = tuple(range(len(reading.order)))
    keys = () if reading.key is None else (reading.key,)
    spec = LogSpec(name, task.site, source.columns, keys, bool(keys))
    return _make_timed_task(spec, LogReading(source.name, values, order, conjunction(rest)), timed), spec


def _make_timed_task(spec: LogSpec, reading: LogReading, conditions: tuple[Expr, ...]) -> Task:
    fields = tuple(Field(name, value.type) for name, value in reading.values.items())
    state = LogSpec(spec.name + EVENTS, spec.site, event_fields(fields), (LookupKey((BUCKET,)),), True)
    return Task(spec.name, spec.site, TimedPass(reading, conditions, state.name), (reading.log,), state)


def _conditions_after(step: OperatorStep) -> tuple[Expr, ...]:
    """Conditions on time over what a step makes."""
    found: Expr | None = None
    if isinstance(step, JoinStep):
        found = step.residual
    elif isinstance(step, AggregateStep):
        found = step.aggregation.having
    return () if found is None else tuple(part for part in conjuncts(found) if not is_deterministic(part))


def _before_and_after(task: Task, spec: LogSpec, timed: tuple[Expr, ...]) -> Iterator[tuple[Task, LogSpec]]:
    """The vertex without its conditions on time, with the columns that these read, and the vertex itself."""
    name = task.vertex + BEFORE
    read = sorted({column for condition in timed for column in columns_of(condition)})
    step, extra, names = task.step, tuple[Field, ...](), dict[str, str]()
    if isinstance(step, JoinStep):
        values = {**step.changes.values, **step.relation.values}
        known = {column.name for column in spec.columns}
        extra = tuple(Field(column, values[column].type) for column in read if column not in known)
        rest = tuple(part for part in conjuncts(step.residual) if is_deterministic(part))
        step = replace(step, residual=conjunction(rest))
    else:
        assert isinstance(step, AggregateStep)
        types = {node.name: node.type for condition in timed for node in _find_columns(condition)}
        names = {column: f"h:{column}" for column in read}
        extra = tuple(Field(names[column], types[column]) for column in read)
        having = step.aggregation.having
        assert having is not None
        rest = tuple(part for part in conjuncts(having) if is_deterministic(part))
        outputs = (*step.outputs, *(Output(names[column], Column(column, types[column])) for column in read))
        aggregation = replace(step.aggregation, having=conjunction(rest) if rest else None)
        step = replace(step, aggregation=aggregation, outputs=outputs)
    columns = (*spec.columns, *extra)
    before = LogSpec(name, spec.site, columns)
    yield replace(task, vertex=name, step=step), before
    values = {column.name: Column(column.name, column.type) for column in columns}
    yield (
        _make_timed_task(spec, LogReading(name, values, ANY_ORDER), tuple(rename_columns(one, names) for one in timed)),
        spec,
    )


def _find_columns(expr: Expr) -> Iterator[Column]:
    return (node for node in walk(expr) if isinstance(node, Column))


def _find_reads(step: OperatorStep, task: Task) -> tuple[str, ...]:
    match step:
        case Pass(inputs):
            logs = [reading.log for reading in inputs]
        case JoinStep():
            logs = [step.changes.log, step.relation.log]
        case AggregateStep():
            logs = [step.input.log]
        case DeriveStep():
            logs = [r.log for one in step.inputs for r in (one.changes, one.contents) if r is not None]
        case _:
            return task.reads
    return tuple(dict.fromkeys(logs))
