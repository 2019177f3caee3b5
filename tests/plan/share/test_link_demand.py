"""What links carry is compared with what plans send in the same bytes, however rows are compressed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.plan import Operator, Plan
from headrace.model.statistics import width_of
from headrace.plan.share.arrangement import arrangement_of
from headrace.plan.share.link_demand import find_sent_shares, remember_shares, value_links
from headrace.plan.share.revalue import Measured, as_measured, with_row_bytes
from tests.plan.share.projects import plan_for, wanted

PLAN = plan_for(wanted("by_country"), wanted("by_product", "asia"))


def copies_of(plan: Plan) -> list[str]:
    return [name for name, edge in plan.graph.edges.items() if edge.op is Operator.COPY]


@given(st.floats(0.01, 100.0), st.floats(1.0, 1e9))
def test_a_link_is_as_full_as_the_bytes_that_rows_take_on_it_make_it(share: float, bytes_s: float) -> None:
    now = arrangement_of(PLAN)
    row_bytes = {name: now.graph.vertices[name].width * share for name in copies_of(PLAN)}
    ends = next(iter(now.live.bill.link))
    found = value_links(now, Measured(0.0, row_bytes=row_bytes), {ends: bytes_s}, {})
    sent = now.live.bill.link[ends] * share
    assert found.load[ends] == pytest.approx(sent / bytes_s)
    assert found.capacity[ends] == pytest.approx(bytes_s / share)


def test_a_limit_is_one_of_bytes_that_are_sent_not_of_those_that_plans_count() -> None:
    """Rows that shrink to a quarter pass a limit four times as fast as they would by their widths."""
    now = arrangement_of(PLAN)
    ends = next(iter(now.live.bill.link))
    links = [replace(link, limit=1e4) if (link.src, link.dst) == ends else link for link in now.catalogue.links]
    limited = replace(now, catalogue=replace(now.catalogue, links=tuple(links)))
    row_bytes = {name: now.graph.vertices[name].width / 4 for name in copies_of(PLAN)}
    found = value_links(limited, Measured(0.0, row_bytes=row_bytes), {ends: 1e6}, {})
    assert found.capacity[ends] == pytest.approx(4e4)
    then, _ = as_measured(limited, replace(found, row_bytes={}))
    carries = {(link.src, link.dst): link.carries for link in then.catalogue.links}
    assert carries[ends] == pytest.approx(4e4)


def test_a_link_over_which_nothing_comes_is_full_and_as_narrow_as_can_be() -> None:
    now = arrangement_of(PLAN)
    ends = next(iter(now.live.bill.link))
    found = value_links(now, Measured(0.0), {ends: 0.0}, {ends: 20.0})
    assert found.load[ends] > 0.9
    assert 0.0 < found.capacity[ends] < 1.0


def test_rows_that_were_never_sent_are_taken_to_shrink_as_others_do() -> None:
    now, (first, *_) = arrangement_of(PLAN), copies_of(PLAN)
    shares = find_sent_shares(now, {first: now.graph.vertices[first].width / 4})
    assert shares[None] == pytest.approx(0.25)
    row_bytes = {first: now.graph.vertices[first].width / 4}
    found = value_links(now, Measured(0.0, row_bytes=row_bytes), {("a", "b"): 100.0}, {})
    assert found.capacity["a", "b"] == pytest.approx(400.0)
    assert found.load["a", "b"] == 0.0


def test_before_anything_was_sent_plans_count_as_they_declare() -> None:
    found = value_links(arrangement_of(PLAN), Measured(0.0), {("us", "eu"): 5e6}, {})
    assert found.capacity == {("us", "eu"): 5e6}


def test_what_is_left_on_a_link_does_not_say_how_large_those_rows_were_that_left_it() -> None:
    now, copies = arrangement_of(PLAN), copies_of(PLAN)
    ends = next(iter(now.live.bill.link))
    twice = {name: now.graph.vertices[name].width * 2 for name in copies}
    narrow, wide = now.live.bill.link[ends], now.live.bill.link[ends] * 1000
    assert remember_shares({ends: 0.5}, now, twice, {ends: narrow}) == {ends: pytest.approx(2.0)}
    assert remember_shares({ends: 0.5}, now, twice, {ends: wide}) == {ends: 0.5}
    assert remember_shares({}, now, twice, {ends: wide}) == {ends: pytest.approx(2.0)}


def test_texts_are_as_long_as_rows_that_were_sent_unless_somebody_declares_it() -> None:
    plan = plan_for(wanted("sales", "asia"))
    now = arrangement_of(plan)
    graph, customers = now.graph, now.catalogue.sources["customers"]
    (copy,) = [name for name in copies_of(plan) if graph.vertices[name].scope == ("customers",)]
    kept = {column for _, column in graph.vertices[copy].columns}
    texts = {"name", "country"} & kept
    assert texts, "or there is nothing to lengthen"
    found = replace(customers, found=tuple(f"{one}.width" for one in texts))
    catalogue = replace(now.catalogue, sources={**now.catalogue.sources, "customers": found})
    width = graph.vertices[copy].width
    longer = with_row_bytes(catalogue, graph, {copy: width + 1000.0}).sources["customers"]
    assert sum(width_of(one) for one in longer.columns or () if one.name in kept) == pytest.approx(width - 16 + 1000.0)
    assert with_row_bytes(catalogue, graph, {copy: width / 2}).sources["customers"] == found, "it was compressed"
    assert with_row_bytes(now.catalogue, graph, {copy: width + 1000.0}) == now.catalogue, "what is declared stays"
