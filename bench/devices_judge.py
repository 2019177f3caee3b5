"""Is what a running template said right? Its view at the end, and all that phones and apps were told on the way."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from bench.devices_oracle import Difference, Oracle, Result, find_difference, find_said_twice
from bench.devices_sessions import Heard, Record, Sessions
from bench.devices_world import EXPECTED, TRUE, DevicesWorld

SETTLED_WITHIN_S = 120.0
SLOWEST_S = 64.0
"""Pairs that need a row more seldom may have an older one at the end. All that is said of them must be true, too."""
LOOK_EVERY_S = 1.0
COLUMNS = ("a", "b", "mine", "theirs")


@dataclass(frozen=True, slots=True)
class Judged:
    """`settled_s` is how long the view took to be right after the last row; None if it never was. `slow` pairs may have
    older rows then, as they asked for.
    """

    rows: int
    slow: int
    settled_s: float | None
    heard: int
    changes: int
    wrong: tuple[str, ...]
    on_devices_s: tuple[float, ...]
    """Seconds from the later of two rows to the result, on the phone that computed it."""
    in_view_s: tuple[float, ...] = ()
    """The same for an app that follows the view."""


Followed = Sequence[tuple[float, int, Result]]
"""Changes of the view as an app heard of them: ms since 1970, 1 or -1, and the row."""


def judge_template(world: DevicesWorld, sessions: Sessions, followed: Followed = ()) -> Judged:
    """Stops the rows, waits until the view is what DuckDB says, and looks at everything that was said before."""
    sessions.pause()
    record = sessions.look()
    assert world.phones is not None
    friends = pa.table({"uid": world.phones.a, "friend": world.phones.b})
    oracle = Oracle({"location": record.published}, {"friends": friends})
    try:
        expected = oracle.ask(EXPECTED.format(rows="location"))
        slow = _find_slow(world)
        settled_s, difference = _await_equal(world, expected, slow)
        wrong = [] if settled_s is not None else [f"the view is not what SQL says: {difference.say()}"]
        wrong += _find_wrong_results(oracle, record.heard)
        changes = world.changes()
        wrong += _find_wrong_changes(oracle, changes)
        on_devices_s = _find_times(record, ((one.heard_ms, one.weight, (*one.pair, *one.row)) for one in record.heard))
        in_view_s = _find_times(record, followed)
        counts = len(expected), len(slow), settled_s, len(record.heard), len(changes)
        return Judged(*counts, tuple(wrong), tuple(on_devices_s), tuple(in_view_s))
    finally:
        oracle.close()


def _find_slow(world: DevicesWorld) -> frozenset[Result]:
    assert world.phones is not None
    every = np.maximum(world.phones.every_a, world.phones.every_b)
    return frozenset(pair for pair, longest_s in zip(world.phones.pairs, every, strict=True) if longest_s > SLOWEST_S)


def _await_equal(
    world: DevicesWorld, expected: Sequence[Result], slow: frozenset[Result]
) -> tuple[float | None, Difference]:
    began = time.monotonic()
    wanted = [row for row in expected if row[:2] not in slow]
    while True:
        difference = find_difference(wanted, [row for row in world.show() if row[:2] not in slow])
        passed_s = time.monotonic() - began
        if not difference:
            return passed_s, difference
        if passed_s > SETTLED_WITHIN_S:
            return None, difference
        time.sleep(LOOK_EVERY_S)


def _find_wrong_results(oracle: Oracle, heard: Sequence[Heard]) -> Iterable[str]:
    untrue = oracle.find_untrue(TRUE, COLUMNS, ((*one.pair, *one.row) for one in heard if one.weight > 0))
    if untrue:
        yield f"{len(untrue)} results of phones are true of no rows, such as {untrue[0]}"
    by_phone: dict[int, list[tuple[int, Result]]] = defaultdict(list)
    for one in heard:
        by_phone[one.phone].append((one.weight, (*one.pair, *one.row)))
    twice = [row for changes in by_phone.values() for row in find_said_twice(changes)]
    if twice:
        yield f"{len(twice)} results of phones came twice or went before they came, such as {twice[0]}"


def _find_wrong_changes(oracle: Oracle, changes: Sequence[tuple[int, Result]]) -> Iterable[str]:
    untrue = oracle.find_untrue(TRUE, COLUMNS, (row for weight, row in changes if weight > 0))
    if untrue:
        yield f"{len(untrue)} rows of the view were true of no rows, such as {untrue[0]}"
    twice = find_said_twice(changes)
    if twice:
        yield f"{len(twice)} rows of the view came twice or went before they came, such as {twice[0]}"


def _find_times(record: Record, heard: Iterable[tuple[float, int, Result]]) -> Iterable[float]:
    at_ms = record.at_ms
    for heard_ms, weight, (a, b, mine, theirs) in heard:
        made = at_ms.get((a, mine)), at_ms.get((b, theirs))
        if weight > 0 and made[0] is not None and made[1] is not None:
            yield (heard_ms - max(made[0], made[1])) / 1000
