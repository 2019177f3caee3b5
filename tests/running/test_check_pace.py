"""When copies are checked: each in its turn, and all together at a bounded share of a core."""

from __future__ import annotations

import itertools

from headrace.site.deliver.check_pace import EVERY_S, SHARE, CheckPace


def run(pace: CheckPace, copies: dict[str, float], seconds: int) -> dict[str, list[float]]:
    """When each copy was checked, by a thread for each that looks every second; what a check takes, by copy."""
    found: dict[str, list[float]] = {copy: [] for copy in copies}
    for copy in copies:
        pace.add(copy)
    for now in range(1, seconds):
        for copy, took_s in copies.items():
            if pace.take_turn(copy, float(now)):
                pace.end_turn(took_s, now + took_s)
                found[copy].append(float(now))
    return found


def test_a_small_copy_is_checked_every_few_seconds() -> None:
    (times,) = run(CheckPace(), {"small": 0.003}, 61).values()
    assert [later - earlier for earlier, later in itertools.pairwise(times)] == [EVERY_S] * 11


def test_many_copies_and_large_ones_take_no_more_than_their_share() -> None:
    copies = {f"copy {number}": 0.004 for number in range(24)} | {"large": 1.0}
    found = run(CheckPace(), copies, 3_000)
    assert sum(len(times) * copies[name] for name, times in found.items()) <= 1.1 * SHARE * 3_000
    counts = {len(times) for times in found.values()}
    assert min(counts) >= 10 and max(counts) - min(counts) <= 1, "each gets its turn"


def test_a_copy_that_cannot_be_checked_or_never_comes_back_holds_up_no_other() -> None:
    pace = CheckPace()
    for copy in ("hangs", "down", "fine"):
        pace.add(copy)
    assert pace.take_turn("hangs", 1.0) and not pace.take_turn("fine", 2.0)
    pace.put_off("down", 2.0)
    assert pace.take_turn("fine", 12.0)
    pace.end_turn(0.001, 12.0)
    assert not pace.take_turn("fine", 13.0) and pace.take_turn("fine", 18.0)
    pace.forget("fine")
    assert not pace.take_turn("fine", 60.0)
