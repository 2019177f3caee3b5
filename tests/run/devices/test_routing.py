"""Whatever comes and goes, a taker ends up with what its senders sent last, and is not told too often."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headrace.model.device_messages import NO_MORE, Sent
from headrace.run.devices.routing import COALESCE_S, Routing, RowsDue

DEVICES = ("1", "2", "3")
STREAMS = ("location", "visits")
KEEP = "visits"
EVERY_S = (0.0, 0.5, 3.0)
SETTLED_S = 10.0


@dataclass
class World:
    """A simple model beside the routing: what was sent, and what each taker has got. Rows on their way are never lost,
    but a taker that is away gets nothing.
    """

    routing: Routing = field(default_factory=Routing)
    now_s: float = 0.0
    sent: dict[tuple[str, str], list[Sent]] = field(default_factory=lambda: defaultdict(list))
    takes: dict[str, dict[tuple[str, str], float]] = field(default_factory=lambda: defaultdict(dict))
    away: set[str] = field(default_factory=set)
    got: dict[tuple[str, tuple[str, str]], list[Sent]] = field(default_factory=lambda: defaultdict(list))
    told_s: dict[tuple[str, tuple[str, str]], list[float]] = field(default_factory=lambda: defaultdict(list))
    messages: list[tuple[float, str]] = field(default_factory=list)

    def send(self, device: str, stream: str) -> None:
        rows = self.sent[device, stream]
        rows.append(Sent(len(rows) + 1, 0, ((len(rows),),)))
        self.routing.accept(device, stream, rows[-1:], stream == KEEP, self.now_s)

    def take(self, taker: str, takes: dict[tuple[str, str], float]) -> None:
        for key in self.takes[taker].keys() - takes.keys():  # it forgets what it no longer takes
            self.got.pop((taker, key), None)
            self.told_s.pop((taker, key), None)
        self.takes[taker] = takes
        self.routing.set_takes(taker, takes, self.now_s)

    def leave(self, taker: str) -> None:
        self.away.add(taker)
        self.routing.note_away(taker)

    def come_back(self, taker: str, has_no_memory: bool) -> None:
        self.away.discard(taker)
        if has_no_memory:
            for key in [key for key in self.got if key[0] == taker]:
                del self.got[key]
        self.routing.note_back(taker, self.now_s, has_no_memory)

    def wait(self, seconds: float) -> None:
        until = self.now_s + seconds
        while True:
            due_s = self.routing.next_due_s()
            if due_s is None or due_s > until:
                break
            self.now_s = max(self.now_s, due_s)
            for delivery in self.routing.take_due(self.now_s):
                self._deliver(delivery)
        self.now_s = until

    def _deliver(self, delivery: RowsDue) -> None:
        taker = delivery.taker
        assert taker not in self.away, "nothing is sent to a device that is away"
        self.messages.append((self.now_s, taker))
        found = [((one.device, one.stream), [one.sent]) for one in delivery.rows if one.sent != NO_MORE]
        for none in (one for one in delivery.rows if one.sent == NO_MORE):
            assert not self.sent[none.device, none.stream], "there is something"
        for one in delivery.history:
            key = one.device, one.stream
            found.append((key, [row for row in self.sent[key] if row.seq > one.after]))
        for key in {key for key, _ in found}:
            self.told_s[taker, key].append(self.now_s)
        for key, rows in found:
            assert key in self.takes[taker], "nothing is sent that a device does not take"
            self.got[taker, key].extend(rows)


def pairs():
    return st.tuples(st.sampled_from(DEVICES), st.sampled_from(STREAMS))


SENDS = st.tuples(st.just("send"), pairs())
WAITS = st.tuples(st.just("wait"), st.sampled_from((0.05, 0.2, 1.0, 4.0)))
MOVES = st.one_of(
    st.tuples(st.just("leave"), st.sampled_from(DEVICES)),
    st.tuples(st.just("back"), st.tuples(st.sampled_from(DEVICES), st.booleans())),
    st.tuples(st.just("renew"), st.none()),
)
TAKES = st.dictionaries(pairs(), st.sampled_from(EVERY_S))
NEW_TAKES = st.tuples(st.just("take"), st.tuples(st.sampled_from(DEVICES), TAKES))
FIRST = st.tuples(TAKES, TAKES, TAKES)


def play(first, steps) -> World:
    world = World()

    def take(taker: str, takes: dict[tuple[str, str], float]) -> None:
        world.take(taker, {key: every for key, every in takes.items() if key[0] != taker})

    for taker, takes in zip(DEVICES, first, strict=True):
        take(taker, takes)
    for kind, said in steps:
        match kind:
            case "send":
                world.send(*said)
            case "take":
                take(*said)
            case "leave":
                world.leave(said)
            case "back":
                world.come_back(*said)
            case "renew":
                world.routing.renew_all(world.now_s)
            case "wait":
                world.wait(said)
    for device in tuple(world.away):
        world.come_back(device, False)
    world.wait(SETTLED_S)
    return world


@given(FIRST, st.lists(st.one_of(SENDS, SENDS, WAITS, WAITS, MOVES, NEW_TAKES), max_size=40))
def test_after_settling_every_taker_has_what_its_senders_sent_last(first, steps):
    world = play(first, steps)
    for taker, takes in world.takes.items():
        for key in takes:
            sent, got = world.sent[key], world.got[taker, key]
            if key[1] == KEEP:
                assert {row.seq for row in got} == {row.seq for row in sent}, "all kept rows"
            elif sent:
                assert got[-1] == sent[-1], "the newest row"


@given(FIRST, st.lists(st.one_of(SENDS, SENDS, WAITS, MOVES), max_size=40))
def test_no_taker_is_told_more_often_than_it_asks(first, steps):
    world = play(first, steps)
    for (taker, key), times in world.told_s.items():
        every_s = world.takes[taker][key]
        assert all(later - at >= every_s - 1e-9 for at, later in pairwise(times))


@given(st.lists(st.one_of(SENDS, SENDS, WAITS), max_size=40))
def test_rows_for_one_device_go_together(steps):
    takes = {(device, stream): 0.0 for device in DEVICES for stream in STREAMS}
    world = play((takes, takes, takes), steps)
    for taker in DEVICES:
        times = [at for at, who in world.messages if who == taker]
        assert all(later - at >= COALESCE_S - 1e-9 for at, later in pairwise(times))


@given(st.lists(st.tuples(st.just("send"), st.just(("1", "location"))), min_size=1, max_size=30))
def test_of_a_latest_row_stream_only_the_newest_of_a_moment_goes_down(sends):
    world = World()
    world.take("2", {("1", "location"): 0.0})
    for _, said in sends:
        world.send(*said)
    world.wait(1.0)
    assert [row.seq for row in world.got["2", ("1", "location")]] == [len(sends)]


def test_a_new_taker_gets_the_newest_row_and_the_kept_history():
    world = World()
    for _ in range(3):
        world.send("1", "location")
        world.send("1", KEEP)
    world.take("2", {("1", "location"): 0.0, ("1", KEEP): 0.0})
    world.wait(1.0)
    assert [row.seq for row in world.got["2", ("1", "location")]] == [3]
    assert [row.seq for row in world.got["2", ("1", KEEP)]] == [1, 2, 3]
    assert len(world.messages) == 1


def test_a_router_that_starts_again_sends_history_from_where_it_was():
    routing = Routing()
    row = Sent(7, 0, ((1,),))
    routing.load({("1", KEEP): row, ("1", "location"): row}, [("1", KEEP)], {("2", ("1", KEEP)): 5})
    routing.set_takes("2", {("1", KEEP): 0.0, ("1", "location"): 0.0}, 0.0)
    (delivery,) = routing.take_due(1.0)
    assert [one.sent for one in delivery.rows] == [row]
    assert [(one.device, one.stream, one.after) for one in delivery.history] == [("1", KEEP, 5)]
    assert delivery.sent == ((("1", KEEP), 7),)


def test_work_per_message_does_not_grow_with_devices_that_do_not_take_it():
    """10,000 devices in pairs: a row touches one link."""
    routing = Routing()
    for number in range(10_000):
        routing.set_takes(str(number), {(str(number ^ 1), "location"): 0.0}, 0.0)
    assert len(routing.take_due(1.0)) == 10_000, "all are told that there is nothing yet"
    routing.accept("17", "location", [Sent(1, 0, ((1,),))], False, 1.0)
    assert [delivery.taker for delivery in routing.take_due(2.0)] == ["16"]
    assert routing.next_due_s() is None
