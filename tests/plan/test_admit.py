"""One contract: the plan that is found is the cheapest that keeps it, and a refusal names what is in the way."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from headrace.model.block import Aggregation
from headrace.model.catalogue import Admission, Headroom
from headrace.model.plan import Operator
from headrace.model.plan_modes import Method
from headrace.model.relation import AggregateCall, AggregateFunction, Output
from headrace.model.types import BIGINT
from headrace.plan.admit import Answer, Question, admit, best_plan
from headrace.plan.cores import cores_of
from headrace.plan.live import Live
from headrace.plan.price import arrivals, tariff_of
from headrace.plan.refuse import refuse, smallest_freshness_s
from tests.plan.exhaustive_groups import FULL, PARTIAL, GroupedOracle
from tests.plan.random_joins import Instance, random_instance
from tests.plan.written import block, catalogue, column, contract, host, link, mesh, site, source, stays

SITES = ("m1", "m2", "m3")


def question(project, view, *, name="S", rule=Admission.SUSTAINABLE, method=Method.CHEAPEST, live=None):
    blocks = view if isinstance(view, tuple) else (view,)
    live = live or Live(tariff_of(project))
    return Question(project, project.contracts[name], cores_of(blocks, project), rule, method, live)


def two_tables(freshness=10.0, a=None, b=None, **more):
    """A at m1, B at m2, wanted at m3."""
    sources = [
        source("A", "m1", 1e6, 100, {"id": (8, 1e6), "k": (8, 1e5), "pad": (84, None)}, **(a or {})),
        source("B", "m2", 1e5, 50, {"k": (8, 1e5), "pad": (192, None)}, key=("k",), **(b or {})),
    ]
    sites = more.pop("sites", [site(name) for name in SITES])
    links = more.pop("links", mesh(SITES))
    project = catalogue(sites, links, sources, [contract("S", "V", "m3", freshness)], **more)
    return project, block("V", ["A", "B"], [[("A", "k"), ("B", "k")]], project.sources)


def kept(asked: Question) -> Answer:
    """The plan of a contract that can be kept."""
    answer = admit(asked)
    assert answer is not None
    return answer


def operators(answer):
    return sorted(edge.op.value for edge in answer.edges.values())


def vertex_names(answer):
    return {name.split("~")[0] for name in answer.vertices}


# The cheapest plan


def check_against_every_plan(instance: Instance) -> bool:
    best = instance.oracle.cheapest(instance.freshness_s, instance.is_paper)
    answer = admit(instance.question)
    assert (best is None) == (answer is None)
    if best is None or answer is None:
        return False
    assert answer.cost == pytest.approx(best.cost, rel=1e-9)
    assert answer.path_s == pytest.approx(best.path_s, rel=1e-9)
    total = sum(
        arrivals(
            answer.graph, instance.question.live.tariff, instance.question.batch_s, [answer.promise.vertex]
        ).values()
    )
    assert total <= best.arrival_sum * (1 + 1e-9)
    return True


@pytest.mark.parametrize("limited", [False, True])
def test_no_plan_of_a_two_way_join_is_cheaper(limited):
    found = [check_against_every_plan(random_instance(seed, 2, 3, limited=limited)) for seed in range(40)]
    assert sum(found) > 15


@pytest.mark.parametrize("limited", [False, True])
def test_no_plan_of_a_three_way_join_is_cheaper(limited):
    found = [check_against_every_plan(random_instance(seed, 3, 2, limited=limited)) for seed in range(12)]
    assert sum(found) > 3


def test_no_plan_that_leaves_out_tables_that_never_change_is_cheaper():
    found = [check_against_every_plan(random_instance(seed, 2, 3, static=True)) for seed in range(15)]
    found += [check_against_every_plan(random_instance(seed, 3, 2, static=True)) for seed in range(8)]
    assert sum(found) > 10


def test_no_plan_of_a_self_join_is_cheaper():
    found = [check_against_every_plan(random_instance(seed, 1, 3, itself=True)) for seed in range(15)]
    found += [check_against_every_plan(random_instance(seed, 2, 2, itself=True)) for seed in range(6)]
    assert sum(found) > 10


def random_group_by(seed):
    """Counts per group over a join of two tables, with few or many groups, as the planner and the oracle see it."""
    rng = random.Random(seed)
    groups = rng.choice([5.0, 200.0, 5000.0])
    sites = [site(name, rng.choice([0.1, 1.0]), rng.choice([0, 5]), rng.choice([0.5, 1, 2])) for name in SITES]
    links = mesh(SITES, bandwidth=1e6, latency=rng.choice([0.001, 0.1]), price=rng.choice([0.01, 1.0, 20.0]))
    sources = [
        source("A", rng.choice(SITES), 1e5, rng.choice([5, 50]), {"k": (8, 1e4), "g": (8, groups)}),
        source("B", rng.choice(SITES), 1e4, rng.choice([5, 50]), {"k": (8, 1e4), "v": (8, None)}),
    ]
    freshness, target = rng.choice([4, 20, 100]), rng.choice(SITES)
    project = catalogue(sites, links, sources, [contract("S", "V", target, freshness)])
    count = AggregateCall("n", AggregateFunction.SUM, column("B.v"), False, BIGINT)
    top = Aggregation((Output("g", column("A.g")),), (count,), None, None)
    outputs = [Output("g", column("g")), Output("n", column("n"))]
    keep = {"A": ["g"], "B": ["v"]}
    view = block("V", ["A", "B"], [[("A", "k"), ("B", "k")]], project.sources, keep=keep, top=top, outputs=outputs)
    oracle = GroupedOracle(project, view, target, groups, {FULL: 16, PARTIAL: 16}, 0.001)
    return question(project, view), oracle, freshness


def test_no_plan_of_a_group_by_is_cheaper_wherever_its_rows_are_added_up():
    stages = Counter[str]()
    for seed in range(25):
        asked, oracle, freshness = random_group_by(seed)
        best, answer = oracle.cheapest(freshness), admit(asked)
        assert (best is None) == (answer is None)
        if best is not None and answer is not None:
            assert answer.cost == pytest.approx(best.cost, rel=1e-9)
            assert answer.path_s == pytest.approx(best.path_s, rel=1e-9)
            stages.update(edge.grouping.stage for edge in answer.edges.values() if edge.grouping is not None)
    assert stages["full"] > 5
    assert stages["merge"] > 0


@pytest.mark.long
@pytest.mark.parametrize("limited", [False, True])
def test_no_plan_of_a_larger_join_is_cheaper(limited):
    for seed in range(60):
        check_against_every_plan(random_instance(seed, 3, 3, limited=limited))
    for seed in range(6):
        check_against_every_plan(random_instance(seed, 4, 2, limited=limited))


def missing_middle(freshness=4.0):
    sites = [site("m1", 1.0, speed=1.0), site("m2", 0.34, speed=0.5), site("m3", 0.1, speed=0.5)]
    links = mesh(SITES, bandwidth=1e7, latency=0.05, price=0.01)
    sources = [
        source("A", "m1", 1e6, 200, {"id": (8, 1e6), "k": (8, 1e5), "pad": (84, None)}),
        source("B", "m2", 1e5, 20, {"k": (8, 1e5), "pad": (192, None)}),
    ]
    project = catalogue(sites, links, sources, [contract("S", "V", "m3", freshness)])
    return project, block("V", ["A", "B"], [[("A", "k"), ("B", "k")]], project.sources)


@pytest.mark.parametrize(
    ("method", "states", "path_s", "cost"),
    [
        (Method.DPD, {"r:A@m3", "r:B@m3"}, 2.362, 6.759e-5),
        (Method.DPT, {"r:A@m1", "r:B@m1"}, 1.653, 1.644e-4),
        (Method.CHEAPEST, {"r:A@m1", "r:B@m3"}, 1.936, 1.034e-4),
    ],
)
def test_between_the_cheapest_and_the_fastest_plan_there_is_a_better_one(method, states, path_s, cost):
    project, view = missing_middle()
    answer = best_plan(question(project, view, method=method))
    assert answer is not None
    read = {name for edge in answer.edges.values() if edge.op is Operator.JOIN for name in edge.inputs}
    assert {name for name in read if name.startswith("r:")} == states
    assert answer.path_s == pytest.approx(path_s, abs=5e-4)
    assert answer.cost == pytest.approx(cost, rel=5e-4)


def test_smile_takes_the_fastest_plan_when_the_cheapest_is_too_slow():
    project, view = missing_middle()
    assert admit(question(project, view, method=Method.DPD)) is None
    fastest = kept(question(project, view, method=Method.DPT))
    assert kept(question(project, view, method=Method.SMILE)).cost == fastest.cost
    project, view = missing_middle(freshness=60.0)
    cheapest = kept(question(project, view, method=Method.DPD))
    assert kept(question(project, view, method=Method.SMILE)).cost == cheapest.cost


def test_idle_sites_that_are_alike_make_no_difference():
    project, view = two_tables()
    more = [f"x{number}" for number in range(4)]
    wider = replace(
        project, sites={**project.sites, **{name: site(name) for name in more}}, links=mesh((*SITES, *more))
    )
    assert kept(question(wider, view)).cost == pytest.approx(kept(question(project, view)).cost)


def test_a_view_of_one_whole_table_at_its_home_is_the_table_itself():
    project, _ = two_tables()
    project = replace(project, contracts={"S": contract("S", "V", "m1", 10)})
    answer = kept(question(project, block("V", ["A"], [], project.sources)))
    assert (answer.promise.vertex, answer.cost, answer.path_s, answer.edges) == ("r:A@m1", 0, 0, {})


def test_a_view_of_one_table_elsewhere_is_copied_and_applied():
    project, _ = two_tables()
    answer = kept(question(project, block("V", ["A"], [], project.sources)))
    assert operators(answer) == ["apply", "capture", "copy"]


def test_a_filtered_view_of_one_table_at_its_home_is_applied():
    project, _ = two_tables(selectivity=[("A", "pad > 1", 0.25)])
    project = replace(project, contracts={"S": contract("S", "V", "m1", 10)})
    answer = kept(question(project, block("V", ["A"], [], project.sources, {"A": "pad > 1"})))
    assert operators(answer) == ["apply", "capture"]
    (apply,) = (edge for edge in answer.edges.values() if edge.op is Operator.APPLY)
    assert [entry.text for entry in apply.select] == ["pad > 1"]
    assert answer.graph.vertices[answer.promise.vertex].rows == 250_000


def test_a_table_that_never_changes_sends_no_changes():
    project, view = two_tables(b={"static": True})
    answer = kept(question(project, view))
    assert Operator.UNION not in {edge.op for edge in answer.edges.values()}
    assert not any(name.startswith("d:A,B|B") for name in answer.vertices)


def test_parents_that_come_before_their_children_cause_no_changes_of_the_join():
    project, view = two_tables(b={"parent_first": True})
    vertices = kept(question(project, view)).graph.vertices.values()
    rates = {vertex.delta_of: vertex.rate.at(1.0) for vertex in vertices if vertex.scope == ("A", "B")}
    assert rates["B",] == 0.0
    assert rates["A", "B"] == rates["A",] == 100.0


# Refusals


def test_the_smallest_freshness_is_the_least_that_any_plan_keeps():
    offers = []
    for seed in range(12):
        instance = random_instance(seed, 2, 3)
        strict = replace(
            instance,
            catalogue=replace(
                instance.catalogue, contracts={"S": replace(instance.catalogue.contracts["S"], freshness_s=0.3)}
            ),
        )
        if admit(strict.question) is not None:
            continue
        rejection = refuse(strict.question)
        fastest = strict.oracle.fastest_path_s(0.3, strict.is_paper)
        assert rejection.fastest_cp_s == (None if fastest is None else pytest.approx(fastest, rel=1e-9))
        smallest = strict.oracle.smallest_freshness_s(strict.is_paper)
        offer = rejection.smallest_staleness_s
        assert (offer is None) == (smallest is None)
        if offer is not None and smallest is not None:
            assert smallest * (1 - 1e-8) <= offer <= smallest * (1 + 1e-6)
            assert admit(strict.question.at_freshness(offer)) is not None
            offers.append(offer)
    assert len(offers) > 3


def test_a_counter_offer_respects_what_is_left_of_every_capacity():
    checked = 0
    for seed in range(14):
        instance = random_instance(seed, 2, 2, limited=True)
        sites = {name: replace(entry, disk_capacity=None) for name, entry in instance.catalogue.sites.items()}
        instance = replace(instance, catalogue=replace(instance.catalogue, sites=sites))
        smallest = instance.oracle.smallest_freshness_s(instance.is_paper)
        offer = smallest_freshness_s(instance.question)
        assert (offer is None) == (smallest is None)
        if offer is not None and smallest is not None:
            assert smallest * (1 - 1e-8) <= offer <= smallest * (1 + 1e-6)
            checked += 1
    assert checked > 4


def test_a_promise_that_is_too_fresh_is_refused_for_freshness():
    rejection = refuse(question(*two_tables(freshness=1.0)))
    assert rejection.reason == "freshness"
    assert rejection.fastest_cp_s is not None
    assert rejection.fastest_cp_s > 0.5
    assert "the fastest plan takes" in rejection.detail


def test_a_method_that_looks_at_one_plan_refuses_for_that_plan():
    rejection = refuse(question(*missing_middle(), method=Method.DPD))
    assert rejection.reason == "freshness"
    assert rejection.detail.startswith("the plan that dpd finds takes 2.362 s")
    offer = rejection.smallest_staleness_s
    assert offer is not None
    assert admit(question(*missing_middle(offer), method=Method.DPD)) is not None
    assert admit(question(*missing_middle(offer * 0.99), method=Method.DPD)) is None


def test_an_operator_that_cannot_keep_up_is_named():
    sites = [site(name, speed=0.3) for name in SITES]
    rejection = refuse(question(*two_tables(sites=sites)))
    assert rejection.reason.startswith("operator:apply>r:A,B@m3")
    assert rejection.smallest_staleness_s is None


def test_without_links_there_is_no_route():
    rejection = refuse(question(*two_tables(links=[link("m1", "m2"), link("m2", "m1")])))
    assert (rejection.reason, rejection.fastest_cp_s, rejection.smallest_staleness_s) == ("no_route", None, None)


@pytest.mark.parametrize(
    ("limits", "reason", "detail"),
    [
        (
            {"sites": [site("m1"), site("m2"), site("m3", cores=0.1)]},
            "cpu:m3",
            "site m3 has 0.1 cores left, and the fastest plan needs 0.4882",
        ),
        (
            {"sites": [site("m1"), site("m2"), site("m3", disk_capacity=1e6)]},
            "disk:m3",
            "the disk of site m3 has 1 MB left, and the fastest plan needs 400.3 MB",
        ),
        (
            {"sites": [site("m1"), site("m2"), site("m3", host="h")], "hosts": [host("h", 0.1)]},
            "cpu:m3",
            "site m3 has 0.1 cores left, and the fastest plan needs 0.4882",
        ),
        (
            {
                "links": [*mesh(("m1", "m2")), link("m1", "m3", bandwidth=1e5), link("m3", "m1")],
                "headroom": Headroom(0.0, 0.6, 0.0),
            },
            "link:m1>m3",
            "the link from m1 to m3 has 40 kB/s left, and the fastest plan needs 54 kB/s",
        ),
    ],
)
def test_what_runs_out_is_named_with_what_is_left_and_what_is_needed(limits, reason, detail):
    rejection = refuse(question(*two_tables(freshness=100.0, **limits)))
    assert (rejection.reason, rejection.detail) == (reason, detail)


def test_a_link_that_is_too_slow_for_all_changes_is_named_with_what_they_are():
    links = [*mesh(("m1", "m2")), link("m1", "m3", bandwidth=1e3), link("m3", "m1")]
    rejection = refuse(question(*two_tables(links=links)))
    assert rejection.reason.startswith("operator:copy>")
    assert rejection.detail == (
        "copying changes of A x B made by A at m3 takes 31.6 s for every second of changes, "
        "over a link of 1 kB/s from m1"
    )


def test_headroom_is_kept_free():
    sites = [site("m1", cores=10), site("m2", cores=10), site("m3", cores=0.6)]
    project, view = two_tables(sites=sites)
    assert admit(question(project, view)) is not None
    cautious = replace(project, headroom=Headroom(0.5, 0.0, 0.0))
    assert admit(question(cautious, view)) is None
    assert refuse(question(cautious, view)).reason == "cpu:m3"
    blocked = replace(project, headroom=Headroom(0.0, 0.0, 2.0))
    assert admit(question(blocked, view)) is None
    assert refuse(question(blocked, view)).reason == "freshness"


def test_rows_that_stay_are_not_sent_elsewhere():
    project, view = two_tables(freshness=40.0, a={"stays": stays("m1", "m3")})
    answer = kept(question(project, view))
    assert not any("A" in vertex.scope and vertex.site == "m2" for vertex in answer.vertices.values())
    project, view = two_tables(freshness=40.0, a={"stays": stays("m1")})
    assert admit(question(project, view)) is None
    assert refuse(question(project, view)).reason == "stays:A"


def test_a_view_without_columns_of_rows_that_stay_may_be_elsewhere():
    project, _ = two_tables(freshness=40.0, a={"stays": stays("m1")})
    view = block("V", ["A", "B"], [[("A", "k"), ("B", "k")]], project.sources, keep={"B": ["k", "pad"]})
    answer = kept(question(project, view))
    at_m3 = {vertex.scope for vertex in answer.vertices.values() if vertex.site == "m3"}
    assert at_m3 == {("A", "B")}


# What the search says of itself


def test_the_search_is_exact_for_up_to_four_sources():
    names = "ABCDE"
    sources = [source(name, "m1", 1e3, 1, {"k": (8, 1e3)}) for name in names]
    project = catalogue([site("m1"), site("m2")], mesh(("m1", "m2")), sources, [contract("S", "V", "m2", 30)])
    for count, exact in ((4, True), (5, False)):
        aliases = names[:count]
        view = block("V", list(aliases), [[(alias, "k") for alias in aliases]], project.sources)
        asked = question(project, view)
        assert asked.is_exact is exact
        assert admit(asked) is not None
