"""Why: the sentence a person reads about one pair."""

from __future__ import annotations

import json

import pytest

from headrace.model.errors import UsageError
from headrace.plan.feeds.document import decide_instance, read_instance
from headrace.plan.feeds.explain import why
from headrace.plan.feeds.explain_pair import PairReason, headline
from tests.plan.feeds.instances import Document


def explain(document: Document, who: str, whom: str) -> PairReason:
    named = read_instance(json.dumps(document), "instance.json")
    return why(named, decide_instance(named).ahead, who, whom)


def follower(**more: object) -> Document:
    return {
        "kind": "feeds", "H": 3, "L": 1, "producers": {"bob": 40, "eve": 0.5},
        "consumers": {"anna": {"rate": 2, "follows": ["bob", "eve"]}}, **more,
    }  # fmt: skip


def test_the_headline_names_the_rates_that_decided():
    assert headline(False, 40, 2) == "on read: 40 events/h against 2 reads/h"
    assert headline(True, 0.5, 2, "min") == "stored ahead: 0.5 events/min against 2 reads/min"


def test_a_pair_says_what_both_ways_cost():
    assert str(explain(follower(), "anna", "bob")) == (
        "on read: 40 events/h against 2 reads/h\n  storing ahead costs 120/h, reading 2/h"
    )
    assert explain(follower(), "anna", "eve").headline == "stored ahead: 0.5 events/h against 2 reads/h"


def test_a_tie_says_so():
    document = follower(producers={"bob": 40, "eve": {"rate": 1, "L": 1.5}})
    assert explain(document, "anna", "eve").details == ("storing ahead costs 3/h, reading 3/h; a tie is stored ahead",)


def test_a_batch_that_does_not_pay_says_so():
    assert explain(follower(L0=100), "anna", "bob").details[1:] == (
        "asking for anything on read costs 200/h on top, per consumer",
        "all that this consumer could save on read is 118/h: less than that",
    )


def test_a_pair_moved_for_latency_says_so():
    document = follower(latency={"kind": "mean_pulls", "max": 0})
    assert explain(document, "anna", "bob").details[-1] == "moved ahead for the latency target, for 118/h more"


@pytest.mark.parametrize("model", ["amortised", "recency"])
def test_models_that_share_out_a_call_show_the_share(model: str):
    details = explain(follower(model=model, k=1), "anna", "eve").details
    assert details == (f"storing ahead costs 1.5/h, reading {2 * 0.5 / 40.5:.4g}/h",)


def test_an_edge_that_waits_for_another_names_it():
    document = {
        "kind": "composite", "H": 3, "L": 1,
        "nodes": {"a": {"event_rate": 20}, "agg": {"pass": 0.1}, "c": {"query_rate": 30}},
        "edges": [["a", "agg"], ["agg", "c"]],
    }  # fmt: skip
    found = explain(document, "c", "agg")
    assert found.headline == "on read: 2 events/h against 30 reads/h"
    assert found.details[1] == '"agg" pulls "a", so it has nothing to store ahead'


def test_an_edge_stored_for_the_sake_of_others_says_so():
    document = {
        "kind": "composite", "H": 3, "L": 1,
        "nodes": {"a": {"event_rate": 20}, "agg": {"pass": 0.1}, "c": {"query_rate": 35}},
        "edges": [["a", "agg"], ["agg", "c"]],
    }  # fmt: skip
    assert explain(document, "agg", "a").details[1] == 'stored ahead for what "agg" stores ahead in turn'


@pytest.mark.parametrize(("who", "whom"), [("anna", "zoe"), ("bob", "anna")], ids=["unknown", "the wrong way round"])
def test_a_pair_that_does_not_exist_is_wrong_use(who: str, whom: str):
    with pytest.raises(UsageError, match=f'"{who}" does not follow "{whom}"'):
        explain(follower(), who, whom)
