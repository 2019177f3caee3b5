"""What a project declares otherwise is taken over by what runs, and named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.app.project import planned_catalogue
from headrace.model.catalogue import Catalogue
from headrace.model.plan import Plan
from headrace.plan.document import plan_document
from headrace.plan.make import make_plan
from headrace.plan.share.difference import difference
from headrace.plan.versions import Asked, plan_versions
from tests.plan.share.test_on_running import assert_right

PROJECT = """
project: shop
hosts: {box: {cores: 8}}
sites:
  us: {cpu: 0.34 $/core-hour, disk: 0.11 $/GB-month, cores: 16, disk_capacity: 2 TB, speed: 1}
  eu: {cpu: 0.34 $/core-hour, disk: 0.11 $/GB-month}
links: [{between: [us, eu], bandwidth: 10 MB/s, latency: 50 ms, price: 0.02 $/GB}]
sources:
  orders:
    kind: table
    at: us
    key: [oid]
    rows: 1000000
    rate: 50 /s
    columns: {oid: bigint, cid: {type: bigint, width: 8, distinct: 1000}, total: bigint}
  customers:
    {kind: table, at: eu, key: [cid], rows: 100000, rate: 2 /s, columns: {cid: bigint, name: string, country: string}}
selectivity: {orders: {"total > 100": 0.5}}
operator_times: {join: {fixed: 20 ms, per_in: 10 us, per_out: 10 us}}
headroom: {cpu: 0.1, link: 0.1, blocking: 0 s}
admission: sustainable
contracts:
  sales: {view: sales, at: eu, freshness: 60 s}
  by_country: {view: by_country, at: us, freshness: 60 s, penalty: 0.001 $/row}
"""
JOIN = "FROM orders o JOIN customers c ON o.cid = c.cid"
VIEWS = {
    "sales": f"SELECT o.oid, c.country, o.total {JOIN} WHERE o.total > 100",
    "by_country": f"SELECT c.country, count(*) AS n {JOIN} GROUP BY c.country",
}
CHANGES = {
    "us: {cpu: 0.34": ("us: {cpu: 0.68", "site us: cpu 0.34 $/core-hour -> 0.68 $/core-hour"),
    "disk: 0.11 $/GB-month, cores": (
        "disk: 0.22 $/GB-month, cores",
        "site us: disk 0.11 $/GB-month -> 0.22 $/GB-month",
    ),
    "cores: 16": ("cores: 4", "site us: cores 16 -> 4"),
    "disk_capacity: 2 TB": ("disk_capacity: 1 TB", "site us: disk_capacity 2 TB -> 1 TB"),
    "speed: 1": ("speed: 2", "site us: speed 1 -> 2"),
    "speed: 1}": ("speed: 1, host: box}", "site us: host none -> box"),
    "box: {cores: 8}": ("box: {cores: 9}", "host box: cores 8 -> 9"),
    "bandwidth: 10 MB/s": ("bandwidth: 5 MB/s", "link us > eu: bandwidth 10 MB/s -> 5 MB/s"),
    "latency: 50 ms": ("latency: 90 ms", "link us > eu: latency 50 ms -> 90 ms"),
    "price: 0.02": ("price: 0.05", "link us > eu: price 0.02 $/GB -> 0.05 $/GB"),
    "rows: 1000000": ("rows: 1000002", "source orders: rows 1M rows -> 1M rows"),
    "rate: 50 /s": ("rate: 55 /s", "source orders: rate 50 rows/s -> 55 rows/s"),
    "    at: us": ("    at: us\n    parent_first: true", "source orders: parent_first no -> yes"),
    "rate: 2 /s": ("static: true", "source customers: static no -> yes"),
    "    key: [oid]": ("    key: [oid]\n    stays: [us, eu]", "source orders: stays nothing -> us, eu"),
    "width: 8": ("width: 64", "source orders: cid.width 8 B -> 64 B"),
    "distinct: 1000": ("distinct: 10", "source orders: cid.distinct 1000 -> 10"),
    'total > 100": 0.5': ('total > 100": 0.4', "selectivity: orders where total > 100 50 % -> 40 %"),
    "fixed: 20 ms": ("fixed: 30 ms", "operator times: join 0.02 s"),
    "headroom: {cpu: 0.1": ("headroom: {cpu: 0.2", "headroom: cpu 10 % -> 20 %"),
    "link: 0.1": ("link: 0.2", "headroom: link 10 % -> 20 %"),
    "blocking: 0 s": ("blocking: 100 ms", "headroom: blocking 0 s -> 100 ms"),
    "admission: sustainable": ("admission: paper", "project: admission sustainable -> paper"),
}
"""By what is written in the project: what is written instead, and what is said of it."""

BETTER_ELSEWHERE = {"us: {cpu: 0.34", "rate: 2 /s", "    key: [oid]", "admission: sustainable"}
"""What makes a plan from nothing another one: what runs stays where it is, until replanning finds that worth a move."""


def shop(folder: Path, before: str = "", after: str = "") -> Catalogue:
    text = PROJECT
    if before:
        assert before in text
        text = text.replace(before, after, 1)
    (folder / "views").mkdir(exist_ok=True)
    (folder / "headrace.yml").write_text(text)
    for name, sql in VIEWS.items():
        (folder / "views" / f"{name}.sql").write_text(sql)
    return planned_catalogue(folder, {})


def taken_over(folder: Path, written: str) -> tuple[Plan, Plan]:
    running = make_plan(shop(folder))
    plan, _ = plan_versions(running, Asked(shop(folder, written, CHANGES[written][0])))
    assert_right(plan)
    return running, plan


@pytest.mark.parametrize("written", CHANGES)
def test_a_value_that_is_declared_otherwise_is_named_and_taken_over(written: str, tmp_path: Path) -> None:
    running, plan = taken_over(tmp_path, written)
    found, said = difference(running, plan), CHANGES[written][1]
    texts = [f"{one.what}: {one.field} {one.before} -> {one.after}" for one in found.values]
    assert any(text.startswith(said) for text in texts), texts
    catalogue = shop(tmp_path, written, CHANGES[written][0])
    assert difference(plan, plan_versions(plan, Asked(catalogue))[0]).is_nothing
    document, anew = plan_document(plan), plan_document(make_plan(catalogue))
    assert document["catalogue"] == anew["catalogue"]
    if {one["id"] for one in document["vertices"]} == {one["id"] for one in anew["vertices"]}:
        assert document["totals"]["rescost"] == pytest.approx(anew["totals"]["rescost"])
        costs = [[one["cost"] for one in plan["contracts"]] for plan in (document, anew)]
        assert costs[0] == pytest.approx(costs[1])
    else:
        assert written in BETTER_ELSEWHERE


def test_no_value_makes_anything_be_loaded_but_where_rows_may_be_and_whether_they_change(tmp_path: Path) -> None:
    loading = {written for written in CHANGES if difference(*taken_over(tmp_path, written)).added}
    assert loading <= {"rate: 2 /s", "    key: [oid]"}


def test_a_source_that_changes_more_is_taken_over_where_a_view_filters(tmp_path: Path) -> None:
    running, plan = taken_over(tmp_path, "rate: 50 /s")
    assert plan.totals.rescost > running.totals.rescost


def test_what_databases_say_of_their_tables_is_no_change_of_the_project(tmp_path: Path) -> None:
    def found(rows: float) -> Catalogue:
        declared = shop(tmp_path)
        orders = replace(declared.sources["orders"], rows=rows, found=("rows",))
        return replace(declared, sources={**declared.sources, "orders": orders})

    running = make_plan(found(1e6))
    assert difference(running, plan_versions(running, Asked(found(1.1e6)))[0]).is_nothing
    declared = shop(tmp_path, "rows: 1000000", "rows: 2000000")
    assert [one.field for one in difference(running, plan_versions(running, Asked(declared))[0]).values] == ["rows"]


def test_statistics_of_a_column_that_comes_are_told_with_the_source_that_is_read_again(tmp_path: Path) -> None:
    running = make_plan(shop(tmp_path))
    more = shop(tmp_path, "total: bigint", "total: bigint, channel: {type: string, distinct: 4}")
    found = difference(running, plan_versions(running, Asked(more))[0])
    assert (found.values, found.reread) == ((), ("orders",))


def test_a_feed_that_comes_or_goes_is_one_value_whatever_sources_it_has(tmp_path: Path) -> None:
    feeds = "\nfeeds: {wall: {events: api, follows: api, at: us}}\ncontracts:\n"
    without, with_feed = make_plan(shop(tmp_path)), make_plan(shop(tmp_path, "\ncontracts:\n", feeds))
    assert {"wall/events", "wall/follows", "wall/decisions"} <= with_feed.catalogue.sources.keys()
    for plans, said in (
        ((without, with_feed), ("nothing", "10k pairs")),
        ((with_feed, without), ("10k pairs", "nothing")),
    ):
        (value,) = difference(*plans).values
        assert (value.what, value.field, value.before, value.after) == ("feed wall", "stored ahead", *said)
    assert difference(with_feed, with_feed).is_nothing
