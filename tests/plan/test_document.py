"""Plan documents: the numbers of the example projects to the digit, and everything a project can ask for."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from headrace.declare.read import read_project
from headrace.model.plan import PlanOptions
from headrace.model.plan_modes import ContractOrder, Sharing
from headrace.plan.check import check_document
from headrace.plan.document import plan_document
from headrace.plan.make import make_plan
from headrace.testing.plans import simulate
from tests.plan.written import read_document, shared

EXAMPLES = ("worked-join", "missing-middle", "projected-and-filtered")

SITES = """
sites:
  us: {cpu: 0.34 $/core-hour, disk: 0.11 $/GB-month, cores: 4}
  eu: {cpu: 0.5 $/core-hour, disk: 0.11 $/GB-month, cores: 4}
  ap: {cpu: 0.2 $/core-hour, disk: 0.11 $/GB-month}
links:
  - {between: [us, eu], bandwidth: 100 Mbps, latency: 40 ms, price: 0.05 $/GB}
  - {between: [us, ap], bandwidth: 100 Mbps, latency: 80 ms, price: 0.05 $/GB}
  - {between: [eu, ap], bandwidth: 100 Mbps, latency: 80 ms, price: 0.05 $/GB}
sources:
  orders: {kind: table, at: us, key: [id], rows: 2000000, rate: 120 /s, columns: {id: bigint,
           customer: {type: bigint, distinct: 100000}, total: bigint, ts: timestamp, note: string}}
  customers: {kind: table, at: eu, key: [customer], rows: 100000, rate: 10 /s, columns: {customer: bigint,
           region: {type: bigint, distinct: 50}, name: string}}
  regions: {kind: table, at: ap, key: [region], rows: 50, static: true, columns: {region: bigint, title: string}}
  follows: {kind: table, at: us, key: [who, whom], rows: 1000000, rate: 5 /s, columns: {
           who: {type: bigint, distinct: 50000}, whom: {type: bigint, distinct: 50000}}}
"""

VIEWS = {
    "copied": "SELECT * FROM orders",
    "filtered": "SELECT id, total FROM orders WHERE total > 100 AND note LIKE 'a%'",
    "joined": "SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.customer WHERE o.total > 100",
    "with_static": """SELECT o.id, r.title FROM orders o JOIN customers c ON o.customer = c.customer
                      JOIN regions r ON r.region = c.region""",
    "per_region": """SELECT region, count(*) AS n, sum(total) AS s FROM orders o JOIN customers c
                     ON o.customer = c.customer GROUP BY region""",
    "smallest": """SELECT region, min(total) AS least FROM orders o JOIN customers c ON o.customer = c.customer
                   GROUP BY region HAVING min(total) > 5""",
    "outer_joined": "SELECT o.id, c.name FROM orders o LEFT JOIN customers c ON o.customer = c.customer",
    "outer_over_join": """SELECT o.id, c.name, f.whom FROM orders o JOIN customers c ON o.customer = c.customer
                          LEFT JOIN follows f ON f.who = c.customer WHERE c.region = 3""",
    "buyers": "SELECT DISTINCT customer FROM orders WHERE total > 7",
    "largest": "SELECT id, total FROM orders ORDER BY total DESC LIMIT 10",
    "all_customers": "SELECT customer FROM orders UNION ALL SELECT customer FROM customers",
    "with_orders": "SELECT name FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.customer)",
    "two_steps": "SELECT a.who, b.whom FROM follows a JOIN follows b ON a.whom = b.who",
    "two_steps_named": """SELECT a.who, b.whom, c.name FROM follows a JOIN follows b ON a.whom = b.who
                          JOIN customers c ON c.customer = b.whom""",
    "rich": """SELECT c.name, t.s FROM (SELECT customer, sum(total) AS s FROM orders GROUP BY customer) t
               JOIN customers c ON c.customer = t.customer WHERE t.s > 100""",
    "below": "SELECT c.name, r.title FROM customers c JOIN regions r ON c.region < r.region",
    "per_minute": "SELECT window.start AS s, count(*) AS n FROM orders GROUP BY window(ts, '1 minute')",
    "spent": "SELECT customer, sum(total) AS s FROM orders GROUP BY customer",
    "spent_alike": """WITH t AS (SELECT customer, sum(total) AS s FROM orders GROUP BY customer)
                      SELECT a.customer AS one, b.customer AS other FROM t a JOIN t b ON a.s = b.s""",
}


def written_project(folder: Path, views=VIEWS, contracts=None, extra="") -> Path:
    """A project with one contract per view, unless given otherwise as {contract: (view, site, freshness)}."""
    sites = ("eu", "ap", "us")
    if contracts is None:
        contracts = {f"c_{name}": (name, sites[number % 3], "30 s") for number, name in enumerate(views)}
    lines = [f"  {name}: {{view: {v}, at: {at}, freshness: {f}}}" for name, (v, at, f) in contracts.items()]
    text = f"project: test\n{SITES}{extra}contracts:\n" + "\n".join(lines) + "\n"
    (folder / "views").mkdir(parents=True)
    (folder / "headrace.yml").write_text(text, encoding="utf-8")
    for name, sql in views.items():
        (folder / "views" / f"{name}.sql").write_text(sql, encoding="utf-8")
    return folder


def document_of(folder: Path, options=None):
    plan = make_plan(read_project(folder, {}), options or PlanOptions())
    return json.loads(json.dumps(plan_document(plan), allow_nan=False))


# The example projects


def without_fingerprint(name):
    return name.split("~")[0]


def assert_same_numbers(expected, actual, where="") -> None:
    """Everything that is expected is there, to nine digits; ids may end in a fingerprint, order does not matter."""
    if isinstance(expected, dict):
        for key in expected:
            assert_same_numbers(expected[key], actual[key], f"{where}/{key}")
    elif isinstance(expected, list):
        assert len(actual) == len(expected), where
        ordered = where.endswith("critical_path")
        pairs = zip(expected, actual, strict=True) if ordered else _paired(expected, actual)
        for number, (one, other) in enumerate(pairs):
            assert_same_numbers(one, other, f"{where}/{number}")
    elif isinstance(expected, float | int) and not isinstance(expected, bool):
        assert math.isclose(actual, expected, rel_tol=1e-9), f"{where}: {actual} instead of {expected}"
    elif (isinstance(expected, str) and where.rsplit("/", 1)[-1] != "id") or expected in (None, True, False):
        assert (without_fingerprint(actual) if isinstance(actual, str) else actual) == expected, where


def _paired(expected, actual):
    return zip(sorted(expected, key=_sort_key), sorted(actual, key=_sort_key), strict=True)


def _sort_key(entry):
    if isinstance(entry, dict):
        entry = entry.get("out") or entry.get("id") or f"{entry.get('src')}>{entry.get('dst')}"
    if isinstance(entry, list):
        return json.dumps(sorted(entry, key=_sort_key))
    return without_fingerprint(entry) if isinstance(entry, str) else json.dumps(entry)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_plan_of_an_example_project_has_the_expected_numbers(name):
    assert_same_numbers(read_document(name), document_of(shared("examples", name)))


# Everything a project can ask for


def test_plans_of_all_kinds_of_views_pass_the_check_and_run_right(tmp_path):
    document = document_of(written_project(tmp_path / "project"))
    assert document["rejected"] == []
    assert len(document["contracts"]) == len(VIEWS)
    assert check_document(document) == []
    assert simulate(document) == []


@pytest.mark.parametrize("name", sorted(VIEWS))
def test_the_plan_of_each_view_alone_passes_the_check_and_runs_right(name, tmp_path):
    for number, (site, freshness) in enumerate((("us", "30 s"), ("ap", "6 s"))):
        folder = written_project(tmp_path / str(number), {name: VIEWS[name]}, {"c": (name, site, freshness)})
        document = document_of(folder)
        assert [entry["id"] for entry in document["contracts"]] == ["c"]
        assert check_document(document) == []
        assert simulate(document, seed=number) == []


def test_without_sharing_every_contract_has_its_own_vertices(tmp_path):
    views = {name: VIEWS[name] for name in ("joined", "with_static", "two_steps")}
    document = document_of(written_project(tmp_path / "project", views), PlanOptions(sharing=Sharing.NONE))
    assert all(len(vertex["serves"]) == 1 for vertex in document["vertices"])
    assert all(vertex["id"].endswith(f"#{vertex['serves'][0]}") for vertex in document["vertices"])
    assert check_document(document) == []
    assert simulate(document) == []


def test_shares_of_contracts_add_up_to_what_the_plan_costs(tmp_path):
    document = document_of(written_project(tmp_path / "project"))
    shares = [
        (entry["cost"] - entry["lambda"] * entry["p_late"] * entry["penalty"])
        / (1 + entry["critical_path_s"] / entry["staleness"])
        for entry in document["contracts"]
    ]
    assert sum(shares) == pytest.approx(document["totals"]["rescost"])


def test_contracts_with_different_freshness_share_a_view(tmp_path):
    contracts = {"soon": ("per_region", "eu", "10 s"), "later": ("per_region", "eu", "60 s")}
    document = document_of(written_project(tmp_path / "project", {"per_region": VIEWS["per_region"]}, contracts))
    assert {vertex["id"] for vertex in document["vertices"] if vertex["serves"] == ["later"]} == set()
    by_id = {entry["id"]: entry for entry in document["contracts"]}
    assert by_id["soon"]["vertex"] == by_id["later"]["vertex"]
    assert by_id["soon"]["critical_path_s"] < by_id["later"]["critical_path_s"]
    assert check_document(document) == []


def test_a_view_over_a_view_reads_what_that_view_makes(tmp_path):
    views = {"spent": VIEWS["spent"], "named": "SELECT c.name, s.s FROM spent s JOIN customers c USING (customer)"}
    contracts = {"a": ("spent", "us", "30 s"), "b": ("named", "us", "30 s")}
    document = document_of(written_project(tmp_path / "project", views, contracts))
    aggregates = [edge for edge in document["edges"] if edge["op"] == "aggregate"]
    assert [edge["serves"] for edge in aggregates] == [["a", "b"]]
    assert [view["id"] for view in document["views"]] == ["named", "spent"]
    assert check_document(document) == []
    assert simulate(document) == []


def test_a_contract_that_cannot_be_kept_is_only_among_the_rejected(tmp_path):
    views = {name: VIEWS[name] for name in ("joined", "copied")}
    contracts = {"kept": ("copied", "eu", "30 s"), "refused": ("joined", "ap", "100 ms")}
    document = document_of(written_project(tmp_path / "project", views, contracts))
    assert [entry["id"] for entry in document["contracts"]] == ["kept"]
    (rejected,) = document["rejected"]
    assert (rejected["contract"], rejected["reason"]) == ("refused", "freshness")
    assert rejected["fastest_cp_s"] > 0.05
    offer = f"{rejected['smallest_staleness']} s"
    folder = written_project(tmp_path / "second", views, {"refused": ("joined", "ap", offer)})
    assert document_of(folder)["rejected"] == []


def test_sql_that_is_not_maintained_refuses_its_contract_only(tmp_path):
    views = {"copied": VIEWS["copied"], "ranked": "SELECT id, rand() AS place FROM orders"}
    document = document_of(written_project(tmp_path / "project", views))
    assert [entry["id"] for entry in document["contracts"]] == ["c_copied"]
    assert document["rejected"][0]["reason"].startswith("unsupported:")
    assert {view["id"] for view in document["views"]} == {"copied", "ranked"}
    assert check_document(document) == []


def test_keep_is_empty_when_all_columns_reach_the_output(tmp_path):
    views = {"copied": VIEWS["copied"], "joined": VIEWS["joined"]}
    document = document_of(written_project(tmp_path / "project", views))
    by_id = {view["id"]: view for view in document["views"]}
    assert by_id["copied"]["keep"] == {}
    assert by_id["joined"]["keep"] == {"orders": ["id"], "customers": ["name"]}
    assert by_id["joined"]["filters"] == [["orders", "total > 100", pytest.approx(1 / 3)]]


def test_aggregates_are_made_where_their_rows_arise_when_that_sends_less(tmp_path):
    times = "operator_times:\n" + "".join(
        f"  {op}: {{fixed: 0.001 s, per_in: 1e-7 s, per_out: 1e-7 s}}\n"
        for op in ("capture", "copy", "join", "union", "apply", "aggregate", "derive")
    )
    sql = "SELECT region, count(*) AS n FROM orders o JOIN customers c ON o.customer = c.customer GROUP BY region"
    text = SITES.replace("price: 0.05", "price: 50")
    folder = written_project(tmp_path / "project", {"v": sql}, {"c": ("v", "ap", "600 s")}, times)
    config = (folder / "headrace.yml").read_text(encoding="utf-8").replace(SITES, text)
    (folder / "headrace.yml").write_text(config, encoding="utf-8")
    document = document_of(folder)
    stages = sorted(edge["aggregate"]["stage"] for edge in document["edges"] if edge["op"] == "aggregate")
    assert stages in (["full"], ["merge", "partial", "partial"])
    (target,) = {v["site"] for v in document["vertices"] if v["id"] == document["contracts"][0]["vertex"]}
    sent = [e for e in document["edges"] if e["op"] == "copy" and e["out"].split("@")[1].startswith(target)]
    assert all("orders|" not in edge["out"] for edge in sent)
    assert check_document(document) == []
    assert simulate(document) == []


@pytest.mark.long
def test_contracts_can_be_planned_as_declared():
    plan = make_plan(read_project(shared("workloads", "table1"), {}), PlanOptions(order=ContractOrder.DECLARED))
    assert not plan.rejected
    assert plan.totals.rescost <= 1.0514e-4


def test_small_views_are_planned_first_because_larger_ones_are_made_of_them():
    folder = shared("workloads", "table1")
    project = read_project(folder, {})
    small_first = make_plan(project)
    alone = make_plan(project, PlanOptions(sharing=Sharing.NONE))
    assert not small_first.rejected
    assert small_first.totals.rescost / alone.totals.rescost == pytest.approx(0.628, abs=0.002)
    assert check_document(json.loads(json.dumps(plan_document(small_first)))) == []
