"""What operators took, and what they will take."""

from __future__ import annotations

import random
from dataclasses import astuple
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.catalogue import OperatorTime
from headrace.observe.predict import operation_of, planned_time, predictor
from headrace.observe.rates import SECOND, add_push, start_flow
from headrace.observe.times import (
    ENOUGH,
    ENOUGH_TO_PLAN,
    Accuracy,
    Fit,
    Operation,
    OperatorTimes,
    Sample,
    UpkeepShare,
    add_sample,
    add_upkeep,
    compare_times,
    forget,
    measure_operators,
    observe_push,
    seconds_of,
)
from headrace.plan.price import tariff_of, time_of_edge
from tests.plan.share.projects import plan_for, wanted

PLANNED = OperatorTime(0.15, 2e-6, 4e-6)
JOIN = Operation("join", "eu")


def samples(time: OperatorTime, count: int, seed: int = 1, noise: float = 0.0) -> list[Sample]:
    chosen = random.Random(seed)
    found = []
    for _ in range(count):
        rows_in, rows_out = chosen.uniform(0, 1e5), chosen.uniform(0, 2e5)
        seconds = seconds_of(time, rows_in, rows_out) * chosen.uniform(1 - noise, 1 + noise)
        found.append(Sample(rows_in, rows_out, seconds))
    return found


def fit_of(taken: list[Sample]) -> Fit:
    fit = Fit()
    for sample in taken:
        fit = add_sample(fit, sample, PLANNED)
    return fit


# The slow fit


def test_what_was_planned_is_scaled_until_there_are_enough_samples():
    taken = samples(OperatorTime(1.0, 1e-5, 2e-5), ENOUGH)
    for count in (1, ENOUGH - 1):
        assert fit_of(taken[:count]).time is None
        scaled = fit_of(taken[:count]).time_or(PLANNED)
        assert scaled.fixed > PLANNED.fixed
        assert scaled.per_in / scaled.fixed == pytest.approx(PLANNED.per_in / PLANNED.fixed)
    own = fit_of(taken).time
    assert own is not None
    assert astuple(own) == pytest.approx((1.0, 1e-5, 2e-5), rel=1e-4)


@given(st.floats(0.1, 3.0), st.integers(1, ENOUGH - 1))
def test_a_machine_that_is_faster_or_slower_than_planned_is_known_after_the_first_push(factor: float, count: int):
    time = OperatorTime(PLANNED.fixed * factor, PLANNED.per_in * factor, PLANNED.per_out * factor)
    found = fit_of(samples(time, count)).time_or(PLANNED)
    assert seconds_of(found, 1000, 2000) == pytest.approx(seconds_of(time, 1000, 2000))


def test_a_first_push_that_hangs_makes_others_look_slow_by_no_more_than_a_bound():
    found = fit_of([Sample(0, 0, 100.0)]).time_or(PLANNED)
    assert found.fixed == pytest.approx(4 * PLANNED.fixed)


def test_vertices_that_were_planned_to_take_more_or_less_share_one_factor():
    """Copies over one link: rows of one are wide, those of another are not."""
    wide, narrow, fit = OperatorTime(0.02, 2e-6, 1e-4), OperatorTime(0.02, 2e-6, 5e-6), Fit()
    for planned in (wide, narrow, narrow, wide, narrow):
        fit = add_sample(fit, Sample(1e4, 1e4, 0.5 * seconds_of(planned, 1e4, 1e4)), planned)
    for planned in (wide, narrow):
        assert seconds_of(fit.time_or(planned), 1e3, 1e3) == pytest.approx(0.5 * seconds_of(planned, 1e3, 1e3))


@given(st.floats(0.01, 5.0), st.floats(1e-7, 1e-4), st.floats(1e-7, 1e-4), st.integers(0, 100))
def test_samples_of_a_line_give_the_line(fixed: float, per_in: float, per_out: float, seed: int):
    found = fit_of(samples(OperatorTime(fixed, per_in, per_out), ENOUGH, seed)).time
    assert found is not None
    assert (found.fixed, found.per_in, found.per_out) == pytest.approx((fixed, per_in, per_out), rel=0.05)


@given(st.lists(st.tuples(*[st.floats(0, 100)] * 3), min_size=ENOUGH, max_size=ENOUGH))
def test_coefficients_are_the_best_that_are_not_negative(taken: list[tuple[float, float, float]]):
    """Against every point of a grid around them: none has a smaller weighted error."""
    fit = fit_of([Sample(*one) for one in taken])
    assert fit.time is not None
    x = np.array([[1.0, rows_in, rows_out] for rows_in, rows_out, _ in taken])
    y = np.array([seconds for _, _, seconds in taken])
    weights = 0.98 ** np.arange(len(taken))[::-1]

    def error(coefficients: tuple[float, ...]) -> float:
        return float(weights @ (x @ np.array(coefficients) - y) ** 2)

    found = fit.time.fixed, fit.time.per_in, fit.time.per_out
    assert min(found) >= 0.0
    for steps in product((-0.01, 0.0, 0.01), repeat=3):
        nearby = tuple(max(0.0, value + step) for value, step in zip(found, steps, strict=True))
        assert error(found) <= error(nearby) * (1 + 1e-3) + 1e-3


def test_rows_that_were_always_the_same_leave_the_planned_slope():
    """100 rows in each push tell nothing about the cost of a row; all the time is fixed or per row alike."""
    fit = fit_of([Sample(100, 100, 0.5)] * 40)
    assert fit.time is not None
    assert seconds_of(fit.time, 100, 100) == pytest.approx(0.5, rel=0.01)


def test_a_fit_forgets():
    was, is_ = OperatorTime(1.0, 1e-5, 2e-5), OperatorTime(3.0, 3e-5, 1e-5)
    fit = fit_of([*samples(was, 100, 1, 0.1), *samples(is_, 400, 2, 0.1)])
    assert fit.time is not None
    assert seconds_of(fit.time, 5e4, 1e5) == pytest.approx(seconds_of(is_, 5e4, 1e5), rel=0.05)


def test_an_outlier_is_believed_up_to_five_median_deviations():
    taken = samples(OperatorTime(1.0, 1e-5, 2e-5), 60, noise=0.05)
    calm, wild = fit_of(taken), add_sample(fit_of(taken), Sample(5e4, 1e5, 500.0), PLANNED)
    assert calm.time is not None and wild.time is not None
    assert seconds_of(wild.time, 5e4, 1e5) == pytest.approx(seconds_of(calm.time, 5e4, 1e5), rel=0.05)


def test_a_fit_goes_on_after_a_restart():
    taken = samples(PLANNED, 50, noise=0.3)
    assert add_sample(Fit.from_json(fit_of(taken[:-1]).to_json()), taken[-1], PLANNED) == fit_of(taken)
    assert Fit.from_json(Fit().to_json()) == Fit()


# The quick factor


def after(taken: list[Sample]) -> OperatorTimes:
    """Of a vertex whose operator is known as it was planned, from others."""
    times = OperatorTimes()
    for sample in samples(PLANNED, 200):
        times = observe_push(times, JOIN, "another", sample, PLANNED)
    for sample in taken:
        times = observe_push(times, JOIN, "v", sample, PLANNED)
    return times


def test_the_quick_factor_follows_at_once_and_is_bounded():
    slow = Sample(0, 0, 0.3)
    assert after([slow]).corrections["v"] == pytest.approx(1.2, rel=0.01)
    assert after([slow] * 10).corrections["v"] == pytest.approx(2 - 0.8**10, rel=0.05)
    assert after([Sample(0, 0, 100.0)] * 15).corrections["v"] == pytest.approx(4 - 3 * 0.8**15, rel=0.05)
    assert after([Sample(0, 0, 0.0)] * 15).corrections["v"] == pytest.approx(0.25 + 0.75 * 0.8**15, rel=0.05)
    assert after([slow]).time_of_vertex(JOIN, "v", PLANNED).fixed == pytest.approx(0.18, rel=0.01)
    assert after([slow]).time_of_vertex(JOIN, "other", PLANNED).fixed == pytest.approx(0.15, rel=0.01)


def test_one_push_that_hangs_does_not_make_all_that_follow_look_slow():
    assert after([Sample(0, 0, 100.0)]).corrections["v"] == pytest.approx(1.6)


def test_once_the_fit_knows_the_factor_returns_to_one_and_slowness_stays():
    times = OperatorTimes()
    for sample in samples(OperatorTime(0.45, 6e-6, 12e-6), 60):
        times = observe_push(times, JOIN, "v", sample, PLANNED)
    assert times.corrections["v"] == pytest.approx(1.0, abs=0.02)
    assert times.slowness["v"] == pytest.approx(3.0, abs=0.01)


def test_an_operator_that_was_planned_to_take_no_time_has_no_slowness():
    times = observe_push(OperatorTimes(), JOIN, "v", Sample(10, 10, 0.1), OperatorTime(0, 0, 0))
    assert times.slowness["v"] == times.corrections["v"] == 1.0


def test_vertices_that_are_gone_are_forgotten_but_not_what_they_taught():
    times = forget(after(samples(PLANNED, 30)), frozenset(("v",)))
    assert set(times.corrections) == set(times.slowness) == {"another"}
    assert times.fits[JOIN].time is not None


# How good predictions are


def test_nine_of_ten_pushes_are_predicted_at_least_as_well_as_published():
    assert Accuracy().error_90 is None
    accuracy = Accuracy()
    for percent in range(101):
        accuracy = compare_times(accuracy, 1.0 + percent / 100, 1.0)
    accuracy = compare_times(accuracy, 1.0, 0.0)
    assert len(accuracy.ratios) == 100
    assert accuracy.error_90 == pytest.approx(0.901)
    assert accuracy.margin == 0.0, "no push took longer than predicted"


def test_the_margin_is_what_one_of_ten_pushes_takes_longer():
    accuracy = Accuracy()
    assert accuracy.margin == 0.0
    for percent in range(101):
        accuracy = compare_times(accuracy, 1.0, 1.0 + percent / 100)
    assert accuracy.margin == pytest.approx(0.901)
    assert compare_times(Accuracy(), 1.0, 9.0).margin == 1.0


# From a plan


def test_before_anything_is_measured_predictions_are_those_of_the_plan():
    plan = plan_for(wanted("bought", "asia"), wanted("by_country", "us"))
    tariff, seconds = tariff_of(plan.catalogue), predictor(plan.catalogue, plan.graph, OperatorTimes(), {})
    for name, edge in plan.graph.edges.items():
        for batch_s in (0.5, 30.0):
            assert seconds(name, batch_s) == pytest.approx(time_of_edge(plan.graph, edge, tariff, batch_s), rel=1e-9)


def test_measured_rates_and_times_take_the_place_of_the_plan():
    plan = plan_for(wanted("sales", "us"))
    name = next(name for name, edge in plan.graph.edges.items() if edge.op == "join")
    flows = {name: add_push(start_flow(0), 6000, 12000, 0, 60 * SECOND)}
    operation, planned = operation_of(plan.graph, name), planned_time(plan.catalogue, plan.graph, name)
    times = OperatorTimes()
    for sample in samples(OperatorTime(0.5, 1e-5, 1e-5), 80):
        times = observe_push(times, operation, "another", sample, planned)
    assert predictor(plan.catalogue, plan.graph, times, flows)(name, 10.0) == pytest.approx(0.53, rel=0.01)


def test_a_source_is_ingested_at_its_site():
    plan = plan_for(wanted("sales", "us"))
    base = next(name for name, vertex in plan.graph.vertices.items() if vertex.base and name not in plan.graph.edges)
    assert operation_of(plan.graph, base) == Operation("ingest", plan.graph.vertices[base].site)
    assert predictor(plan.catalogue, plan.graph, OperatorTimes(), {})(base, 10.0) > 0.0


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 100)), min_size=30, max_size=60))
def test_no_coefficients_that_are_not_negative_fit_better(samples):
    """Of all that a search with numpy finds from many starts, none has a smaller error."""
    fit = Fit()
    for rows_in, rows_out, seconds in samples:
        fit = add_sample(fit, Sample(rows_in, rows_out, seconds), PLANNED)
    assert fit.time is not None
    squares, products = np.reshape(fit.squares, (3, 3)), np.array(fit.products)
    scale = np.sqrt(np.maximum(np.diag(squares), 1e-12))
    a, b = squares / np.outer(scale, scale), products / scale

    def error(coefficients):
        return float(coefficients @ a @ coefficients - 2 * b @ coefficients)

    found = np.array([fit.time.fixed, fit.time.per_in, fit.time.per_out]) * scale
    assert (found >= 0).all()
    for free in ([0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2]):
        other = np.zeros(3)
        other[free] = np.linalg.lstsq(a[np.ix_(free, free)], b[free], rcond=None)[0]
        if (other >= 0).all():
            assert error(found) <= error(other) + 1e-4 * max(1.0, abs(error(other)))


# What operators take wherever they run


def test_samples_of_all_sites_say_together_what_an_operator_takes_in_work():
    true = OperatorTime(0.01, 1e-6, 3e-6)
    halved = OperatorTime(true.fixed / 2, true.per_in / 2, true.per_out / 2)
    times = OperatorTimes(
        {
            Operation("join", "eu"): fit_of(samples(true, ENOUGH_TO_PLAN)),
            Operation("join", "us"): fit_of(samples(halved, 30, seed=2)),
            Operation("derive", "eu"): fit_of(samples(true, ENOUGH_TO_PLAN - 1)),
            Operation("copy", "eu", "us"): fit_of(samples(true, ENOUGH_TO_PLAN)),
        }
    )
    found = measure_operators(times, {"eu": 1.0, "us": 2.0})
    assert found.keys() == {"join"}, "too few samples say nothing, and copies depend on links"
    assert astuple(found["join"]) == pytest.approx(astuple(true), rel=1e-3)


def test_upkeep_counts_for_each_second_of_pushes_and_what_was_long_ago_is_forgotten():
    upkeep = UpkeepShare()
    assert upkeep.share == 0.0
    upkeep.note(9.0, 1.0)
    assert upkeep.share == pytest.approx(9.0)
    for look in range(1, 400):
        upkeep.note(9.0 + 0.5 * look, 1.0 + look)
    assert upkeep.share == pytest.approx(0.5, rel=0.01)
    assert add_upkeep({"join": OperatorTime(0.25, 2.0, 4.0)}, 0.5) == {"join": OperatorTime(0.375, 3.0, 6.0)}


def test_an_operator_that_was_never_seen_is_as_much_off_as_the_others():
    tenth = OperatorTime(PLANNED.fixed / 10, PLANNED.per_in / 10, PLANNED.per_out / 10)
    times = OperatorTimes({JOIN: fit_of(samples(tenth, 3))})
    assert astuple(times.time_of(Operation("derive", "eu"), PLANNED)) == pytest.approx(astuple(tenth))
