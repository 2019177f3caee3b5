"""Why a pair that runs is where it is: the numbers are those of the decision, at rates as they are measured."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from headrace.plan.place.demands import PER, StreamDemand, name_pair
from headrace.plan.place.explain_running import RunningPair, explain_running_pair
from headrace.plan.place.handover import TemplatePair
from headrace.plan.place.instance import CLOUD, Device, PairView, Single
from headrace.plan.place.why import why_document, why_pair

EQUAL = Device(1, 1)
IDS = ("1", "2", "3", "4")
PAIRS = [TemplatePair("near", (a, b)) for a in IDS for b in IDS if a < b]


def running(rates: dict[str, int], places: list[int], kind: Device = EQUAL) -> RunningPair:
    """All pairs of four devices, of which those of devices 1 and 2 count."""
    standing = {pair: (CLOUD, *pair.ids)[place] for pair, place in zip(PAIRS, places, strict=True)}
    near = [pair for pair in PAIRS if {"1", "2"} & set(pair.ids)]
    demands = {pair: tuple(StreamDemand(one, "location", rates[one] * PER) for one in pair.ids) for pair in near}
    return RunningPair(PAIRS[0], demands, {pair: standing[pair] for pair in near}, kind)


@given(
    st.lists(st.integers(0, 50), min_size=4, max_size=4),
    st.lists(st.integers(0, 2), min_size=6, max_size=6),
    st.sampled_from([Device(1, 1), Device(1, 3), Device(5, 2), Device(1, 1, 2)]),
)
def test_the_numbers_are_those_of_the_whole_placement(rates: list[int], places: list[int], kind: Device) -> None:
    given_ = running(dict(zip(IDS, rates, strict=True)), places, kind)
    views = tuple(
        PairView(name_pair(pair), a.device, b.device, a.rate // PER, b.rate // PER)
        for pair, (a, b) in given_.demands.items()
    )
    where = {name_pair(pair): at for pair, at in given_.standing.items()}
    expected = why_document(why_pair(Single(views, kind, {}), where, name_pair(PAIRS[0])))
    found = explain_running_pair(given_).numbers
    assert {key: found[key] for key in expected} == {**expected, "view": "near:1,2"}


def test_it_says_what_stays_local_and_what_comes_down() -> None:
    told = explain_running_pair(running({"1": 0, "2": 10, "3": 0, "4": 0}, [2, 0, 0, 0, 0, 0]))
    assert told.at == "2" and told.numbers["measured"] is True
    assert "10/s stay local" in told.because and "on 2's device" in told.because


def test_what_keeps_a_pair_where_it_is_is_told() -> None:
    costly = running({"1": 1, "2": 10, "3": 0, "4": 0}, [0, 0, 0, 1, 1, 0])
    assert "moves once staying has cost" in explain_running_pair(costly).because
    assert "moving to 2's device now" in explain_running_pair(replace(costly, to="2")).because
    assert "while 2's device cannot be reached" in explain_running_pair(replace(costly, away=("2",))).because
    refused = explain_running_pair(replace(costly, refused={"2": "no function distance"}))
    assert "refuses it: no function distance" in refused.because and "2" not in refused.numbers["alternatives"]  # type: ignore[operator]


def test_a_pair_of_one_device_reads_nothing_of_another() -> None:
    pair = TemplatePair("coupons", ("1",))
    given_ = RunningPair(pair, {pair: (StreamDemand("1", "location", 5 * PER),)}, {pair: "1"}, Device(1, 1))
    told = explain_running_pair(given_)
    assert told.numbers["alone"] == 0 and told.numbers["alternatives"] == {CLOUD: 5}
