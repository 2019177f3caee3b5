"""How a delta is made, for those who build the graph of a chosen plan.

Sites and rows are numbers of the search's tables.
"""

from __future__ import annotations

from typing import NamedTuple


class StandingDelta(NamedTuple):
    """The delta lives at this site already."""

    site: int


class CapturedDelta(NamedTuple):
    """The changes of a source, at its home."""

    bit: int


class Supplied(NamedTuple):
    """A row of the deltas of an earlier block."""

    bit: int
    row: int


class Joined(NamedTuple):
    """Both terms, made at the sites of the sides' states, united at `site`.

    Sides are rows of the search's tables.
    """

    left: int
    right: int
    left_side: int
    right_side: int
    site: int


class JoinedOnce(NamedTuple):
    """Only the changes of one side, because the other never changes.

    `delta` and `state` are rows of the search's tables.
    """

    changed: int
    fixed: int
    delta: int
    state: int
    site: int


class Aggregated(NamedTuple):
    """Row `delta` of the core's deltas, brought to `site` and aggregated there."""

    delta: int
    site: int


class MergedAggregate(NamedTuple):
    """Both terms of the last join aggregated where they arise, united and merged at `site`."""

    left: int
    right: int
    left_side: int
    right_side: int
    site: int


class Derived(NamedTuple):
    """One row per input at `site`: of the states, or for union all of the deltas."""

    rows: tuple[int, ...]
    site: int
