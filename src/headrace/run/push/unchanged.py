"""Finds steps that only pass rows on: their logs can name the files of their inputs instead of writing new ones."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.model.expr import TRUE, Column
from headrace.run.program import LogReading, LogSpec, OperatorStep, Pass


def hands_on(step: OperatorStep, log: LogSpec, specs: Mapping[str, LogSpec]) -> bool:
    """Whether every row of the inputs becomes a row of the log as it is, all in one place.

    Columns may have another order: a reader of a log asks for them by name.
    """
    return isinstance(step, Pass) and all(_is_same(reading, log, specs[reading.log]) for reading in step.inputs)


def _is_same(reading: LogReading, log: LogSpec, input_: LogSpec) -> bool:
    renamed = any(not isinstance(value, Column) or value.name != name for name, value in reading.values.items())
    return (
        not renamed
        and log.site == input_.site
        and set(log.columns) == set(input_.columns)
        and reading.filter == TRUE
        and reading.order == tuple(range(len(reading.order)))
    )
