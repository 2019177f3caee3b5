"""Instances as people and programs write them: numbers exactly, and every mistake with its place and a hint."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from headrace.model.errors import InputError, Location
from headrace.plan.feeds.document import answer, decide_instance, read_instance
from headrace.plan.feeds.feeds_document import NamedFeeds
from headrace.plan.feeds.instance import MeanPulls, Model, Percentile, Pricing
from tests.plan.feeds.instances import Document

GOOD: Document = {
    "kind": "feeds", "H": 3, "L": 1,
    "producers": {"p": 1.0, "q": {"rate": 5, "L": 2}}, "consumers": {"c": {"rate": 4, "follows": ["p", "q"]}},
}  # fmt: skip
NETWORK: Document = {"kind": "composite", "H": 3, "L": 1, "nodes": {"a": {}, "b": {}}, "edges": [["a", "b"]]}


def mistakes(text: str) -> list[str]:
    with pytest.raises(InputError) as raised:
        read_instance(text, "f.json")
    assert all(problem.where is not None for problem in raised.value.problems)
    return [problem.message for problem in raised.value.problems]


def test_the_answer_has_exactly_the_documented_fields():
    named = read_instance(json.dumps(GOOD), "f.json")
    document = answer(named, decide_instance(named), 0.25)
    assert json.loads(json.dumps(document)) == {
        "cost": 11,
        "push_all_cost": 18,
        "pull_all_cost": 12,
        "lower_bound": 11,
        "optimal": True,
        "seconds": 0.25,
        "push": [["c", "p"]],
    }


def test_defaults_are_batch_ten_events_and_no_price_of_a_batch():
    named = read_instance(json.dumps(GOOD), "f.json")
    assert isinstance(named, NamedFeeds)
    assert named.feeds.pricing == Pricing(Model.BATCH, Fraction(0), 10)
    assert named.latency is None


def test_numbers_are_taken_exactly_as_written():
    text = json.dumps(GOOD).replace('"p": 1.0', '"p": 0.1000000000000000000000001').replace('"H": 3', '"H": 3e-1')
    named = read_instance(text, "f.json")
    assert isinstance(named, NamedFeeds)
    assert named.feeds.event_rate.exact == (Fraction("0.1000000000000000000000001"), Fraction(5))
    assert named.feeds.store_price.exact == (Fraction(3, 10),)


@pytest.mark.parametrize(
    ("latency", "expected"),
    [
        ({"kind": "mean_pulls", "max": 0.5}, MeanPulls(Fraction(1, 2))),
        ({"kind": "percentile", "q": 0.95, "max_pulls": 1}, Percentile(Fraction(19, 20), 1)),
    ],
)
def test_latency_targets_are_read(latency: Document, expected: MeanPulls | Percentile):
    named = read_instance(json.dumps({**GOOD, "latency": latency}), "f.json")
    assert isinstance(named, NamedFeeds)
    assert named.latency == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"H": -1}, '"H" must not be negative, but is -1'),
        ({"H": "3"}, '"H" must be a number, not "3"'),
        ({"H": True}, '"H" must be a number, not true'),
        ({"model": "push"}, 'the model must be one of rpc, amortised, batch, recency, not "push"'),
        ({"k": 0}, 'the number of events shown, "k", must be an integer from 1 to 100000, not 0'),
        ({"k": 2.5}, 'the number of events shown, "k", must be an integer from 1 to 100000, not 2.5'),
        ({"l0": 1}, 'the instance has an unknown field "l0"'),
        ({"producers": {"p": -2, "q": 1}}, 'the rate of producer "p" must not be negative, but is -2'),
        ({"producers": {"p": {"L": 1}, "q": 1}}, 'producer "p" has no "rate"'),
        ({"producers": {"p": None, "q": 1}}, 'the rate of producer "p" must be a number, not null'),
        ({"producers": []}, '"producers" must be an object, not []'),
        ({"consumers": {"c": {"rate": -4}}}, 'the rate of consumer "c" must not be negative, but is -4'),
        ({"consumers": {"c": 4}}, 'consumer "c" must be an object, not 4'),
        ({"consumers": {"c": {"rate": 4, "follows": "p"}}}, 'what consumer "c" follows must be a list, not "p"'),
        ({"consumers": {"c": {"rate": 4, "follows": ["P"]}}}, 'consumer "c" follows an unknown producer, "P"'),
        ({"consumers": {"c": {"rate": 4, "follows": [["p"]]}}},
         'consumer "c" follows something that is not the name of a producer'),
        ({"consumers": {"c": {"rate": 4, "follows": ["p", "q", "p"]}}}, 'consumer "c" follows producer "p" twice'),
        ({"latency": {"kind": "median"}}, 'the kind of a latency target must be "mean_pulls" or "percentile"'),
        ({"latency": {"kind": "mean_pulls"}}, '"latency" has no "max"'),
        ({"latency": {"kind": "percentile", "q": 1.5, "max_pulls": 0}},
         'the share of queries, "q", must be at most 1, but is 1.5'),
        ({"model": "recency", "latency": {"kind": "mean_pulls", "max": 1}},
         'a latency target does not go with model "recency"'),
    ],
)  # fmt: skip
def test_a_mistake_in_an_instance_is_named(change: Document, message: str):
    assert message in mistakes(json.dumps({**GOOD, **change}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edges": [["a", "z"]]}, 'an edge names an unknown node, "z"'),
        ({"edges": [["a"]]}, "an edge must name two nodes"),
        ({"edges": ["ab"]}, 'an edge must be a list, not "ab"'),
        ({"edges": [["a", "b"], ["a", "b"]]}, 'the edge from node "a" to node "b" is there twice'),
        ({"edges": [["a", "b", {"h": 1}]]}, 'the third entry of an edge has an unknown field "h"'),
        ({"edges": [["a", "b", {"H": -1}]]}, '"H" of an edge must not be negative, but is -1'),
        ({"edges": [["a", "b"], ["b", "a"]]}, 'nodes follow each other in a circle: "a" -> "b"'),
        ({"edges": [["a", "a"]]}, 'nodes follow each other in a circle: "a"'),
        ({"nodes": {"a": {"pass": 2}, "b": {}}, "edges": [["a", "b"], ["b", "a"]], "pull_accounting": "distinct"},
         'node "a" is in a circle and passes more than it gets'),
        ({"nodes": {"a": {"rate": 2}, "b": {}}}, 'node "a" has an unknown field "rate"'),
        ({"pull_accounting": "path"}, 'the pull accounting must be one of paths, distinct, not "path"'),
    ],
)  # fmt: skip
def test_a_mistake_in_a_network_is_named(change: Document, message: str):
    assert message in mistakes(json.dumps({**NETWORK, **change}))


@pytest.mark.parametrize("missing", ["H", "L"])
def test_a_price_is_needed_unless_everybody_has_its_own(missing: str):
    without = {name: value for name, value in GOOD.items() if name != missing}
    assert mistakes(json.dumps(without)) == [f'the instance has no "{missing}"']
    own = {name: {"rate": 1, missing: 2} for name in ("p", "q")}
    assert read_instance(json.dumps({**without, "producers": own}), "f.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        (" \n", "the file is empty"),
        ("[1]", "an instance must be an object, not [1]"),
        ("{}", 'the instance has no "kind"'),
        ('{"kind": "feed"}', 'the kind of an instance must be one of feeds, composite, not "feed"'),
        ('{"kind": "feeds",}', "not JSON: "),
        ('{"kind": "feeds", "kind": "feeds"}', '"kind" is written twice'),
        ("[" * 100_000, "not JSON that can be read: nested too deeply"),
    ],
)
def test_a_text_that_is_no_instance_is_refused(text: str, message: str):
    found = mistakes(text)
    assert found[0].startswith(message)


@pytest.mark.parametrize("number", ["NaN", "-Infinity"])
def test_what_is_no_number_is_refused_at_its_place(number: str):
    with pytest.raises(InputError) as raised:
        read_instance(json.dumps(GOOD).replace('"H": 3', f'"H": {number}'), "f.json")
    assert [str(problem.where) for problem in raised.value.problems] == ["f.json:1:24"]
    assert raised.value.problems[0].message == f'"H" must be finite, not {number}'


@pytest.mark.parametrize("number", ["1e400", "1e-400", "1e999999999", "1e99999999999999999999", "9" * 5000])
def test_a_number_beyond_all_measure_is_refused_at_once(number: str):
    assert mistakes(json.dumps(GOOD).replace('"H": 3', f'"H": {number}'))


def test_mistakes_are_reported_together_each_at_its_place():
    text = """{"kind": "feeds", "H": -1, "L": 1,
 "producers": {"p": 1},
 "consumers": {"c": {"rate": 1, "follows": ["x"]}}}"""
    with pytest.raises(InputError) as raised:
        read_instance(text, "f.json")
    assert [problem.where for problem in raised.value.problems] == [
        Location("f.json", 1, 24),
        Location("f.json", 3, 45),
    ]


def test_a_mistake_repeated_a_million_times_is_reported_a_few_times():
    consumers = {f"c{n}": {"rate": 1, "follows": ["nobody"]} for n in range(5000)}
    assert len(mistakes(json.dumps({**GOOD, "consumers": consumers}))) == 21
