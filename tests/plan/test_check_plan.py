"""The checker accepts what the planner makes and finds what is wrong with a plan that was tampered with."""

from __future__ import annotations

import copy
import json
import random

import pytest

from headrace.declare.read import read_project
from headrace.model.plan import PlanOptions
from headrace.plan.check import check_document
from headrace.plan.document import plan_document
from headrace.plan.make import make_plan, plan_views
from headrace.testing.plans import simulate
from tests.plan.random_joins import random_instance
from tests.plan.test_document import EXAMPLES, VIEWS, written_project
from tests.plan.written import read_document, shared

MIXED = ("joined", "with_static", "per_region", "outer_over_join", "two_steps", "rich", "buyers")


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    """A plan with joins, filters, aggregates, derivations and a self-join, for several contracts."""
    folder = written_project(tmp_path_factory.mktemp("plans") / "project", {name: VIEWS[name] for name in MIXED})
    return json.loads(json.dumps(plan_document(make_plan(read_project(folder, {})))))


def edges_of(document, op):
    return [edge for edge in document["edges"] if edge["op"] == op]


def whats(document):
    return "; ".join(f"{where}: {what}" for where, what in check_document(document))


@pytest.mark.parametrize("name", EXAMPLES)
def test_expected_plans_of_examples_are_right(name):
    assert check_document(read_document(name)) == []
    assert simulate(read_document(name)) == []


def test_the_plan_of_a_whole_project_is_right(document):
    assert check_document(document) == []
    assert simulate(document) == []


def test_something_that_is_no_plan_document_is_told_by_its_fields():
    assert ("format", "Field required") in check_document({})
    problems = dict(check_document({"format": "plan/2", "vertices": 3}))
    assert {"format", "vertices", "catalogue"} <= set(problems)


# One thing wrong at a time: what was done, and a word of what must be found


def drop_union_input(document):
    edges_of(document, "union")[0]["in"].pop()


def double_a_term(document):
    union = edges_of(document, "union")[0]
    union["in"].append(union["in"][0])


def drop_join_condition(document):
    edges_of(document, "join")[0]["on"] = []


def wrong_join_condition(document):
    join = next(edge for edge in edges_of(document, "join") if edge["on"])
    join["on"][0][0] = join["on"][0][1]


def filtering(document):
    return next(edge for edge in document["edges"] if edge["select"] and "c_joined" in edge["serves"])


def lose_a_filter(document):
    filtering(document)["select"] = {}


def change_a_filter(document):
    edge = filtering(document)
    edge["select"] = dict.fromkeys(edge["select"], "something else")


def lose_an_aggregate(document):
    aggregate = edges_of(document, "aggregate")[0]
    reader = next(edge for edge in document["edges"] if aggregate["out"] in edge["in"])
    reader["in"] = [aggregate["in"][0] if name == aggregate["out"] else name for name in reader["in"]]


def change_an_aggregate(document):
    edges_of(document, "aggregate")[0]["aggregate"]["functions"] = ["max(x)"]


def partial_instead_of_full(document):
    edges_of(document, "aggregate")[0]["aggregate"]["stage"] = "partial"


def change_a_derivation(document):
    edges_of(document, "derive")[0]["derive"]["kind"] = "anti"


def derive_without_relations(document):
    derive = next(edge for edge in edges_of(document, "derive"))
    derive["in"] = [name for name in derive["in"] if name.startswith("d:")]


def second_producer(document):
    edge = copy.deepcopy(edges_of(document, "union")[0])
    document["edges"].append(edge | {"id": "again"})


def no_producer(document):
    document["edges"].remove(edges_of(document, "apply")[0])


def inputs_apart(document):
    join = edges_of(document, "join")[0]
    vertex = next(vertex for vertex in document["vertices"] if vertex["id"] == join["out"])
    vertex["site"] = next(site["id"] for site in document["catalogue"]["sites"] if site["id"] != vertex["site"])


def no_link(document):
    copied = edges_of(document, "copy")[0]
    ends = [next(v["site"] for v in document["vertices"] if v["id"] == copied[end]) for end in ("out",)]
    links = document["catalogue"]["links"]
    document["catalogue"]["links"] = [link for link in links if link["dst"] != ends[0]]


def cycle(document):
    union, apply = edges_of(document, "union")[0], edges_of(document, "apply")[0]
    union["op"], union["in"] = "union", [union["out"], *union["in"]]
    apply["in"] = apply["in"]


def unknown_vertex(document):
    edges_of(document, "union")[0]["in"][0] = "d:nothing"


def join_two_deltas(document):
    join = edges_of(document, "join")[0]
    join["in"] = [name for name in join["in"] if name.startswith("d:")] * 2


def wrong_rate(document):
    vertex = next(v for v in document["vertices"] if v["kind"] == "delta" and len(v["scope"]) > 1)
    vertex["rate"] *= 1.01


def wrong_rows(document):
    vertex = next(v for v in document["vertices"] if v["kind"] != "delta" and not v["base"])
    vertex["rows"] = (vertex["rows"] or 1) * 1.01


def wrong_arrival(document):
    document["vertices"][-1]["arrival_s"] += 0.01


def wrong_critical_path_time(document):
    document["contracts"][0]["critical_path_s"] *= 0.99


def wrong_critical_path(document):
    document["contracts"][0]["critical_path"].pop(1)


def wrong_batch(document):
    document["contracts"][0]["batch_s"] *= 2


def too_fresh(document):
    contract = document["contracts"][0]
    contract["staleness"] = contract["batch_s"] = contract["critical_path_s"] / 10


def wrong_serves(document):
    document["vertices"][0]["serves"] = ["nobody"]


def wrong_edge_serves(document):
    document["edges"][0]["serves"] = []


def wrong_rescost(document):
    document["totals"]["rescost"] *= 0.99


def wrong_cpu(document):
    site = next(iter(document["totals"]["cpu"]))
    document["totals"]["cpu"][site] += 0.01


def wrong_link(document):
    document["totals"]["link"].popitem()


def wrong_disk(document):
    document["totals"]["disk"].popitem()


def wrong_cost(document):
    document["contracts"][0]["cost"] *= 1.01


def too_few_cores(document):
    for site in document["catalogue"]["sites"]:
        site["cpu_cap"] = 0.001


def too_little_disk(document):
    for site in document["catalogue"]["sites"]:
        site["disk_cap"] = 10


def too_little_headroom(document):
    document["catalogue"]["headroom"]["link"] = 0.99999


def too_few_cores_on_a_host(document):
    document["catalogue"]["hosts"] = [{"id": "h", "cpu_cap": 0.001}]
    for site in document["catalogue"]["sites"]:
        site["host"] = "h"


def rows_leave_where_they_stay(document):
    for source in document["catalogue"]["sources"]:
        if source["id"] == "orders":
            source["stays"] = [source["site"]]


def view_read_elsewhere(document):
    document["contracts"][0]["site"] = "nowhere"


def view_of_another(document):
    first, second = document["contracts"][:2]
    first["vertex"], second["vertex"] = second["vertex"], first["vertex"]


def kept_and_rejected(document):
    contract = document["contracts"][0]["id"]
    document["rejected"].append({"contract": contract, "reason": "freshness"})


def doubled_vertex(document):
    document["vertices"].append(document["vertices"][0])


MUTATIONS = {
    drop_union_input: "changes of",
    double_a_term: "2 times",
    drop_join_condition: "condition",
    wrong_join_condition: "condition",
    lose_a_filter: "filter",
    change_a_filter: "filter",
    lose_an_aggregate: "",
    change_an_aggregate: "aggregate of no view",
    partial_instead_of_full: "partial",
    change_a_derivation: "operator of no view",
    derive_without_relations: "needs the relation",
    second_producer: "2 producers",
    no_producer: "0 producers",
    inputs_apart: "reads vertices at",
    no_link: "no link",
    cycle: "cycle",
    unknown_vertex: "does not exist",
    join_two_deltas: "one relation and one delta",
    wrong_rate: "rows/s, not",
    wrong_rows: "rows, not",
    wrong_arrival: "arrives after",
    wrong_critical_path_time: "critical path takes",
    wrong_critical_path: "critical path does not",
    wrong_batch: "batch is",
    too_fresh: "batch is",
    wrong_serves: "serves",
    wrong_edge_serves: "serves",
    wrong_rescost: "totals/rescost",
    wrong_cpu: "totals/cpu",
    wrong_link: "totals/link",
    wrong_disk: "totals/disk",
    wrong_cost: "costs",
    too_few_cores: "more than may be used",
    too_little_disk: "more than there are",
    too_little_headroom: "more than may be used",
    too_few_cores_on_a_host: "of the host",
    rows_leave_where_they_stay: "stays at",
    view_read_elsewhere: "is read at",
    view_of_another: "contracts/",
    kept_and_rejected: "also among the contracts",
    doubled_vertex: "occurs 2 times",
}


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda mutate: mutate.__name__)
def test_a_plan_that_was_tampered_with_is_found_out(mutate, document):
    changed = copy.deepcopy(document)
    mutate(changed)
    assert check_document(changed)
    assert MUTATIONS[mutate] in whats(changed)


def test_a_promise_that_is_not_kept_is_found_out(document):
    """All numbers are right, and the critical path is longer than half the freshness."""
    changed = read_document("worked-join")
    (contract,) = changed["contracts"]
    changed["catalogue"]["headroom"] = {"cpu": 0, "link": 0, "blocking": 2.0}
    assert "too long for a freshness" in whats(changed)
    contract["forced"] = True
    assert "too long" not in whats(changed)


@pytest.mark.parametrize(
    "mutate", [drop_union_input, double_a_term, drop_join_condition, lose_a_filter], ids=lambda mutate: mutate.__name__
)
def test_the_simulator_sees_rows_that_are_lost_or_doubled(mutate, document):
    changed = copy.deepcopy(document)
    mutate(changed)
    assert any(simulate(changed, seed) for seed in range(5))


SUMS_LEAVE = """
project: sums
sites: {us: {}, eu: {}}
links: [{between: [us, eu]}]
sources:
  t: {kind: table, at: us, columns: {k: bigint}, key: [k], rate: 1 /s, stays: {sites: [us], aggregates: anywhere}}
contracts: {sums: {view: sums, at: eu, freshness: 1 day}, rows: {view: rows, at: eu, freshness: 1 day}}
"""


def test_sums_over_an_outer_join_may_leave_where_their_rows_stay_and_the_rows_may_not(tmp_path):
    (tmp_path / "views").mkdir()
    (tmp_path / "headrace.yml").write_text(SUMS_LEAVE)
    (tmp_path / "views" / "rows.sql").write_text("SELECT a.k, b.k AS other FROM t a LEFT JOIN t b ON a.k = b.k + 1")
    (tmp_path / "views" / "sums.sql").write_text("SELECT k, count(other) AS n FROM rows GROUP BY k")
    plan = make_plan(read_project(tmp_path, {}))
    assert [(one.contract, one.reason) for one in plan.rejected] == [("rows", "stays:t")]
    document = json.loads(json.dumps(plan_document(plan)))
    assert check_document(document) == []
    document["catalogue"]["sources"][0]["stays"] = ["us"]
    assert "stays at us" in whats(document)


# Many plans


def random_document(seed, relations, sites, **kinds):
    instance = random_instance(seed, relations, sites, **kinds)
    options = PlanOptions(admission=instance.rule)
    plan = plan_views(instance.catalogue, {"V": (instance.block,)}, options)
    return json.loads(json.dumps(plan_document(plan)))


def test_plans_of_random_joins_are_right():
    for seed in range(12):
        for kinds in ({}, {"limited": True}, {"static": True}, {"itself": True}):
            document = random_document(seed, 2, 3, **kinds)
            assert check_document(document) == []
            assert simulate(document, seed) == []


def random_mutation(document, rng):
    """Changes a random edge."""
    edge = rng.choice(document["edges"])
    vertices = [vertex["id"] for vertex in document["vertices"]]
    change = rng.randrange(5)
    if change == 0:
        edge["in"] = [rng.choice(vertices) if rng.random() < 0.5 else name for name in edge["in"]]
    elif change == 1 and len(edge["in"]) > 1:
        edge["in"].pop(rng.randrange(len(edge["in"])))
    elif change == 2 and edge.get("on"):
        edge["on"].pop()
    elif change == 3:
        edge["select"] = {} if edge["select"] else {document["views"][0]["sources"][0]: "pad > 9"}
    else:
        edge["in"].append(rng.choice(vertices))


def test_every_tampered_plan_that_runs_wrong_is_found_out():
    wrong = found = 0
    for seed in range(40):
        rng = random.Random(seed)
        document = random_document(seed % 10, rng.choice([2, 3]), 3)
        if not document["contracts"]:
            continue
        random_mutation(document, rng)
        problems = check_document(document)
        found += bool(problems)
        try:
            runs_wrong = any(simulate(document, seed) for seed in range(3))
        except (KeyError, ValueError, IndexError):
            runs_wrong = True
        wrong += runs_wrong
        assert problems or not runs_wrong
    assert wrong > 10
    assert found >= wrong


def test_the_plan_of_the_published_workload_is_right():
    plan = make_plan(read_project(shared("workloads", "table1"), {}), PlanOptions())
    assert check_document(json.loads(json.dumps(plan_document(plan)))) == []
