"""The benchmark of real links: its queries are planned in every mode, and its model is what it says."""

from __future__ import annotations

import math
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from bench.link_drop import say, tell, wait_until
from bench.wide_area import PLANNERS, change_link, find_fullest_link
from bench.wide_area_lags import LagSample, LagWatch, Turn, find_interrupted
from bench.wide_area_links import make_drawn_network, make_rates, make_real_network, read_real_network
from bench.wide_area_model import SENT_SHARE, count_new, plan_in_turn, predict_measured, predict_planned
from bench.wide_area_planned import print_planned
from bench.wide_area_real import MODES, OURS
from bench.wide_area_tables import PAPER, RealRun, network_lines, run_lines
from bench.workloads.wide_area import make_network, make_tight_network, make_tight_workload, make_workload
from bench.workloads.wide_area_sql import (
    COMPUTE,
    LINKS,
    QUERIES,
    SITES,
    TweetWriter,
    WideRates,
    find_sources_of,
    write_project,
)
from headrace.declare.read import read_project
from headrace.model.catalogue import Catalogue
from headrace.model.plan import PlanOptions
from headrace.model.plan_modes import WideArea
from headrace.model.rate import Groups, Rate
from headrace.plan.make import make_plan
from headrace.plan.share.revalue import Measured
from headrace.plan.wide_area.fluid import predict
from headrace.plan.wide_area.greedy import MODES as SHARING_MODES
from headrace.plan.wide_area.greedy import admit_greedily
from headrace.plan.wide_area.search import admit_all


def read_wide(folder: Path, network: str) -> Catalogue:
    made = make_real_network(network, 360.0)
    declared = {ends: size / SENT_SHARE for ends, size in made.rates.items()}
    write_project(folder, tuple(QUERIES), declared, WideRates(), "6 s", None, made.latency_s)
    return read_project(folder, {"WIDE_DATA": str(folder)})


def only(catalogue: Catalogue, *queries: str) -> Catalogue:
    return replace(catalogue, contracts={name: catalogue.contracts[name] for name in queries})


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode in (OURS, "sana", "net")])
def test_all_queries_are_planned_where_links_are_wide(tmp_path: Path, mode: str) -> None:
    wide_area = None if mode == OURS else WideArea(mode)
    asked = tuple(QUERIES) if mode != OURS else ("Q1", "Q8")
    plan = make_plan(only(read_wide(tmp_path, "ample"), *asked), PlanOptions(wide_area=wide_area))
    assert not plan.rejected
    assert predict_planned(plan, make_rates("ample", 360.0)).shares == dict.fromkeys(asked, 1.0)


def test_sana_sends_what_queries_share_once_and_gets_all_through_where_net_does_not(tmp_path: Path) -> None:
    catalogue, rates = only(read_wide(tmp_path, "tight"), "Q2", "Q5", "Q8", "Q11"), make_rates("tight", 360.0)
    net, sana = (predict_planned(plan_in_turn(catalogue, mode), rates) for mode in (WideArea.NET, WideArea.SANA))
    assert min(net.shares.values()) < 0.8 and set(sana.shares.values()) == {1.0}
    assert sum(sana.wanted.values()) < 0.67 * sum(net.wanted.values())


def test_copies_share_a_narrow_link_fairly_and_their_readers_get_the_least_of_theirs(tmp_path: Path) -> None:
    catalogue, name = read_wide(tmp_path, "ample"), "Q7"
    plan = make_plan(
        replace(catalogue, contracts={name: catalogue.contracts[name]}), PlanOptions(wide_area=WideArea.NET)
    )
    wide = predict_planned(plan, make_rates("ample", 360.0))
    ends = max(wide.wanted, key=lambda one: wide.wanted[one])
    narrow = {**make_rates("ample", 360.0), ends: wide.wanted[ends] / 4}
    found = predict_planned(plan, narrow)
    assert found.shares == {name: pytest.approx(0.25)} and found.sent[ends] == narrow[ends]
    measured = Measured(0.0, row_bytes=dict.fromkeys(plan.graph.vertices, 2.0))
    assert sum(predict_measured(plan, measured, narrow).sent.values()) < sum(wide.sent.values())


def test_what_is_brought_beside_slow_rows_is_as_slow(tmp_path: Path) -> None:
    """Rows of one site come at a quarter of their rate: a push waits for them, and asks others for as much."""
    catalogue = only(read_wide(tmp_path, "tight"), "Q5")
    plan, ample = make_plan(catalogue, PlanOptions(wide_area=WideArea.NET)), make_rates("ample", 360.0)
    wide = predict_planned(plan, ample)
    result = next(ends for ends in wide.wanted if ends[1] == "singapore" and ends[0] in COMPUTE)
    slow, beside = ("ohio", result[0]), ("oregon", result[0])
    found = predict_planned(plan, {**ample, slow: wide.wanted[slow] / 4})
    assert found.shares == {"Q5": pytest.approx(0.25)}
    for ends in (beside, result):  # requests and acknowledgements remain
        assert wide.sent[ends] / 4 <= found.sent[ends] < wide.sent[ends] / 2


def test_groups_that_are_new_send_no_earlier_row(tmp_path: Path) -> None:
    """Where rows have come for a moment only, all groups are new: half as many rows leave as when all are known."""
    catalogue, rates = only(read_wide(tmp_path, "tight"), "Q5"), make_rates("ample", 360.0)
    plan = make_plan(catalogue, PlanOptions(wide_area=WideArea.NET))
    measured = Measured(0.0)
    young, grown, old = (predict_measured(plan, measured, rates, age_s) for age_s in (0.0, 60.0, math.inf))
    result = next(ends for ends in old.wanted if ends[1] == "singapore" and ends[0] in COMPUTE)
    assert young.wanted[result] == pytest.approx(old.wanted[result] / 2, rel=0.02)
    assert young.wanted[result] < grown.wanted[result] < old.wanted[result]
    rows = {ends: size for ends, size in old.wanted.items() if ends[0] not in COMPUTE}
    assert rows == {ends: young.wanted[ends] for ends in rows}


def test_a_group_that_is_touched_is_sent_however_new_it_is_and_however_often_it_is_touched() -> None:
    few = Groups(24.0, Rate(30.0))
    for batch_s in (0.1, 1.0, 15.0):
        assert count_new(few, batch_s, 0.0) == few.at(batch_s) / 2
    assert count_new(few, 15.0, 60.0) < 1e-9, "all have been touched by then"


def test_every_query_reads_a_stream(tmp_path: Path) -> None:
    assert all(find_sources_of(name) for name in QUERIES)
    others = {stream for name in QUERIES if name != "Q1" for stream in find_sources_of(name)}
    assert others.isdisjoint(find_sources_of("Q1")), "Q1 shares nothing"
    assert {site for site, _ in QUERIES.values()} <= set(SITES)
    with TweetWriter(tmp_path, WideRates(24.0)):
        pass
    assert (tmp_path / "tweets_ohio").is_dir()


def test_ours_gets_at_least_as_much_through_a_tight_network_as_the_others() -> None:
    for seed in (1, 7):
        workload, network = make_tight_workload(seed), make_tight_network(seed)
        rates = {}
        for name in ("net", "max-share", "sana"):
            mode = SHARING_MODES[name]
            placed = admit_greedily(workload, network, mode).deployment
            rates[name] = predict(workload, network, placed, mode.sharing).records_per_s
        sana = SHARING_MODES["sana"].sharing
        ours = predict(workload, network, admit_all(workload, network).deployment, sana).records_per_s
        assert ours >= max(rates.values())


def test_sana_gets_more_through_tight_networks_than_sharing_blindly() -> None:
    """By how much depends on which links are narrow: a third more on the last of these, and on others nothing."""
    for seed, least in ((1, 1.15), (5, 1.4), (7, 1.4)):
        workload, network = make_tight_workload(seed), make_tight_network(seed)
        found = {}
        for name in ("net", "max-share", "sana"):
            mode = SHARING_MODES[name]
            placed = admit_greedily(workload, network, mode).deployment
            found[name] = predict(workload, network, placed, mode.sharing)
        assert found["sana"].records_per_s >= least * found["max-share"].records_per_s
        assert found["sana"].records_per_s > found["net"].records_per_s
        assert found["sana"].planned <= 0.67 * found["net"].planned


def test_a_link_that_drops_costs_less_when_operators_are_placed_again() -> None:
    workload, network = make_workload(), make_network(1)
    found = {
        name: change_link(workload, network, find_fullest_link(workload, network, PLANNERS[name]), PLANNERS[name])
        for name in ("default", "sana", "ours")
    }
    assert found["default"].moved == 0 and found["default"].again == found["default"].narrow, "it sees no links"
    for name in ("sana", "ours"):
        one = found[name]
        assert one.narrow < one.again <= one.before and one.moved
        assert one.again <= one.back <= one.before


def test_a_network_of_ones_own_says_what_links_carry_and_how_long_they_take(tmp_path: Path) -> None:
    file = tmp_path / "mine.yml"
    file.write_text(
        "links:\n"
        "  - {from: ohio, to: virginia, bandwidth: 10 Mbps, latency: 12 ms}\n"
        "  - {between: [ohio, tokyo], bandwidth: 200000}\n"
    )
    network = read_real_network(file)
    assert network.rates["ohio", "virginia"] == 1.25e6 and network.rates["tokyo", "ohio"] == 200_000
    assert network.latency_s == {("ohio", "virginia"): 0.012} and not network.changes
    write_project(tmp_path, ("Q1",), network.rates, WideRates(), "6 s", None, network.latency_s)
    catalogue = read_project(tmp_path, {"WIDE_DATA": str(tmp_path)})
    assert next(one for one in catalogue.links if one.src == "ohio" and one.dst == "virginia").latency_s == 0.012
    file.write_text("links: [{from: ohio, to: mars}]")
    with pytest.raises(SystemExit, match="there is no mars"):
        read_real_network(file)


def test_a_drawn_network_is_another_one_for_each_seed_and_no_wider_than_the_paper_s() -> None:
    one, other = (make_drawn_network(seed, 360.0) for seed in (1, 2))
    assert one.name == "drawn-1" and one == make_drawn_network(1, 360.0) and one.rates != other.rates
    narrow = [one.rates[ends] for ends in LINKS]
    assert max(narrow) <= 14 * min(narrow) and one.rates["tokyo", "london"] != one.rates["london", "tokyo"]
    twice = make_drawn_network(1, 720.0)
    assert all(twice.rates[ends] == pytest.approx(2 * one.rates[ends]) for ends in LINKS)


def test_a_query_is_interrupted_if_it_was_kept_until_another_came() -> None:
    samples = [
        LagSample(1.0, {"kept": 0.5, "late": 1.5, "goes": 0.5}),
        LagSample(3.0, {"kept": 0.9, "late": 2.0, "goes": 3.0}),
        LagSample(5.0, {"kept": 1.2}),
    ]
    assert find_interrupted(samples, [Turn(2.0, 4.0, frozenset({"kept", "late"}))]) == ()
    assert find_interrupted(samples, [Turn(2.0, 6.0, frozenset({"kept", "late"}))]) == ("kept",)
    assert find_interrupted(samples, [Turn(4.0, 6.0, frozenset({"kept", "late"}))]) == ("kept",)


def test_tables_say_what_was_reached_within_80_columns() -> None:
    def run(rate: float, size: float) -> RealRun:
        links = {("ireland", "virginia"): size, ("ohio", "tokyo"): 1.0}
        each = dict.fromkeys(QUERIES, rate)
        modelled = {ends: 0.9 * bytes_s for ends, bytes_s in links.items()}
        return RealRun(links, modelled, each, each, each, tuple(QUERIES), tuple(QUERIES), 3, 12)

    runs = {mode: run(100.0 + number, 1e5) for number, mode in enumerate(MODES)}
    runs["sana"] = run(150.0, 5e4)
    lines = [*run_lines("changing", "strict-share", runs["net"]), *network_lines("changing", runs), *PAPER]
    assert max(map(len, "\n".join(lines).splitlines())) <= 80
    text = "\n".join(lines)
    assert "  ireland to virginia             100.0         90.0   -10 %" in text
    assert "sana to net, bytes 0.50 (asked for: 0.67): reached" in text
    assert "ours to sana, throughput 0.71 (asked for: 1.0): NOT REACHED" in text


def test_plans_are_compared_without_running_them(capsys: pytest.CaptureFixture[str]) -> None:
    """The scarce network is one on which whoever shares blindly waits for results from elsewhere."""
    print_planned([make_real_network("scarce", 360.0)], ("max-share", "sana"), ("Q3", "Q4"), WideRates(), "6 s")
    told = capsys.readouterr().out.splitlines()
    assert max(map(len, told)) <= 80
    assert told[-1].startswith("Sana over Max-Share: ") and float(told[-1].split()[-1]) >= 1.3


def test_what_is_seen_of_a_link_is_told_with_what_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    say("before", 12.11e6)
    tell("seen", 4.94, 10.0)
    tell("moved", None, 60.0)
    assert wait_until(lambda: True, 1.0) is not None and wait_until(lambda: False, 0.0) is None
    assert capsys.readouterr().out.splitlines() == [
        "before: 96.9 Mbit/s",
        "seen after 4.9 s (asked for: 10 s): reached",
        "moved after - (asked for: 60 s): NOT REACHED",
    ]


def test_a_watch_that_could_not_look_any_more_says_so_instead_of_seeing_nobody_late() -> None:
    asked = threading.Event()

    def fail() -> dict[str, dict[str, object]]:
        asked.set()
        raise OSError("the status cannot be read")

    with pytest.raises(OSError, match="cannot be read"), LagWatch(fail):
        assert asked.wait(20)
