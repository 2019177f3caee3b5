"""Of numbered rows none is lost and none is taken twice, whatever is lost or comes again on the way."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from headrace.model.device_messages import Sent
from headrace.run.devices.numbers import UNSURE_S, LastNumber, RowNumbers

RESEND_S = 15.0


def rows(*numbers: int, at_ms: int | None = None) -> list[Sent]:
    return [Sent(number, number if at_ms is None else at_ms, ((number,),)) for number in numbers]


def take(numbers: RowNumbers, *given: int, now_s: float = 1e9, at_ms: int | None = None) -> list[int]:
    return [row.seq for row in numbers.take_next("1", "visits", rows(*given, at_ms=at_ms), now_s)[0]]


class Sender:
    """A device as it sends: in order, and after a while again from the oldest that is not acknowledged."""

    def __init__(self, step: int) -> None:
        self.made, self.step = 0, step
        self.waiting: list[int] = []
        self.sent_up_to = 0
        self.waits_since_s: float | None = None

    def make(self) -> None:
        self.made += self.step
        self.waiting.append(self.made)

    def acknowledge(self, seq: int) -> None:
        self.waiting = [one for one in self.waiting if one > seq]
        if not self.waiting:
            self.waits_since_s = None

    def start_again(self) -> None:
        self.sent_up_to, self.waits_since_s = 0, None

    def send(self, most: int, now_s: float) -> list[int]:
        if self.waits_since_s is not None and now_s - self.waits_since_s >= RESEND_S:
            self.start_again()
        found = [one for one in self.waiting if one > self.sent_up_to][:most]
        self.sent_up_to = max([self.sent_up_to, *found])
        if found and self.waits_since_s is None:
            self.waits_since_s = now_s
        return found


STEPS = st.lists(
    st.sampled_from(("make", "make", "send", "send", "lose", "crash", "twice", "acknowledge", "pass")), max_size=60
)


@example(["make", "make", "lose", "twice", "acknowledge"], 1, 1)
@given(STEPS, st.integers(1, 3), st.integers(1, 4))
def test_every_row_is_taken_once_and_in_order(steps, step, most):
    """`lose`: what is sent is on its way while the router ends, with whatever was taken and not committed."""
    sender, numbers, now_s = Sender(step), RowNumbers(), 0.0
    committed: dict[tuple[str, str], LastNumber] = {}
    taken: list[int] = []
    kept = 0

    def deliver(body: list[int]) -> None:
        taken.extend(take(numbers, *body, now_s=now_s) if body else [])

    def commit() -> int:
        last = numbers.last("1", "visits")
        if last.seq:
            committed["1", "visits"] = last
        return len(taken)

    for word in [*steps, "crash", *(["pass", "send", "acknowledge"] * 80)]:
        if word == "make":
            sender.make()
        elif word == "send":
            deliver(sender.send(most, now_s))
        elif word == "twice":
            body = sender.send(most, now_s)
            deliver(body)
            deliver(body)
        elif word == "acknowledge":
            kept = commit()
            sender.acknowledge(numbers.last("1", "visits").seq)
        elif word == "pass":
            now_s += 5.0
        else:
            if word == "lose":
                sender.send(most, now_s)
            del taken[kept:]
            numbers = RowNumbers(committed)
            numbers.doubt(now_s)
    assert taken == list(range(step, sender.made + 1, step))
    assert sender.waiting == []


def test_a_gap_is_believed_at_once_while_the_connection_lasts():
    numbers = RowNumbers({("1", "visits"): LastNumber(3, 3)})
    numbers.doubt(0.0)
    assert take(numbers, 4, now_s=1.0) == [4], "nothing can be missing"
    assert take(numbers, 9, now_s=2.0) == [], "5 to 8 may have been lost"
    assert take(numbers, 10, now_s=3.0) == []
    assert take(numbers, 9, 10, now_s=17.0) == [9, 10], "it has no others"
    assert take(numbers, 20, now_s=UNSURE_S + 1) == [20]


def test_what_was_lost_comes_before_what_came_since():
    numbers = RowNumbers({("1", "visits"): LastNumber(3, 3)})
    numbers.doubt(0.0)
    assert take(numbers, 9, now_s=2.0) == []
    assert take(numbers, 5, 9, now_s=17.0) == [5, 9]


def test_of_latest_rows_the_highest_number_wins():
    numbers = RowNumbers()
    assert [row.seq for row in numbers.take_newest("1", "location", rows(3, 5, 4))[0]] == [5]
    assert numbers.take_newest("1", "location", rows(5)) == ([], False)
    assert numbers.take_newest("1", "location", rows(2)) == ([], False)
    assert [row.seq for row in numbers.take_newest("1", "location", rows(9))[0]] == [9]


def test_a_device_without_memory_counts_anew_but_a_repeated_row_does_not():
    numbers = RowNumbers({("1", "visits"): LastNumber(50, 5000), ("1", "location"): LastNumber(80, 5000)})
    assert take(numbers, 1, 2, at_ms=6000) == [], "nobody said that it has lost its memory"
    numbers.lose_memory("1")
    assert take(numbers, 49, 50, at_ms=4000) == [], "a row that only comes again"
    numbers.lose_memory("1")
    assert numbers.take_next("1", "visits", rows(1, 2, at_ms=6000), 1e9) == (rows(1, 2, at_ms=6000), True)
    assert numbers.take_newest("1", "location", rows(3, at_ms=6000)) == (rows(3, at_ms=6000), True)
    assert take(numbers, 3, at_ms=6000) == [3]
    assert numbers.last("1", "location").seq == 3


def test_a_device_that_lost_its_memory_begins_at_the_time_also_after_a_gap():
    numbers = RowNumbers()
    numbers.take_next("1", "r/near", rows(1000, 1001), 0.0)
    numbers.doubt(100.0)
    numbers.lose_memory("1")
    assert numbers.take_next("1", "r/near", rows(50000), 101.0) == ([], False), "something may be missing"
    assert numbers.take_next("1", "r/near", rows(50000, 50001), 116.0) == (rows(50000, 50001), True)
    assert numbers.take_next("1", "r/near", rows(50002), 117.0) == (rows(50002), False)
