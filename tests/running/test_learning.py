"""What a running plan teaches: predictions come to what pushes take."""

from __future__ import annotations

import random

import pytest

from bench.workloads.live_table1 import Live, live_catalogue
from headrace.model.plan import Plan
from headrace.plan.make import make_plan
from headrace.run.push.push import Pushed
from headrace.site.learning import Learning

SECOND = 1_000_000


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan(live_catalogue(Live(contracts=3, tweets=1000)))


def took_s(rows_in: int, rows_out: int) -> float:
    return 0.002 + 4e-6 * rows_in + 9e-6 * rows_out


def taught(plan: Plan, pushes: int) -> Learning:
    """After pushes of all vertices, of some seconds each: 50 rows come in a second, and 100 go out."""
    learning, chance, at = Learning(plan), random.Random(1), 0
    for _ in range(pushes):
        batch_s = chance.uniform(2.0, 20.0)
        before, at = dict.fromkeys(plan.graph.vertices, at), at + round(batch_s * SECOND)
        rows_in, rows_out = round(50 * batch_s), round(100 * batch_s)
        learning.learn(
            [Pushed(name, at, took_s(rows_in, rows_out), rows_in, rows_out) for name in plan.graph.vertices], before
        )
    return learning


@pytest.mark.parametrize("batch_s", [1.0, 10.0, 40.0])
def test_after_some_pushes_the_next_is_predicted(plan: Plan, batch_s: float):
    predict = taught(plan, 30).work()
    for name in plan.graph.vertices:
        expected = took_s(round(50 * batch_s), round(100 * batch_s))
        assert predict(name, batch_s) == pytest.approx(expected, rel=0.1)


def test_what_was_learnt_survives_a_restart(plan: Plan):
    before = taught(plan, 30)
    after = Learning.from_json(plan, before.to_json())
    assert (after.times, after.flows, after.jobs) == (before.times, before.flows, before.jobs)
    assert after.parallel == before.parallel


def test_what_was_learnt_of_vertices_that_are_gone_is_forgotten(plan: Plan):
    smaller = make_plan(live_catalogue(Live(contracts=1, tweets=1000)))
    kept = taught(plan, 30).moved_to(smaller)
    assert set(kept.flows) <= set(smaller.graph.vertices) and kept.flows
    assert kept.times.fits.keys() == taught(plan, 30).times.fits.keys()


def test_jobs_are_predicted_from_their_pushes(plan: Plan):
    learning, chance = Learning(plan), random.Random(2)
    for _ in range(40):
        pushes, predicted_s = chance.randint(5, 80), chance.uniform(0.05, 2.0)
        learning.learn_job(pushes, predicted_s, 0.1 + 0.002 * pushes + 0.7 * predicted_s)
    assert learning.job.fixed == pytest.approx(0.1, rel=0.05)
    assert learning.job.per_in == pytest.approx(0.002, rel=0.05)
    assert learning.job.per_out == pytest.approx(0.7, rel=0.05)


@pytest.mark.parametrize("parallel", [0.0, 0.5, 1.0])
def test_how_far_slots_wait_for_each_other_is_learnt(plan: Plan, parallel: float):
    learning, chance = Learning(plan), random.Random(4)
    for _ in range(60):
        longest_s = chance.uniform(0.1, 2.0)
        total_s = longest_s + chance.uniform(0.0, longest_s)
        took_s = learning.overhead_s + parallel * longest_s + (1 - parallel) * total_s
        learning.learn_sides(longest_s, total_s, took_s)
    assert learning.parallel == pytest.approx(parallel, abs=0.05)


def test_jobs_that_become_quicker_are_known_to_after_thirty(plan: Plan):
    learning, chance = Learning(plan), random.Random(5)
    for number in range(130):
        pushes, predicted_s = chance.randint(5, 80), chance.uniform(0.05, 2.0)
        factor = (1.0 if number < 100 else 0.7) * chance.uniform(0.8, 1.2)
        learning.learn_job(pushes, predicted_s, factor * (0.1 + 0.7 * predicted_s))
    assert learning.job.fixed + learning.job.per_out == pytest.approx(0.7 * 0.8, rel=0.15)


def test_jobs_of_equal_work_that_take_now_more_now_less_are_predicted_as_what_they_take_on_the_whole(plan: Plan):
    learning, chance = Learning(plan), random.Random(3)
    for _ in range(400):
        learning.learn_job(30, 0.5, chance.choice([0.4, 0.8, 1.2]))
    predicted = learning.job.fixed + 30 * learning.job.per_in + 0.5 * learning.job.per_out
    assert predicted == pytest.approx(0.8, rel=0.1)
