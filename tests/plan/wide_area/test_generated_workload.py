"""The generated workload and networks are the published ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.workloads.wide_area import make_network, make_workload
from bench.workloads.wide_area_files import compute_sites, read_network, read_workload

PUBLISHED = Path(__file__).parents[3].parent / "shared" / "workloads" / "wide-area"
needs_published = pytest.mark.skipif(
    not PUBLISHED.exists(), reason="needs the published workload in ../shared/workloads/wide-area"
)


def test_operators_of_different_queries_are_equal_where_kind_parameters_and_inputs_are() -> None:
    operators = [op.fingerprint for query in make_workload().queries for op in query.operators]
    assert (len(operators), len(set(operators))) == (168, 133)


@needs_published
def test_the_generated_workload_is_the_published_one_operator_by_operator() -> None:
    published, made = read_workload(PUBLISHED / "workload.json"), make_workload()
    assert dict(made.streams) == pytest.approx(dict(published.streams))
    for ours, theirs in zip(made.queries, published.queries, strict=True):
        assert {op.id: op for op in ours.operators} == {op.id: op for op in theirs.operators}


@needs_published
@pytest.mark.parametrize("seed", range(1, 6))
def test_the_modelled_networks_are_the_published_ones(seed: int) -> None:
    name = "network-modelled.json" if seed == 1 else f"network-modelled-{seed}.json"
    published = read_network(PUBLISHED / name, compute_sites(PUBLISHED / "workload.json"))
    made = make_network(seed)
    assert made.sites == published.sites
    assert made.compute == published.compute
    assert dict(made.latency) == pytest.approx(dict(published.latency), abs=1e-6)
    assert dict(made.bandwidth) == pytest.approx(dict(published.bandwidth), rel=1e-6)
