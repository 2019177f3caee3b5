"""Why a plan is as it is, and what would be different."""

from __future__ import annotations

import pytest

from headrace import Project
from headrace.declare.read import read_project
from headrace.model.errors import UsageError
from headrace.model.explanation import ImaginedChange, StatisticOrigin, WhyContract, WhyRejected, WhyVertex
from headrace.model.plan import Operator, PlanOptions
from headrace.model.plan_modes import Sharing
from headrace.plan.explain import grounds, sources_of, what_if, what_if_running, why
from headrace.plan.make import make_plan
from headrace.plan.share.adapt import plan_as_measured
from headrace.plan.share.revalue import Measured
from tests.plan.share import nested
from tests.plan.share import test_nested_groups as groups
from tests.plan.test_document import VIEWS, written_project
from tests.plan.written import shared

SOME = {name: VIEWS[name] for name in ("joined", "with_static", "per_region")}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    contracts = {
        "joined_eu": ("joined", "eu", "30 s"),
        "joined_ap": ("joined", "ap", "30 s"),
        "regions_us": ("per_region", "us", "20 s"),
        "hasty": ("with_static", "us", "50 ms"),
    }
    return read_project(written_project(tmp_path_factory.mktemp("why") / "project", SOME, contracts), {})


@pytest.fixture(scope="module")
def plan(project):
    return make_plan(project)


def test_a_kept_contract_is_explained_by_its_critical_path_and_its_alternatives(plan):
    (answer,) = why(plan, "joined_ap")
    assert isinstance(answer, WhyContract)
    assert answer.limit_s == 15.0
    assert answer.steps[-1].arrives_s == pytest.approx(answer.plan.critical_path_s)
    assert sum(step.time_s for step in answer.steps) == pytest.approx(answer.plan.critical_path_s)
    by_name = {alternative.name: alternative for alternative in answer.alternatives}
    assert by_name["fastest, whatever it costs"].path_s <= answer.plan.critical_path_s * (1 + 1e-9)
    assert by_name["cheapest, sharing nothing"].cost > by_name["cheapest, however late"].cost
    assert answer.others == len({c for v in answer.shared for c in plan.vertex_figures[v].serves} - {"joined_ap"})


def test_the_runner_up_keeps_the_promise_too_and_is_no_cheaper(plan):
    answers = [answer for name in ("joined_eu", "joined_ap", "regions_us") for answer in why(plan, name)]
    named = [
        {other.name: other for other in answer.alternatives} for answer in answers if isinstance(answer, WhyContract)
    ]
    with_runner_up = [others for others in named if "runner-up" in others]
    assert with_runner_up
    for others in with_runner_up:
        assert others["runner-up"].why_not is None
        assert others["runner-up"].cost >= others["cheapest, however late"].cost * (1 - 1e-9)


def test_the_cheapest_plan_is_explained_away_when_it_is_too_late():
    (answer,) = why(make_plan(read_project(shared("examples", "missing-middle"), {})), "S")
    assert isinstance(answer, WhyContract)
    by_name = {alternative.name: alternative for alternative in answer.alternatives}
    late, fast = by_name["cheapest, however late"], by_name["fastest, whatever it costs"]
    assert late.states == ("r:A@m3", "r:B@m3")
    assert late.why_not == "takes 2.362 s, and 2 s are left"
    assert (fast.states, fast.why_not) == (("r:A@m1", "r:B@m1"), None)
    assert late.cost < answer.plan.cost < fast.cost


def test_a_refused_contract_is_explained_by_the_fastest_plan(plan):
    (answer,) = why(plan, "hasty")
    assert isinstance(answer, WhyRejected)
    assert answer.rejection.reason == "freshness"
    fastest = answer.alternatives[1]
    assert fastest.path_s == answer.rejection.fastest_cp_s
    assert fastest.why_not is not None


def test_a_view_is_explained_by_all_its_contracts(plan):
    answers = why(plan, "joined")
    assert [answer.plan.contract for answer in answers if isinstance(answer, WhyContract)] == ["joined_eu", "joined_ap"]


def test_a_vertex_is_explained_by_how_it_is_made_and_whom_it_serves(plan):
    union = next(name for name, edge in plan.graph.edges.items() if edge.op is Operator.UNION)
    (answer,) = why(plan, union)
    assert isinstance(answer, WhyVertex)
    assert answer.producer == plan.graph.edges[union]
    assert answer.readers
    assert answer.cost > 0
    (source,) = why(plan, "r:orders@us")
    assert isinstance(source, WhyVertex)
    assert (source.producer, source.cost) == (None, 0.0)


def test_a_name_that_does_not_exist_gets_the_nearest_one(plan):
    with pytest.raises(UsageError, match="not a contract, a view or a source") as error:
        why(plan, "joined_eur")
    assert error.value.hint == 'did you mean "joined_eu"?'


def test_alternatives_of_separate_plans_are_separate_too(project):
    plan = make_plan(project, PlanOptions(sharing=Sharing.NONE))
    (answer,) = why(plan, "joined_eu")
    assert isinstance(answer, WhyContract)
    assert answer.shared == ()
    names = [other.name for other in answer.alternatives]
    assert names == ["runner-up", "cheapest, however late", "fastest, whatever it costs"]


def test_a_stricter_promise_may_be_refused(project):
    result = what_if(project, "joined_eu", ImaginedChange(freshness_s=0.1))
    assert result.before.kept
    assert not result.after.kept
    assert result.after.reason == "freshness"
    assert result.after.smallest_staleness_s is not None


def test_more_changes_cost_everybody_more(project):
    result = what_if(project, "joined_eu", ImaginedChange(rate={"orders": 240.0}))
    assert result.before.cost is not None
    assert result.after.cost is not None
    assert result.after.cost > result.before.cost
    assert set(result.others) >= {"joined_ap", "regions_us"}
    assert result.rescost[1] > result.rescost[0]


def test_another_site_or_a_wider_link_is_imagined_without_doing_it(project):
    moved = what_if(project, "regions_us", ImaginedChange(site="ap"))
    assert moved.after.kept
    assert moved.after.cost != moved.before.cost
    same = what_if(project, "regions_us", ImaginedChange(bandwidth={("us", "eu"): 12.5e6}))
    assert (same.after, same.others) == (same.before, {})


def test_what_runs_is_changed_from_what_was_measured(plan):
    measured = Measured(0, rates={"orders": 360.0}, slowness=dict.fromkeys(plan.graph.edges, 2.0))
    running = plan_as_measured(plan, measured)
    assert running.graph.edges == plan.graph.edges
    same = what_if_running(running, "joined_eu", ImaginedChange())
    assert same.before == same.after and not same.others
    less = what_if_running(running, "joined_eu", ImaginedChange(rate={"orders": 120.0}))
    assert less.after.cost is not None and less.before.cost is not None and less.after.cost < less.before.cost
    known = grounds(running.catalogue, sources_of(running, "joined_eu"), measured)
    assert known.is_running and known.slowness == 2.0
    assert {one.source: (one.rate, one.origin, one.declared) for one in known.rates}["orders"] == (
        360.0,
        StatisticOrigin.MEASURED,
        running.catalogue.sources["orders"].rate,
    )


@pytest.mark.parametrize(
    ("contract", "change", "message"),
    [
        ("joind_eu", ImaginedChange(), 'contract "joind_eu" does not exist'),
        ("joined_eu", ImaginedChange(site="mars"), 'site "mars" does not exist'),
        ("joined_eu", ImaginedChange(rate={"order": 1.0}), 'source "order" does not exist'),
        ("joined_eu", ImaginedChange(bandwidth={("us", "mars"): 1.0}), 'link "us>mars" does not exist'),
    ],
)
def test_only_what_exists_can_be_imagined_otherwise(project, contract, change, message):
    with pytest.raises(UsageError, match=message):
        what_if(project, contract, change)


def test_a_view_that_is_not_maintained_is_explained_without_alternatives():
    project = Project("small")
    project.site("a")
    project.source("r", at="a", key="k", rows=10, rate=1, columns={"k": "bigint", "x": "bigint"})
    project.view("v", "SELECT k, rand() AS s FROM r")
    project.contract("c", view="v", at="a", freshness="60 s")
    (found,) = why(make_plan(project.catalogue), "c")
    assert isinstance(found, WhyRejected)
    assert found.alternatives == ()


def test_views_that_are_read_from_others_are_explained():
    plan = nested.plan_for(*(nested.wanted(view) for view in ("over_5", "over_7", "count_over_7")))
    grouped = groups.plan_for(groups.wanted("per_30_s"), groups.wanted("per_60_s"))
    for made in (plan, grouped):
        for entry in made.contracts:
            (found,) = why(made, entry.contract)
            assert isinstance(found, WhyContract)
            assert sum(step.time_s for step in found.steps) == pytest.approx(entry.critical_path_s)
