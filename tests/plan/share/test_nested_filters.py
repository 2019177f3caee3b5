"""Contracts whose filters contain one another: the narrower is made from the wider where that is cheaper."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.model.plan import Operator, Plan, PlanOptions
from headrace.model.plan_modes import Sharing
from headrace.plan.check import check_document
from headrace.plan.check.predicates import implies
from headrace.plan.document import plan_document
from headrace.plan.share.change import add_contract, remove_contract
from headrace.testing.plans import simulate
from tests.examples import examples
from tests.plan.share.nested import SITES, nested_views, plan_for, wanted

VIEWS = sorted(nested_views())


def document_of(plan: Plan) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(plan_document(plan), allow_nan=False))
    return found


def assert_right(plan: Plan, seed: int = 0) -> None:
    document = document_of(plan)
    assert check_document(document) == []
    assert simulate(document, seed, changes=16) == []


def nested_edges(plan: Plan) -> Iterator[tuple[str, str]]:
    """Operator and filter of the edges that narrow what was filtered before."""
    for edge in plan.graph.edges.values():
        if edge.op is not Operator.JOIN and edge.select and any(_is_filtered(plan, name) for name in edge.inputs):
            yield edge.op, edge.select[0].text


def _is_filtered(plan: Plan, name: str) -> bool:
    edge = plan.graph.edges.get(name)
    return edge is not None and (bool(edge.select) or any(_is_filtered(plan, input_) for input_ in edge.inputs))


def test_a_narrower_range_is_read_from_the_wider_one_at_the_same_site():
    plan = plan_for(wanted("over_5"))
    more = add_contract(plan, wanted("over_7"))
    assert list(nested_edges(more)) == [(Operator.APPLY, "total > 7")]
    assert Operator.JOIN not in {e.op for name, e in more.graph.edges.items() if name not in plan.graph.edges}
    assert more.totals.rescost < plan_for(wanted("over_5"), wanted("over_7"), sharing=Sharing.MERGE).totals.rescost
    assert_right(more)


def test_a_narrower_range_is_copied_from_the_wider_one_at_another_site():
    more = add_contract(plan_for(wanted("over_5")), wanted("over_7", "asia"))
    assert list(nested_edges(more)) == [(Operator.COPY, "total > 7")]
    assert_right(more)


def test_a_wider_range_is_never_read_from_a_narrower_one():
    more = add_contract(plan_for(wanted("over_7")), wanted("over_5"))
    assert not list(nested_edges(more))
    assert_right(more)


def test_ranges_that_overlap_serve_nobody_but_their_own():
    more = add_contract(plan_for(wanted("over_5")), wanted("under_7"))
    assert not list(nested_edges(more))
    assert_right(more)


def test_a_part_of_a_larger_join_is_read_from_the_wider_part_where_it_lives():
    plan = plan_for(wanted("over_5"))
    more = add_contract(plan, wanted("over_7_with_items"))
    joined = [e for name, e in more.graph.edges.items() if name not in plan.graph.edges and e.op is Operator.JOIN]
    assert any(filter_.text == "total > 7" for edge in joined for filter_ in edge.select)
    assert_right(more)


def test_all_together_the_narrow_are_planned_on_the_wide_whichever_came_first():
    plan = plan_for(wanted("over_7"), wanted("over_5"), wanted("between_6_and_9", "asia"))
    assert len(list(nested_edges(plan))) == 2
    assert_right(plan)


def test_columns_that_the_narrower_filter_reads_are_kept_by_the_wider_when_that_pays():
    plan = plan_for(wanted("lean_over_5"), wanted("lean_over_7"))
    alone = plan_for(wanted("lean_over_5"), wanted("lean_over_7"), sharing=Sharing.MERGE)
    assert plan.totals.rescost < alone.totals.rescost
    assert list(nested_edges(plan))
    assert_right(plan)


def test_what_is_narrowed_stays_right_when_the_wider_contract_goes():
    more = add_contract(plan_for(wanted("over_5")), wanted("over_7"))
    left = remove_contract(more, "over_5_eu")
    assert [entry.contract for entry in left.contracts] == ["over_7_eu"]
    assert_right(left)


def test_a_relation_that_is_only_filtered_out_of_another_is_not_joined():
    more = add_contract(plan_for(wanted("over_5")), wanted("over_7"))
    assert [e.op for n, e in more.graph.edges.items() if e.select and e.op is Operator.APPLY] == [Operator.APPLY]
    view = next(entry.vertex for entry in more.contracts if entry.contract == "over_7_eu")
    most = add_contract(more, wanted("over_7_with_items"))
    assert not any(view in edge.inputs for edge in most.graph.edges.values())
    assert_right(most)


SETS = st.lists(
    st.tuples(st.sampled_from(VIEWS), st.sampled_from(SITES), st.sampled_from((10.0, 60.0))),
    min_size=2,
    max_size=5,
    unique_by=lambda terms: terms[:2],
)


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(terms=SETS, seed=st.integers(0, 99))
def test_plans_of_nested_contracts_pass_the_check_and_give_what_the_queries_give(terms, seed):
    contracts = [wanted(view, at, freshness) for view, at, freshness in terms]
    plan = plan_for(*contracts)
    assert not plan.rejected
    assert_right(plan, seed)


@settings(max_examples=examples(15), deadline=None, suppress_health_check=list(HealthCheck))
@given(terms=SETS, seed=st.integers(0, 99))
def test_contracts_that_come_one_by_one_pass_as_well(terms, seed):
    plan = plan_for()
    for view, at, freshness in terms:
        plan = add_contract(plan, wanted(view, at, freshness))
        assert_right(plan, seed)
    for view, at, _ in terms[:-1]:
        plan = remove_contract(plan, f"{view}_{at}")
        assert_right(plan, seed)


@pytest.mark.parametrize("seed", range(6))
def test_the_check_refuses_every_other_filter_on_the_edge_that_narrows(seed):
    """Wrong constants, a filter left out, a wider one in its place: whatever simulates wrongly is refused."""
    rng = random.Random(seed)
    document = document_of(plan_for(wanted("over_7"), wanted("over_5"), wanted("between_6_and_9", "asia")))
    texts = sorted({text for view in document["views"] for _, text, _ in view["filters"]})
    wrong = 0
    for number, edge in enumerate(document["edges"]):
        if not edge["select"]:
            continue
        changed = copy.deepcopy(document)
        alias, text = next(iter(edge["select"].items()))
        other = rng.choice([one for one in (*texts, None) if one != text])
        changed["edges"][number]["select"] = {} if other is None else {alias: other}
        if any(simulate(changed, attempt, changes=30) for attempt in range(4)):
            wrong += 1
            assert check_document(changed), (edge, other)
    assert wrong or seed


def test_the_check_computes_the_rates_of_what_is_narrowed_from_its_own_filter():
    document = document_of(add_contract(plan_for(wanted("over_5")), wanted("over_7", "asia")))
    edge = next(edge for edge in document["edges"] if edge["op"] == "copy" and "total > 7" in edge["select"].values())
    vertex = next(vertex for vertex in document["vertices"] if vertex["id"] == edge["out"])
    vertex["rate"] *= 1.5
    assert any("rows/s" in what for _, what in check_document(document))


@pytest.mark.parametrize(
    ("narrow", "wide", "found"),
    [
        ("x > 7", "x > 5", True),
        ("x > 5", "x > 7", False),
        ("x >= 5", "x > 5", False),
        ("x > 5", "x >= 5", True),
        ("x = 6", "x > 5 AND x < 9", True),
        ("x IN (6, 7)", "x > 5", True),
        ("x IN (5, 7)", "x > 5", False),
        ("x IN (1, 2)", "x IN (1, 2, 3)", True),
        ("x > 7", "x <> 5", True),
        ("x > 7", "x NOT IN (5, 8)", False),
        ("x > 7", "x IS NOT NULL", True),
        ("y > 7", "x > 5", False),
        ("x > 7 AND lower(y) = 'a'", "lower(y) = 'a'", True),
        ("x > 7", "lower(y) = 'a'", False),
        ("d > DATE '2024-05-01'", "d >= DATE '2024-01-01'", True),
        ("name = 'b'' AND x > 7", "x > 5", False),
        ("name = 'b AND x > 7'", "x > 5", False),
        ("x > 7 OR y = 1", "x > 5", False),
        ("CASE WHEN a = 1 AND x > 7 AND b = 1 THEN TRUE ELSE FALSE END", "x > 5", False),
        ("x > 10", "x > 9.5", True),
        ("x > 1e3", "x > 999", True),
        ("x > '7'", "x > 5", False),
    ],
)
def test_texts_tell_which_predicate_implies_which(narrow, wide, found):
    assert implies(narrow, wide) is found


def test_nothing_is_subsumed_where_nothing_is_shared():
    plan = plan_for(wanted("over_5"), wanted("over_7"), sharing=Sharing.NONE)
    assert not list(nested_edges(plan))
    assert plan.options == PlanOptions(sharing=Sharing.NONE)
