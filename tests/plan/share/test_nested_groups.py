"""Groups from finer groups: a view that groups is read from another one that lives, where that is cheaper."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace import Project
from headrace.declare.sql import read_query
from headrace.meaning.evaluate import evaluate
from headrace.model.catalogue import Catalogue, Contract
from headrace.model.plan import Operator, Plan, PlanOptions
from headrace.model.plan_modes import Sharing
from headrace.model.relation import Field
from headrace.plan.canonical.block_relation import relation_of
from headrace.plan.canonical.blocks import blocks_of
from headrace.plan.canonical.subsume import subsumes
from headrace.plan.check import check_document
from headrace.plan.document import plan_document
from headrace.plan.make import make_plan
from headrace.plan.share.change import add_contract, remove_contract
from headrace.plan.share.forms import read_from
from headrace.testing import SCHEMA, tables
from headrace.testing.plans import simulate
from tests.examples import examples
from tests.plan.share.projects import with_contracts
from tests.plan.test_subsume import HOLDS
from tests.plan.written import contract

SITES = ("us", "eu")
COLUMNS = {name: tuple(Field(c.name, c.type) for c in source.columns or ()) for name, source in SCHEMA.items()}


def views() -> dict[str, str]:
    def counts(seconds: int, keys: str = "kind", having: str = "", where: str = "") -> str:
        window = f"window(at, '{seconds} seconds')"
        return (
            f"SELECT window.start AS since, {keys}, count(*) AS c, sum(n) AS total FROM events {where} "
            f"GROUP BY {window}, {keys} {having}"
        )

    return {
        "per_30_s": counts(30),
        "per_60_s": counts(60),
        "per_45_s": counts(45),
        "many_per_30_s": counts(30, having="HAVING count(*) > 100"),
        "per_120_s_of_one_kind": counts(120, where="WHERE kind = 'a'"),
        "per_30_s_by_place": counts(30, keys="kind, place"),
        "by_kind": "SELECT kind, count(*) AS c FROM events GROUP BY kind",
        "by_kind_and_place": "SELECT kind, place, count(*) AS c, avg(n) AS mean FROM events GROUP BY kind, place",
        "in_all": "SELECT count(*) AS c FROM events",
        "mean": "SELECT kind, avg(n) AS mean FROM events GROUP BY kind",
    }


@cache
def project() -> Catalogue:
    made = Project("events", headroom={"cpu": 0, "link": 0, "blocking": 0})
    for name in SITES:
        made.site(name, cpu="0.34 $/core-hour", disk="0.11 $/GB-month")
    made.link(between=SITES, bandwidth="10 MB/s", latency="50 ms", price="0.02 $/GB")
    columns: dict[str, str | dict[str, str | float]] = {
        "id": "bigint",
        "kind": {"type": "string", "distinct": 5},
        "place": {"type": "string", "distinct": 4},
        "at": {"type": "timestamp", "distinct": 20},
        "n": "bigint",
    }
    made.source("events", at="us", key="id", rows=1e6, rate=1000, columns=columns)
    for name, sql in views().items():
        made.view(name, sql)
    return made.catalogue


def wanted(view: str, at: str = "eu", freshness: float = 60.0) -> Contract:
    return contract(f"{view}_{at}", view, at, freshness, 0.0)


def plan_for(*contracts: Contract, sharing: Sharing = Sharing.MARGINAL) -> Plan:
    return make_plan(with_contracts(project(), contracts), PlanOptions(sharing=sharing))


def sources_of(plan: Plan, view: str) -> list[str]:
    return next(list(entry.reads.values()) for entry in plan.blocks if entry.block.id == view)


def assert_right(plan: Plan, seed: int = 0) -> None:
    document: dict[str, Any] = json.loads(json.dumps(plan_document(plan), allow_nan=False))
    assert check_document(document) == []
    assert simulate(document, seed, changes=12) == []


def test_minutes_are_added_up_from_half_minutes_whichever_came_first():
    plan = plan_for(wanted("per_60_s"), wanted("per_30_s"))
    assert sources_of(plan, "per_60_s") == ["per_30_s"]
    assert sources_of(plan, "per_30_s") == ["events"]
    merged = plan_for(wanted("per_60_s"), wanted("per_30_s"), sharing=Sharing.MERGE)
    assert plan.totals.rescost < 0.8 * merged.totals.rescost
    assert_right(plan)


def test_a_threshold_on_groups_is_a_filter_of_all_groups():
    plan = add_contract(plan_for(wanted("per_30_s")), wanted("many_per_30_s"))
    assert sources_of(plan, "many_per_30_s") == ["per_30_s"]
    assert sum(edge.op is Operator.AGGREGATE for edge in plan.graph.edges.values()) == 1
    assert_right(plan)


def test_groups_of_other_windows_and_averages_are_made_from_the_events():
    plan = plan_for(wanted("per_30_s"), wanted("per_45_s"), wanted("by_kind_and_place"), wanted("mean"))
    assert sources_of(plan, "per_45_s") == sources_of(plan, "mean") == ["events"]
    assert_right(plan)


def test_a_chain_of_ever_coarser_groups():
    plan = plan_for(wanted("per_30_s_by_place"), wanted("per_60_s"), wanted("per_30_s"), wanted("by_kind"))
    assert sources_of(plan, "per_60_s") in (["per_30_s"], ["per_30_s_by_place"])
    assert sources_of(plan, "by_kind") == ["events"]
    assert_right(plan)


def test_all_contracts_of_a_view_read_it_in_one_form():
    plan = plan_for(wanted("per_60_s", "us"))
    for more in (wanted("per_30_s"), wanted("per_60_s")):
        plan = add_contract(plan, more)
        assert sources_of(plan, "per_60_s") == ["events"]
        assert_right(plan)


def test_coarser_groups_stay_when_the_finer_contract_goes_and_are_free_again_afterwards():
    plan = remove_contract(plan_for(wanted("per_60_s"), wanted("per_30_s")), "per_30_s_eu")
    assert sources_of(plan, "per_60_s") == ["per_30_s"]
    assert_right(plan)
    again = add_contract(remove_contract(plan, "per_60_s_eu"), wanted("per_60_s"))
    assert sources_of(again, "per_60_s") == ["events"]
    assert_right(again)


TERMS = st.tuples(st.sampled_from(sorted(views())), st.sampled_from(SITES), st.sampled_from((10.0, 60.0, 600.0)))
SETS = st.lists(TERMS, min_size=2, max_size=6, unique_by=lambda terms: terms[:2])


@settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(terms=SETS, seed=st.integers(0, 99))
def test_plans_of_nested_groups_pass_the_check_and_give_what_the_queries_give(terms, seed):
    plan = plan_for(*(wanted(*one) for one in terms))
    assert not plan.rejected
    assert_right(plan, seed)


@settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))
@given(terms=SETS, seed=st.integers(0, 99))
def test_contracts_on_groups_may_come_and_go(terms, seed):
    plan = plan_for()
    for view, at, freshness in terms:
        plan = add_contract(plan, wanted(view, at, freshness))
        assert_right(plan, seed)
    for view, at, _ in terms[:-1]:
        plan = remove_contract(plan, f"{view}_{at}")
        assert_right(plan, seed)


@settings(max_examples=examples(100), deadline=None)
@given(pair=st.sampled_from([pair for pair in HOLDS if "group by" in pair[0]]), sample=tables())
def test_the_block_that_reads_another_has_the_rows_of_its_own_form(pair, sample):
    wide, narrow = (blocks_of(name, read_query(sql, SCHEMA)) for name, sql in zip(("w", "n"), pair, strict=True))
    remainder = subsumes(wide[-1], narrow[-1])
    assert remainder is not None
    found = relation_of((*wide, read_from(narrow[-1], wide[-1], remainder)), COLUMNS)
    assert evaluate(found, sample) == evaluate(read_query(pair[1], SCHEMA), sample)
