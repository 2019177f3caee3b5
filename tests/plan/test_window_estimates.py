"""How many groups of time windows there are, and how many of them change, against a count of generated rows."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from headrace.declare.sql import read_query
from headrace.model.catalogue import Source, SourceKind
from headrace.model.plan import Operator, Plan, PlanOptions
from headrace.plan.canonical.blocks import blocks_of
from headrace.plan.cores import cores_of
from headrace.plan.make import plan_views
from headrace.plan.outputs import block_facts
from headrace.testing import SCHEMA
from tests.plan.written import catalogue, contract, mesh, site

RETENTION_S = 600.0
FACTOR = 1.6
"""How far an estimate may be from the truth, either way: min(possible groups, rows) is at most 1.58 times too many."""


def stream(rate: float, keys: float) -> Source:
    """Rows of `r` as they come in, `rate` per second, with so many values of `k`."""
    columns = tuple(
        replace(one, distinct={"k": keys, "at": rate * RETENTION_S}.get(one.name)) for one in SCHEMA["r"].columns or ()
    )
    return replace(
        SCHEMA["r"], site="m1", kind=SourceKind.STREAM, retention_s=RETENTION_S, time="at", rate=rate, columns=columns
    )


def query(size_s: int, slide_s: int) -> str:
    window = f"window(at, '{size_s} seconds', '{slide_s} seconds')"
    return f"select window.start as since, k, count(*) as c from r group by {window}, k"


def true_groups(rows: list[tuple[float, int]], size_s: int, slide_s: int) -> set[tuple[int, int]]:
    """Windows, by the number of their first slide, with keys."""
    overlap = size_s // slide_s
    return {(int(at // slide_s) - back, key) for at, key in rows for back in range(overlap)}


@pytest.mark.parametrize("rate", [0.5, 10.0, 40.0])
@pytest.mark.parametrize("keys", [1, 20, 400])
@pytest.mark.parametrize(("size_s", "slide_s"), [(10, 10), (60, 60), (60, 10)])
def test_estimated_groups_and_changes_are_close_to_a_count(rate: float, keys: int, size_s: int, slide_s: int):
    rng = random.Random(f"{rate}/{keys}/{size_s}/{slide_s}")
    rows = [(number / rate, rng.randrange(keys)) for number in range(int(rate * RETENTION_S))]
    source = stream(rate, keys)
    project = catalogue([site("m1")], [], [source])
    (core,) = cores_of(blocks_of("v", read_query(query(size_s, slide_s), {"r": source})), project)
    found = block_facts(core)
    if size_s == slide_s:
        assert_close(found.rows, len(true_groups(rows, size_s, slide_s)))
    for batch_s in (5, 30, 100):
        batches = [[row for row in rows if start <= row[0] < start + batch_s] for start in range(200, 500, batch_s)]
        touched = sum(len(true_groups(batch, size_s, slide_s)) for batch in batches) / 300
        assert_close(found.rate.at(batch_s), 2 * touched)


def assert_close(estimate: float, truth: float) -> None:
    assert truth / FACTOR <= estimate <= truth * FACTOR, (estimate, truth)


def planned(rate: float, keys: float) -> Plan:
    source = stream(rate, keys)
    contracts = [contract("c", "v", "m2", 60)]
    project = catalogue([site("m1"), site("m2")], mesh(("m1", "m2")), [source], contracts)
    meaning = read_query(query(10, 10), {"r": source})
    return plan_views(project, {"v": blocks_of("v", meaning)}, PlanOptions())


def test_counts_per_window_are_sent_over_a_link_and_rows_are_not():
    plan = planned(rate=200.0, keys=10)
    sent = [plan.graph.edges[name] for name, edge in plan.graph.edges.items() if edge.op is Operator.COPY]
    assert [plan.graph.edges[edge.inputs[0]].op for edge in sent] == [Operator.AGGREGATE]
    raw = 200.0 * sum(width for width in (8,) * 9)
    assert plan.totals.link["m1", "m2"] < raw / 20
