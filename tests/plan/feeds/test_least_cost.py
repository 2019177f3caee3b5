"""Least cost without targets: every price model against all assignments, and the numbers worked out by hand."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import numpy as np
import pytest

from headrace.plan.feeds.amounts import Amounts
from headrace.plan.feeds.cost import price
from headrace.plan.feeds.document import decide_instance, read_instance
from headrace.plan.feeds.exactly import decide_exactly
from headrace.plan.feeds.instance import Feeds, Model, Pricing
from headrace.plan.feeds.latency import LatencyMethod
from headrace.plan.feeds.per_pair import decide_pairs, in_whole_units
from tests.plan.feeds.exhaustive import best, feeds_cost
from tests.plan.feeds.instances import MODELS, Document, feeds, pushed, solve

INSTANCES = 150


def check(document: Document) -> None:
    expected, answer = best(document), solve(document)
    assert feeds_cost(document, pushed(answer)) == expected.cost
    assert answer["cost"] == pytest.approx(float(expected.cost), rel=1e-12)
    assert answer["push_all_cost"] == pytest.approx(float(expected.push_all_cost), rel=1e-12)
    assert answer["pull_all_cost"] == pytest.approx(float(expected.pull_all_cost), rel=1e-12)
    assert answer["optimal"] is True
    assert answer["lower_bound"] == answer["cost"]
    assert len(answer["push"]) == max(map(len, expected.pushes)), "a tie stores ahead"


@pytest.mark.parametrize("model", MODELS)
def test_every_price_model_equals_exhaustive_search(model: str):
    random = Random(model)
    for _ in range(INSTANCES):
        check(feeds(random, model))


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("model", MODELS)
def test_every_price_model_equals_exhaustive_search_on_thousands_of_instances(model: str):
    random = Random(f"{model}, at length")
    for _ in range(3_000):
        check(feeds(random, model))


def test_lemma_2_of_the_paper_is_not_optimal_when_every_producer_is_called():
    document = {
        "kind": "feeds", "H": 3, "L": 1, "model": "rpc",
        "producers": {"slow": 1, "fast": 9}, "consumers": {"c": {"rate": 6, "follows": ["slow", "fast"]}},
    }  # fmt: skip
    answer = solve(document)
    assert answer["cost"] == 9, "pulling both, as lemma 2 says, costs 12"
    assert answer["push"] == [["c", "slow"]]
    assert (answer["push_all_cost"], answer["pull_all_cost"]) == (30, 12)


def test_a_daily_reader_stores_a_daily_writer_and_reads_an_hourly_one():
    document = {
        "kind": "feeds", "H": 1, "L": 1,
        "producers": {"bob": 1, "alice": 24}, "consumers": {"david": {"rate": 1, "follows": ["bob", "alice"]}},
    }  # fmt: skip
    answer = solve(document)
    assert (answer["cost"], answer["push_all_cost"], answer["pull_all_cost"]) == (2, 25, 2)
    assert answer["push"] == [["david", "bob"]]


@pytest.mark.parametrize(
    ("query_rate", "event_rate", "stored"),
    [(1, 0, True), (0, 1, False), (0, 0, True)],
    ids=["a silent producer", "a consumer who never asks", "neither"],
)
def test_zero_rates_need_no_case_of_their_own(query_rate: int, event_rate: int, stored: bool):
    document = {
        "kind": "feeds", "H": 3, "L": 1,
        "producers": {"p": event_rate}, "consumers": {"c": {"rate": query_rate, "follows": ["p"]}},
    }  # fmt: skip
    answer = solve(document)
    assert (answer["push"] == [["c", "p"]]) is stored
    assert answer["cost"] == 0


def test_a_batch_is_not_worth_its_price_for_one_producer_but_is_for_two():
    def document(*followed: str) -> Document:
        return {
            "kind": "feeds", "H": 1, "L": 1, "L0": 3, "model": "batch",
            "producers": {"a": 3, "b": 3}, "consumers": {"c": {"rate": 1, "follows": followed}},
        }  # fmt: skip

    assert solve(document("a"))["push"] == [["c", "a"]]
    assert solve(document("a", "b"))["push"] == []


def test_recency_is_lemma_2_for_one_event_and_lemma_1_for_very_many():
    def document(model: str, shown: int = 1) -> Document:
        return {
            "kind": "feeds", "H": 1, "L": 1, "model": model, "k": shown,
            "producers": {"a": 1, "b": 2, "c": 5}, "consumers": {"x": {"rate": 3, "follows": ["a", "b", "c"]}},
        }  # fmt: skip

    assert solve(document("recency", 1))["push"] == solve(document("amortised"))["push"] == []
    assert solve(document("recency", 1000))["push"] == solve(document("rpc"))["push"] == [["x", "a"], ["x", "b"]]


def test_a_tie_that_only_the_last_digit_breaks_is_seen():
    def document(event_rate: str) -> str:
        consumers = '{"c": {"rate": 0.3, "follows": ["p"]}}'
        return f'{{"kind": "feeds", "H": 3, "L": 1, "producers": {{"p": {event_rate}}}, "consumers": {consumers}}}'

    def stored(event_rate: str) -> bool:
        return bool(decide_instance(read_instance(document(event_rate), "f")).ahead[0])

    assert stored("0.1"), "0.1 * 3 is 0.3, though not in doubles"
    assert not stored("0.1000000000000000000000000000001")


def random_arrays(random: Random, model: Model) -> Feeds:
    """Rates from few values, so that many pairs tie or nearly do; as a table would give them."""
    rng = np.random.default_rng(random.randrange(2**32))
    values = np.array([0.0, 0.1, 0.3, 0.30000000000000004, 1 / 3, 1.0, 3.0, 1e-300, 1e200])
    keys = np.unique(rng.integers(0, 20 * 15, 120))
    return Feeds(
        Amounts(rng.choice(values, 15)),
        Amounts(rng.choice(values, 20)),
        Amounts.constant(Fraction(3), 15),
        Amounts(rng.choice(np.array([1.0, 0.5]), 15)),
        keys // 15,
        keys % 15,
        Pricing(model, Fraction(1, 3), 3),
    )


@pytest.mark.parametrize("model", Model)
def test_doubles_and_integers_decide_alike_where_many_pairs_nearly_tie(model: Model):
    random = Random(str(model))
    for _ in range(60):
        instance = random_arrays(random, model)
        assert (decide_pairs(instance) == decide_exactly(instance, np.arange(len(instance)))).all()


def test_chunks_do_not_change_decisions_or_costs(monkeypatch: pytest.MonkeyPatch):
    instances = [random_arrays(Random(7), model) for model in Model]
    whole = [(decide_pairs(instance), price(instance, decide_pairs(instance))) for instance in instances]
    monkeypatch.setattr("headrace.plan.feeds.per_pair.CHUNK", 7)
    monkeypatch.setattr("headrace.plan.feeds.exactly.PIECE", 5)
    for instance, (ahead, costs) in zip(instances, whole, strict=True):
        assert (decide_pairs(instance) == ahead).all()
        assert price(instance, ahead).paid == pytest.approx(costs.paid)


def test_whole_consumers_never_cost_less_than_pairs():
    random = Random(11)
    for _ in range(100):
        document = feeds(random, random.choice(MODELS))
        whole, pairs = solve(document, LatencyMethod.WHOLESALE), solve(document)
        assert whole["cost"] >= pairs["cost"] * (1 - 1e-12)
        assert whole["lower_bound"] == pytest.approx(pairs["cost"], rel=1e-15)
        assert whole["cost"] <= min(whole["push_all_cost"], whole["pull_all_cost"]) * (1 + 1e-12)


def test_amounts_with_few_decimals_are_decided_in_whole_units_and_others_are_left_alone():
    def instance(query_rate: list[float]) -> Feeds:
        prices = Amounts.constant(Fraction("0.3"), 1), Amounts.constant(Fraction("0.1"), 1)
        return Feeds(Amounts(np.array([0.1])), Amounts(np.array(query_rate)), *prices, np.array([0]), np.array([0]))

    tenths = in_whole_units(instance([0.3]))
    assert (tenths.query_rate.near[0], tenths.event_rate.near[0], tenths.store_price.near[0]) == (3, 1, 3)
    assert decide_pairs(instance([0.3])).all()
    for query_rate in (1 / 3, 0.30000000000000004, 1e300, 1e-7):
        assert in_whole_units(instance([query_rate])).query_rate.near[0] == query_rate
    almost = Amounts.of([Fraction("0.1000000000000000000001")])
    assert almost.near[0] == 0.1
    assert not almost.is_whole_times(10)
