from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.errors import ConnectError
from headrace.run.ports import Runner
from headrace.run.push.items import HereRunner, describe, group_by_weight
from tests.connect.spark.item_work import Job, perform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(params=["here", pytest.param("spark", marks=pytest.mark.live)])
def runner(request: pytest.FixtureRequest) -> Runner[object]:
    if request.param == "here":
        return HereRunner(perform)
    from headrace.connect.spark.items import SparkRunner

    return SparkRunner(request.getfixturevalue("spark"), perform)


def test_every_item_has_its_outcome_in_the_order_of_the_items(runner: Runner[object]):
    outcomes = runner.run([Job(f"job {n}", n, weight=n % 7) for n in range(30)])
    assert [(o.name, o.value, o.error) for o in outcomes] == [(f"job {n}", 2 * n, None) for n in range(30)]
    assert all(outcome.seconds >= 0 for outcome in outcomes)


def test_an_item_that_raises_fails_alone(runner: Runner[object]):
    good, bad, other = runner.run([Job("good", 1), Job("bad", "fail"), Job("other", 2)])
    assert (good.value, other.value, bad.value) == (2, 4, None)
    assert bad.error is not None
    assert bad.error.startswith("ValueError: this one never works\n  at ")
    assert "item_work.py" in bad.error
    assert not bad.retryable


def test_rows_do_not_come_back(runner: Runner[object]):
    large, small = runner.run([Job("large", "too much"), Job("small", 1)])
    assert large.value is None
    assert large.error is not None
    assert 'item "large" returned 2000' in large.error
    assert small.value == 2


def test_a_result_that_cannot_be_sent_is_the_error_of_its_item(runner: Runner[object]):
    bad, good = runner.run([Job("bad", "unsendable"), Job("good", 1)])
    assert bad.name == "bad"
    assert bad.error is not None
    assert "pickle" in bad.error
    assert good.value == 2


def test_nothing_to_do_takes_no_job(runner: Runner[object]):
    assert runner.run([]) == []


def test_a_job_that_dies_leaves_all_its_items_to_be_tried_again(spark: SparkSession):
    from headrace.connect.spark.items import SparkRunner

    runner = SparkRunner(spark, perform)
    outcomes = runner.run([Job("good", 1), Job("crash", "crash")])
    assert [outcome.retryable for outcome in outcomes] == [True, True]
    assert all(outcome.error for outcome in outcomes)
    assert runner.run([Job("good", 1)])[0].value == 2


def test_workers_are_processes_of_their_own_and_stay(spark: SparkSession):
    from headrace.connect.spark.items import SparkRunner, warm_up

    assert warm_up(spark) > 0
    runner = SparkRunner(spark, perform)
    seen = [{outcome.value for outcome in runner.run([Job("a", "process"), Job("b", "process")])} for _ in range(4)]
    assert len(set.union(*seen)) < 8


def test_workers_that_cannot_import_are_reported(spark: SparkSession):
    from headrace.connect.spark.items import warm_up

    with pytest.raises(ConnectError, match="cannot import what they need: ModuleNotFoundError"):
        warm_up(spark, ("no_such_module",))


@given(st.lists(st.floats(0, 100), max_size=40), st.integers(1, 8))
def test_groups_hold_every_item_once_and_no_group_is_much_heavier_than_its_share(weights: list[float], groups: int):
    made = group_by_weight(weights, groups)
    assert sorted(position for group in made for position in group) == list(range(len(weights)))
    assert len(made) == min(groups, len(weights))
    loads = [sum(weights[position] for position in group) for group in made]
    assert loads == sorted(loads, reverse=True)
    assert max(loads, default=0) <= sum(weights) / groups + max(weights, default=0) + sys.float_info.epsilon * 4000


def test_a_heavy_item_is_alone_and_first():
    assert group_by_weight([1, 1, 50, 1, 1], 3)[0] == [2]


def test_why_a_job_died_is_said_without_what_was_called():
    from headrace.connect.spark.items import in_words

    of_java = "An error occurred while calling o373.getResult.\n: org.apache.spark.SparkException: Job aborted"
    assert in_words(RuntimeError(of_java)) == "a job of Spark died: org.apache.spark.SparkException: Job aborted"
    caused = "Caused by: x.Y: Z\n\tat d\nCaused by: java.io.EOFException: no answer\n\t... 3 more"
    wrapped = f"{of_java}\n\tat a.b(C.scala:1)\n{caused}"
    assert in_words(RuntimeError(wrapped)) == "a job of Spark died: java.io.EOFException: no answer"
    assert in_words(RuntimeError("no more room\n  at f")) == "a job of Spark died: no more room"
    assert in_words(RuntimeError("An error occurred while calling f.")).endswith("An error occurred while calling f.")


def test_work_that_had_no_memory_says_so():
    assert describe(MemoryError()).startswith("MemoryError: there was no memory left")
    assert describe(ValueError("odd")).startswith("ValueError: odd")
