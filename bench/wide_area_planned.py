"""What each mode would get through the networks on which queries run for real, by its plans and the fluid model.

Contracts come one by one, as they do for real; those that a mode has no room for are forced. Nothing runs, so that a
network can be tried within minutes: `headrace bench wide-area --planned [--network FILE] [--modes ...]`.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.wide_area_links import RealNetwork
from bench.wide_area_model import SENT_SHARE, plan_in_turn, predict_planned
from bench.wide_area_tables import divide
from bench.workloads.wide_area_sql import WideRates, find_sources_of, write_project
from headrace.declare.read import read_project
from headrace.model.catalogue import Catalogue
from headrace.model.plan_modes import WideArea

OURS = "ours"


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """Records/s of each query, bytes/s that are wanted of all links and that get through, and links that are wanted
    more than they carry.
    """

    throughput: Mapping[str, float]
    wanted: float
    sent: float
    full: int

    @property
    def total(self) -> float:
        return sum(self.throughput.values())


def print_planned(
    networks: Sequence[RealNetwork], modes: Sequence[str], queries: Sequence[str], rates: WideRates, freshness: str
) -> None:
    for network in networks:
        catalogue = _read_catalogue(network, queries, rates, freshness)
        found = {mode: _plan(catalogue, network, mode, queries, rates) for mode in modes}
        print("\n".join(planned_lines(network.name, found)), flush=True)


def _read_catalogue(network: RealNetwork, queries: Sequence[str], rates: WideRates, freshness: str) -> Catalogue:
    declared = {ends: size / SENT_SHARE for ends, size in network.rates.items()}
    with tempfile.TemporaryDirectory(prefix="wide-") as folder:
        write_project(Path(folder), queries, declared, rates, freshness, None, network.latency_s)
        return read_project(Path(folder), {"WIDE_DATA": folder})


def _plan(
    catalogue: Catalogue, network: RealNetwork, mode: str, queries: Sequence[str], rates: WideRates
) -> PlannedRun:
    plan = plan_in_turn(catalogue, None if mode == OURS else WideArea(mode))
    found = predict_planned(plan, network.rates)
    throughput = {
        name: found.shares.get(name, 0.0) * sum(rates.of(stream) for stream in find_sources_of(name))
        for name in queries
    }
    full = sum(size > network.rates[ends] for ends, size in found.wanted.items())
    return PlannedRun(throughput, sum(found.wanted.values()), sum(found.sent.values()), full)


def planned_lines(network: str, runs: Mapping[str, PlannedRun]) -> Iterator[str]:
    base = runs.get("net") or next(iter(runs.values()))
    yield f"\n{network}, as planned: ratios to NET (total, mean over queries, bytes wanted, sent)"
    yield " " * 15 + "records/s  total   mean     kB/s wanted   sent full links"
    for mode, run in runs.items():
        mean = statistics.mean(divide(got, base.throughput[name]) for name, got in run.throughput.items())
        wanted, sent = divide(run.wanted, base.wanted), divide(run.sent, base.sent)
        yield (
            f"{mode:15}{run.total:9.0f} {divide(run.total, base.total):6.2f} {mean:6.2f}"
            f" {run.sent / 1e3:8.1f} {wanted:6.2f} {sent:6.2f} {run.full:10}"
        )
    if "sana" in runs and "max-share" in runs:
        yield f"Sana over Max-Share: {divide(runs['sana'].total, runs['max-share'].total):.2f}"
