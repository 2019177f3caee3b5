"""Measured rates, and the re-planning that they cause."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.plan import Operator, Plan
from headrace.model.statistics import rate_of
from headrace.observe.rates import (
    OVER_S,
    SECOND,
    Meter,
    Statistics,
    VertexFlow,
    add_amount,
    add_push,
    start_flow,
    statistics,
)
from headrace.plan.share.adapt import look
from headrace.plan.share.revalue import Measured
from headrace.plan.share.watch import ConditionKind, ConditionWatch, WatchedCondition
from tests.plan.share.projects import plan_for, wanted

seconds = st.floats(0.1, 120.0)


@given(st.lists(st.tuples(seconds, st.floats(0.0, 1e4)), min_size=1, max_size=20))
def test_a_meter_is_the_average_that_fades_whatever_the_intervals(intervals: list[tuple[float, float]]):
    """The oracle integrates rate * exp(-age / 60) over all that was seen, each interval at its own rate."""
    meter, ends = Meter(0), list[float]()
    for length_s, amount in intervals:
        upto = meter.upto + round(length_s * SECOND)
        meter = add_amount(meter, amount, upto)
        ends.append(upto / SECOND)
    weighed = weights = 0.0
    for start, end, (_, amount) in zip([0.0, *ends], ends, intervals, strict=False):
        weight = math.exp((end - ends[-1]) / OVER_S) - math.exp((start - ends[-1]) / OVER_S)
        weighed, weights = weighed + weight * amount / (end - start), weights + weight
    assert meter.rate == pytest.approx(weighed / weights, rel=1e-6, abs=1e-9)


@given(st.lists(seconds, min_size=1, max_size=20), st.floats(0.0, 1e4))
def test_a_steady_flow_has_its_rate_from_the_first_interval_on(lengths: list[float], rate: float):
    meter = Meter(0)
    for length_s in lengths:
        upto = meter.upto + round(length_s * SECOND)
        meter = add_amount(meter, rate * (upto - meter.upto) / SECOND, upto)
        assert meter.rate == pytest.approx(rate)
    assert meter.is_known == (meter.upto >= OVER_S * SECOND - 1)


def test_a_push_that_is_repeated_is_not_counted_again():
    once = add_push(start_flow(0), 100, 50, 1000, 30 * SECOND)
    assert add_push(once, 100, 50, 1000, 30 * SECOND) == once


def test_selectivity_is_rows_out_for_each_row_in():
    assert start_flow(0).selectivity is None
    flow = add_push(add_push(start_flow(0), 100, 50, 0, 30 * SECOND), 300, 30, 0, 60 * SECOND)
    kept = math.exp(-0.5)
    assert flow.selectivity == pytest.approx((50 * kept + 30) / (100 * kept + 300))


def test_a_flow_goes_on_after_a_restart():
    flow = add_push(start_flow(0), 100, 50, 1000, 30 * SECOND)
    assert VertexFlow.from_json(flow.to_json()) == flow


# Statistics for planning


def measured(plan: Plan, factor: float, seconds_watched: int = 90) -> Statistics:
    """All vertices flow at a multiple of their planned rates."""
    flows = {}
    for name, vertex in plan.graph.vertices.items():
        source = plan.catalogue.sources.get(vertex.scope[0])
        rate = vertex.rate.at(30.0) if name in plan.graph.edges or source is None else rate_of(source)
        rows = factor * rate * seconds_watched
        flows[name] = add_push(start_flow(0), rows, rows, rows * vertex.width, seconds_watched * SECOND)
    return statistics(plan.graph, flows, plan.catalogue.links)


def test_sources_have_the_rates_of_what_their_relations_gave_out():
    plan = plan_for(wanted("sales", "asia"))
    assert dict(measured(plan, 2.0).sources) == {"customers": pytest.approx(4.0), "orders": pytest.approx(100.0)}


def test_what_was_not_watched_for_a_minute_is_not_told():
    assert measured(plan_for(wanted("sales", "asia")), 2.0, seconds_watched=30) == Statistics()


def test_links_have_the_load_of_the_copies_over_them():
    plan = plan_for(wanted("sales", "asia"), wanted("bought", "eu"))
    found, limits = measured(plan, 1.0), {(link.src, link.dst): link.bandwidth for link in plan.catalogue.links}
    assert any(edge.op is Operator.COPY for edge in plan.graph.edges.values())
    assert found.load.keys() == plan.totals.link.keys()
    for ends, load in found.load.items():
        assert load == pytest.approx(plan.totals.link[ends] / (limits[ends] or math.inf), rel=0.05)


def looked(plan: Plan, factor: float) -> ConditionWatch:
    found = measured(plan, factor)
    return look(ConditionWatch(), plan, Measured(0.0, found.sources, load=found.load))


def test_rates_that_left_the_plan_are_seen_by_the_watch_over_it():
    plan = plan_for(wanted("sales", "asia"))
    off = {condition.where for condition in looked(plan, 1.4).since if condition.trouble is ConditionKind.RATE_OFF}
    assert off == {"orders", "customers"}
    assert WatchedCondition(ConditionKind.RATE_OFF, "orders") not in looked(plan, 1.2).since
    assert not looked(plan, 1.0).since
