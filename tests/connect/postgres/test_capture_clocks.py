"""Capture from a PostgreSQL whose clock is wrong, and jumps: commit times are ours, and nothing is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headrace.connect.files import FileStore
from headrace.connect.ledger.ledger import SqlLedger
from headrace.connect.ledger.sqlite import open_sqlite
from headrace.connect.postgres.capture import Capture
from headrace.connect.postgres.capture_settings import CaptureSettings
from headrace.connect.postgres.checkup import check_up
from headrace.model.errors import ConnectError
from headrace.model.types import INT
from headrace.run.capture.clock import clock_now
from headrace.run.capture.spool import CapturedTable
from tests.connect.postgres.spools import bag, contents_now, spool_rows
from tests.shifted_clock import HOUR_S, ShiftedClock

NUMBERS = CapturedTable("numbers", "us", "numbers", (("k", INT),), ("k",))
CLOSE_US = 500_000
"""On a busy machine; answers take a millisecond."""


@dataclass
class Place:
    dsn: str
    folder: Path
    connection: psycopg.Connection[Any]
    ledger: SqlLedger
    store: FileStore
    ends: ExitStack

    @property
    def settings(self) -> CaptureSettings:
        return CaptureSettings("test", "main", self.dsn, (NUMBERS,), self.folder / "scratch")

    def capture(self) -> Capture:
        return self.ends.enter_context(closing(Capture(self.settings, self.ledger, self.store)))

    def insert(self, number: int) -> tuple[int, int]:
        """Our times before and after the commit."""
        before = clock_now()
        self.connection.execute("INSERT INTO numbers VALUES (%s)", [number])
        return before, clock_now()

    def committed_at(self, number: int) -> int:
        """The commit time that was captured for a row; its transaction is the first or last of a batch."""
        (t,) = [row["__t"] for row in spool_rows(NUMBERS, self.ledger, self.store) if row["k"] == number]
        return next(mark.commit_time for mark in self.ledger.commit_marks("main", t - 1, 1))

    def off_us(self, number: int, between: tuple[int, int]) -> int:
        """How far the captured commit time of a row is outside of where it was."""
        at = self.committed_at(number)
        return max(between[0] - at, at - between[1], 0)

    @property
    def is_complete(self) -> bool:
        rows = self.connection.execute("SELECT k FROM numbers").fetchall()
        return contents_now(NUMBERS, self.ledger, self.store) == bag(rows)


@pytest.fixture
def place(shifted_dsn: str, tmp_path: Path) -> Iterator[Place]:
    ledger = open_sqlite(tmp_path / "ledger.db")
    with psycopg.connect(shifted_dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE numbers (k int PRIMARY KEY)")
        with ExitStack() as ends:
            yield Place(shifted_dsn, tmp_path, connection, ledger, FileStore(tmp_path / "files"), ends)
    ledger.close()


def test_the_server_sees_the_clock_that_is_set(place: Place, clock: ShiftedClock):
    for ahead in (HOUR_S, 0.0, -HOUR_S):
        clock.set(ahead)
        assert abs(check_up(place.dsn, "none").ahead_s - ahead) < 1.0


@pytest.mark.parametrize("ahead", [HOUR_S, -HOUR_S])
def test_commit_times_are_ours_and_show_the_delay_of_the_capture(place: Place, clock: ShiftedClock, ahead: float):
    clock.set(ahead)
    capture = place.capture()
    capture.catch_up()
    inserted = place.insert(1)
    later = time.monotonic() + 2 * CLOSE_US / 1e6
    while time.monotonic() < later:  # nobody captures
        place.connection.execute("SELECT pg_sleep(0.1)")
    capture.catch_up()
    capture.close()
    assert place.is_complete
    assert place.off_us(1, inserted) < CLOSE_US


@pytest.mark.parametrize("jump", [HOUR_S, -HOUR_S])
def test_a_clock_that_jumps_between_transactions_shows_neither_in_commit_times_nor_in_times(
    place: Place, clock: ShiftedClock, jump: float
):
    """A server whose clock jumps ahead may take us for silent, and end the stream; capture then starts anew."""
    capture = place.capture()
    times, committed = [capture.catch_up().t], []
    for number in range(8):
        if number == 3:
            clock.set(jump)
        committed.append(place.insert(number))
        try:
            times.append((capture.catch_up() if number != 3 else capture.step(0.2)).t)
        except ConnectError:
            assert jump > 0 and number >= 3
            capture.close()
            capture = place.capture()
            times.append(capture.catch_up().t)
    capture.close()
    again = place.capture()
    committed.append(place.insert(8))
    times.append(again.catch_up().t)
    again.close()
    assert place.is_complete
    assert times == sorted(times)
    for number, between in enumerate(committed):
        assert place.off_us(number, between) < CLOSE_US + 1_000_000 * (number == 3), number


def test_what_was_committed_before_a_jump_and_is_read_after_it_is_not_older_than_the_last_capture(
    place: Place, clock: ShiftedClock
):
    capture = place.capture()
    last = capture.catch_up()
    capture.close()
    place.insert(1)
    clock.set(HOUR_S)
    again = place.capture()
    again.catch_up()
    again.close()
    assert place.committed_at(1) >= last.t - CLOSE_US


def test_views_over_two_databases_go_on_although_our_clock_was_put_back(place: Place):
    """Each capture gives times just after its last one then; the one that is behind must not stay behind."""
    now = [clock_now()]
    ledger, store = place.ledger, place.store
    one = Capture(place.settings, ledger, store, now=lambda: now[0])
    other_table = CapturedTable("others", "eu", "numbers", (("k", INT),), ("k",))
    settings = CaptureSettings("test", "second", place.dsn, (other_table,), place.folder / "scratch")
    two = Capture(settings, ledger, store, now=lambda: now[0])
    try:
        two.catch_up()
        now[0] += 10_000_000
        one.catch_up()
        now[0] -= 3600_000_000
        place.insert(1)
        reached = one.catch_up().t
        assert two.catch_up().t >= reached
        assert place.committed_at(1) <= now[0]
    finally:
        one.close()
        two.close()
