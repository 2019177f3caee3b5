"""Work that can wait goes between pushes: at once where there is room, and after a while in any case."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import pytest

from headrace.site.gaps import LARGE_PATIENCE_S, LONGEST_S, PATIENCE_S, Gaps, LargePieces


@dataclass
class Turning:
    """A clock that goes on by a little whenever it is read, so that whoever waits comes to an end."""

    now: float = 100.0
    tick: float = 0.05

    def __call__(self) -> float:
        self.now += self.tick
        return self.now


@dataclass
class Waiting:
    """Waits for a gap; `waited_s` by the clock of the test."""

    clock: Turning = field(default_factory=Turning)

    def __post_init__(self) -> None:
        self.gaps = Gaps(self.clock)

    def waited_s(self) -> float:
        began = self.clock.now
        self.gaps.wait(threading.Event())
        return self.clock.now - began


def test_it_starts_at_once_where_no_push_comes_before_it_is_done():
    waiting = Waiting()
    waiting.gaps.expect_push(5.0)
    assert waiting.waited_s() < 0.5


def test_it_waits_for_a_while_when_a_push_comes_soon():
    waiting = Waiting()
    waiting.gaps.expect_push(0.2)
    assert waiting.waited_s() == pytest.approx(PATIENCE_S, abs=0.5)


def test_it_waits_for_a_push_to_end_and_goes_beside_it_if_that_never_ends():
    waiting = Waiting()
    with waiting.gaps.pushing():
        assert waiting.waited_s() == pytest.approx(2 * PATIENCE_S, abs=0.5)


def test_a_push_that_ends_lets_it_start():
    gaps, started = Gaps(), threading.Event()

    def wait() -> None:
        gaps.wait(threading.Event())
        started.set()

    with gaps.pushing():
        thread = threading.Thread(target=wait)
        thread.start()
        gaps_open = started.is_set()
    gaps.expect_push(60.0)
    thread.join(60.0)
    assert not gaps_open and started.is_set()


def test_nothing_is_waited_for_when_all_ends():
    stop = threading.Event()
    stop.set()
    waiting = Waiting()
    with waiting.gaps.pushing():
        waiting.gaps.wait(stop)
    assert waiting.clock.now < 101.0


def test_work_that_takes_longer_needs_more_room_up_to_a_limit():
    waiting = Waiting()
    for _ in range(20):
        waiting.gaps.learn(0.9)
    waiting.gaps.expect_push(0.7)
    assert waiting.waited_s() > 1.0
    for _ in range(20):
        waiting.gaps.learn(30.0)
    waiting.gaps.expect_push(LONGEST_S + 0.5)
    assert waiting.waited_s() < 0.5


def test_a_large_piece_waits_for_a_gap_of_its_size_but_not_for_ever() -> None:
    clock = Turning(tick=0.0)
    gaps = Gaps(clock)
    large = LargePieces(gaps, byte_s=1e-8)
    gaps.expect_push(2.0)
    assert large.may_start(50_000_000) and large.may_start(150_000_000), "half a second, and a second and a half"
    assert not large.may_start(400_000_000), "four seconds, and the next push comes in two"
    gaps.expect_push(5.0)
    assert large.may_start(400_000_000)
    with gaps.pushing():
        assert large.may_start(50_000_000) and not large.may_start(150_000_000)
        clock.now += LARGE_PATIENCE_S
        assert large.may_start(400_000_000), "logs that are never merged make every push slower"
        large.learn(400_000_000, 4.0)
        assert not large.may_start(400_000_000), "the next waits as long"


def test_what_pieces_take_is_learnt_from_those_that_are_large() -> None:
    large = LargePieces(Gaps(Turning()), byte_s=1e-8)
    large.learn(1000, 5.0)
    assert large.byte_s == 1e-8
    for _ in range(50):
        large.learn(100_000_000, 3.0)
    assert large.byte_s == pytest.approx(3e-8, rel=0.01)
