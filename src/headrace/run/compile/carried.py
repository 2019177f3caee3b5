"""Which sources the rows of a log carry columns of, read from the steps that make it.

A site asks this before it gives a log away: what a step computes cannot be mislabelled. A source that only decides
which rows there are, as the other side of a semi-join may, is not carried. Sources of other sites are theirs to judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from headrace.model.catalogue import Stays
from headrace.model.expr import columns_of
from headrace.run.program import (
    AggregateStep,
    DeriveStep,
    Ingest,
    JoinStep,
    LogReading,
    Pass,
    Program,
    RecomputeStep,
    SiteCopy,
    TimedPass,
)


@dataclass(frozen=True, slots=True, order=True)
class CarriedSource:
    """A source that rows carry columns of; `aggregated` if these are aggregates alone."""

    spool: str
    aggregated: bool = False


@dataclass(frozen=True, slots=True)
class CarriedSources:
    """What a site's program computes, with logs that other sites have of it."""

    program: Program
    _known: dict[tuple[str, str], frozenset[CarriedSource]] = field(default_factory=dict)

    def find(self, copy: SiteCopy) -> frozenset[CarriedSource]:
        """What another site gets of this one's own sources if it reads a copy."""
        assert isinstance(copy.task.step, Pass), f'"{copy.name}" is no copy'
        names = [one.name for one in copy.spec.columns]
        return _join(self._of_readings(copy.task.step.inputs, name) for name in names)

    def _of_column(self, log: str, column: str) -> frozenset[CarriedSource]:
        # Nothing is noted before it is computed: requests come in several threads, and one that read "nothing"
        # meanwhile would let rows out that must stay. A step never reads what it makes, so this ends.
        asked = log, column
        if asked not in self._known:
            self._known[asked] = self._compute(log, column)
        return self._known[asked]

    def _compute(self, log: str, column: str) -> frozenset[CarriedSource]:
        task = self.program.tasks.get(log)
        if task is None:
            return frozenset()  # of another site
        step = task.step
        match step:
            case Ingest():
                return frozenset((CarriedSource(step.spool),))
            case Pass():
                return self._of_readings(step.inputs, column)
            case TimedPass():
                return self._of_readings((step.input,), column)
            case JoinStep():
                return self._of_readings((step.changes, step.relation), column)
            case AggregateStep():
                # What a merge reads is aggregated before; planned columns are all that a full or partial one reads.
                return frozenset(replace(one, aggregated=True) for one in self._of_all((step.input,)))
            case DeriveStep():
                return self._of_all([one.changes for one in step.inputs])
            case RecomputeStep():
                return self._of_all(step.inputs.values())
            case _:
                assert_never(step)

    def _of_readings(self, readings: Iterable[LogReading], column: str) -> frozenset[CarriedSource]:
        """Columns of a log are made by those of the same name; if none is, by any."""
        there = tuple(readings)
        made = [one for one in there if column in one.values]
        if not made:
            return self._of_all(there)
        return _join(self._of_column(one.log, name) for one in made for name in columns_of(one.values[column]))

    def _of_all(self, readings: Iterable[LogReading]) -> frozenset[CarriedSource]:
        return _join(
            self._of_column(one.log, name)
            for one in readings
            for value in one.values.values()
            for name in columns_of(value)
        )


def find_bound(carried: Iterable[CarriedSource], stays: Mapping[str, Stays], site: str) -> str | None:
    """The spool of a source whose rows may not be at a site, if what is carried holds any. `stays` is by spool."""
    for one in sorted(carried):
        bound = stays.get(one.spool)
        may_leave = bound is None or site in bound.sites or (one.aggregated and bound.aggregates_anywhere)
        if not may_leave:
            return one.spool
    return None


def _join(found: Iterable[frozenset[CarriedSource]]) -> frozenset[CarriedSource]:
    return frozenset(one for some in found for one in some)
