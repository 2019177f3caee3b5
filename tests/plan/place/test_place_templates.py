"""Pairs of templates placed from columns: optimal, and devices do exactly what their pairs need."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.plan.place.duties import duties_of, find_duties, measure_traffic
from headrace.plan.place.pair_columns import DeviceFacts, PairRows, TemplateDemand, number_pairs
from headrace.plan.place.pairs import AT_A, AT_B, IN_CLOUD
from headrace.plan.place.place_templates import place_templates

ANY = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def demand(name, pairs, streams=None, tables=(), **every) -> TemplateDemand:
    a = np.array([pair[0] for pair in pairs], np.int32)
    b = np.array([pair[1] for pair in pairs], np.int32) if streams is None or "b" in streams else None
    seconds = {side: np.asarray(one, np.float64) for side, one in every.items()}
    rows = PairRows(a, b, seconds, np.arange(len(pairs)))
    return TemplateDemand(name, rows, streams or {"a": ("place",), "b": ("place",)}, tables)


def facts(rates, up=1.0, down=1.0, **more) -> DeviceFacts:
    rates = rates if isinstance(rates, dict) else {"place": rates}
    count = len(next(iter(rates.values())))
    return DeviceFacts(count, up, down, {name: np.asarray(one, np.float64) for name, one in rates.items()}, **more)


def traffic(wanted, places, devices):
    return measure_traffic(find_duties(wanted, places, devices.count), devices)


def every_placement(wanted):
    """All there are: a pair runs at a, at b or in the cloud."""
    choices = [
        (IN_CLOUD, AT_A) if one.rows.b is None else (IN_CLOUD, AT_A, AT_B)
        for one in wanted
        for _ in range(len(one.rows))
    ]
    cuts = np.cumsum([len(one.rows) for one in wanted])[:-1]
    for found in itertools.product(*choices):
        yield np.split(np.array(found, np.uint8), cuts)


def test_alice_and_bob():
    """Two messages an hour instead of 361 (RACE, section 1)."""
    wanted, devices = [demand("near", [(0, 1)])], facts([1.0, 360.0])
    placed = place_templates(wanted, devices)
    assert placed.where[0].tolist() == [AT_B]
    assert traffic(wanted, placed.where, devices).messages == 2
    in_cloud = traffic(wanted, [np.array([IN_CLOUD], np.uint8)], devices)
    assert (in_cloud.messages_up, in_cloud.messages_down) == (361, 0)
    found = duties_of(find_duties(wanted, placed.where, 2), [0, 1])
    assert found[0] == ((("place", 0.0),), (), (), ())
    assert found[1] == ((), (("place", 0, 0.0),), (), (("near", "b", (0,)),))


PAIRS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3)).filter(lambda p: p[0] != p[1]), unique=True, max_size=5
)
RATES = st.lists(st.sampled_from((0.0, 1.0, 2.0, 3.0, 7.0)), min_size=4, max_size=4)
EVERY = st.sampled_from((0.0, 0.25, 0.5, 1.0))


@ANY
@given(data=st.data(), down=st.sampled_from((0.5, 1.0, 2.0)))
def test_no_placement_of_two_templates_over_one_stream_costs_less(data, down):
    wanted = []
    for name in ("one", "two"):
        pairs = data.draw(PAIRS) if name == "one" else data.draw(PAIRS)[:2]
        every = {side: [data.draw(EVERY) for _ in pairs] for side in "ab"}
        wanted.append(demand(name, pairs, **every))
    devices = facts(data.draw(RATES), down=down)
    placed = place_templates(wanted, devices)
    paid = traffic(wanted, placed.where, devices).cost
    assert paid == pytest.approx(min(traffic(wanted, places, devices).cost for places in every_placement(wanted)))
    assert paid == pytest.approx(float(placed.lower_bound))


@ANY
@given(data=st.data())
def test_no_placement_of_a_view_of_different_streams_costs_less(data):
    pairs = data.draw(PAIRS)
    streams = data.draw(
        st.sampled_from(({"a": ("mood", "place"), "b": ("mood", "place")}, {"a": ("mood",), "b": ("place",)}))
    )
    wanted = [demand("near", pairs, streams, a=[data.draw(EVERY) for _ in pairs])]
    devices = facts({"mood": data.draw(RATES), "place": data.draw(RATES)}, sizes={"mood": 40.0, "place": 60.0})
    paid = traffic(wanted, place_templates(wanted, devices).where, devices).cost
    assert paid == pytest.approx(min(traffic(wanted, places, devices).cost for places in every_placement(wanted)))


@ANY
@given(data=st.data())
def test_no_device_runs_more_pairs_than_it_holds(data):
    wanted = [demand("one", data.draw(PAIRS)), demand("two", data.draw(PAIRS), {"a": ("mood",), "b": ("place",)})]
    wanted.append(demand("own", [(n, n) for n in range(4)], {"a": ("place",)}))
    capacity = np.array(data.draw(st.lists(st.integers(0, 2), min_size=4, max_size=4)))
    devices = facts({"mood": data.draw(RATES), "place": data.draw(RATES)}, capacity=capacity)
    duties = find_duties(wanted, place_templates(wanted, devices).where, 4)
    held = sum(np.bincount(run.host, minlength=4) for run in duties.runs.values())
    assert (held <= capacity).all()


def test_a_view_of_one_device_runs_where_less_is_sent():
    wanted = [demand("coupons", [(0, 0), (1, 1)], {"a": ("place",)}, ("offers",))]
    devices = facts([5.0, 0.5], tables={"offers": 1.0})
    placed = place_templates(wanted, devices)
    assert placed.where[0].tolist() == [AT_A, IN_CLOUD]
    found = find_duties(wanted, placed.where, 2)
    assert found.tables["offers"].tolist() == [0]
    assert duties_of(found, [0])[0] == ((), (), ("offers",), (("coupons", "a", (-1,)),))
    assert measure_traffic(found, devices).messages == 1.5


def test_a_table_that_changes_often_keeps_pairs_in_the_cloud():
    wanted = [demand("near", [(0, 1)], None, ("offers",))]
    devices = facts([1.0, 5.0], tables={"offers": 10.0})
    assert place_templates(wanted, devices).where[0].tolist() == [IN_CLOUD]
    assert place_templates(wanted, facts([1.0, 5.0], tables={"offers": 0.1})).where[0].tolist() == [AT_B]


def test_a_pair_of_a_device_with_itself_stays_there():
    wanted, devices = [demand("near", [(0, 0)])], facts([1.0])
    placed = place_templates(wanted, devices)
    assert placed.where[0].tolist() == [AT_A]
    assert traffic(wanted, placed.where, devices).messages == 0


@ANY
@given(data=st.data())
def test_devices_send_and_take_exactly_what_their_pairs_need(data):
    wanted = []
    for name in ("one", "two"):
        pairs = data.draw(PAIRS)
        wanted.append(demand(name, pairs, b=[data.draw(EVERY) for _ in pairs]))
    places = [
        np.array([data.draw(st.sampled_from((0, 1, 2))) for _ in range(len(one.rows))], np.uint8) for one in wanted
    ]
    sends, takes = dict[int, float](), dict[tuple[int, int], float]()
    for one, where in zip(wanted, places, strict=True):
        for n, at in enumerate(where.tolist()):
            ends = {side: int(one.rows.side(side)[n]) for side in "ab"}
            host = {IN_CLOUD: None, AT_A: ends["a"], AT_B: ends["b"]}[at]
            for side, device in ends.items():
                every = float(one.rows.every[side][n]) if side in one.rows.every else 0.0
                if host != device:
                    sends[device] = min(every, sends.get(device, 9.0))
                    if host is not None:
                        takes[host, device] = min(every, takes.get((host, device), 9.0))
    found = duties_of(find_duties(wanted, places, 4), range(4))
    assert {d: one.sends[0][1] for d, one in found.items() if one.sends} == sends
    assert {(d, partner): every for d, one in found.items() for _, partner, every in one.takes} == takes
    ran = {(name, side, d, p) for d, one in found.items() for name, side, partners in one.runs for p in partners}
    assert len(ran) == sum(int((where != IN_CLOUD).sum()) for where in places)


@pytest.mark.parametrize("ids", [np.array([30, 10, 20]), np.array(["x", "äö", "b"])])
def test_pairs_of_known_devices_are_numbered_once(ids):
    a, b = ids[[0, 1, 0, 2]], ids[[1, 2, 1, 2]].copy()
    b[3] = 99 if ids.dtype.kind == "i" else "zz"
    rows = number_pairs(ids, a, b, {"a": np.array([5.0, 1.0, 2.0, 1.0]), "b": 10.0})
    found = {
        (x, y): (s, t)
        for x, y, s, t in zip(rows.a.tolist(), rows.side("b").tolist(), *rows.every.values(), strict=True)
    }
    assert found == {(0, 1): (2.0, 10.0), (1, 2): (1.0, 10.0)}
    assert not len(number_pairs(ids[:0], a, b))


def test_twenty_thousand_devices_are_decided_in_less_than_the_papers_time():
    """186,000 pairs with rates of their own, as in RACE's largest experiment, which took it 3.2 s."""
    random = np.random.default_rng(7)
    ids = np.arange(20_000)
    a, b = random.integers(0, 20_000, 186_000), random.integers(0, 20_000, 186_000)
    every = {"a": random.lognormal(1, 1.75, 186_000), "b": random.lognormal(1, 1.75, 186_000)}
    began = time.process_time()
    rows = number_pairs(ids, a, b, every)
    wanted = [TemplateDemand("near", rows, {"a": ("place",), "b": ("place",)})]
    devices = facts(random.lognormal(0, 1.75, 20_000))
    placed = place_templates(wanted, devices)
    duties = find_duties(wanted, placed.where, devices.count)
    found = duties_of(duties, range(20_000))
    took = time.process_time() - began
    assert sum(len(partners) for one in found.values() for _, _, partners in one.runs) == int(
        (placed.where[0] > 0).sum()
    )
    assert (
        measure_traffic(duties, devices).messages < traffic(wanted, [np.zeros_like(placed.where[0])], devices).messages
    )
    assert took < 3.2, f"{took:.2f} s"
