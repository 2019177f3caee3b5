"""Reads a wide-area workload and its networks from the JSON files in which they are published."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.plan.wide_area.streams import QueryOperator, SiteNetwork, SiteStream, StreamQuery, Workload

BYTES_PER_MEGABIT = 1e6 / 8


def read_workload(path: Path) -> Workload:
    document = json.loads(path.read_text())
    streams = {
        source["id"]: SiteStream(source["id"], source["site"], float(source["rate"]), float(source["width"]))
        for source in document["sources"]
    }
    return Workload(streams, tuple(_query(query, streams) for query in document["queries"]))


def read_network(path: Path, compute: frozenset[str]) -> SiteNetwork:
    document = json.loads(path.read_text())
    sites: list[str] = document["sites"]
    links = [(i, j) for i in range(len(sites)) for j in range(len(sites)) if i != j]
    return SiteNetwork(
        sites=tuple(sites),
        compute=compute,
        bandwidth={(sites[i], sites[j]): document["bandwidth_mbps"][i][j] * BYTES_PER_MEGABIT for i, j in links},
        latency={(sites[i], sites[j]): document["latency_ms"][i][j] / 1e3 for i, j in links},
    )


def compute_sites(path: Path) -> frozenset[str]:
    return frozenset(site["id"] for site in json.loads(path.read_text())["sites"] if site["kind"] == "compute")


def _query(document: Mapping[str, Any], streams: Mapping[str, SiteStream]) -> StreamQuery:
    rates = {name: stream.rate for name, stream in streams.items()}
    operators = []
    for op in document["operators"]:
        rates[op["id"]] = output_rate(op, sum(rates[name] for name in op["inputs"]))
        operators.append(
            QueryOperator(
                id=op["id"],
                fingerprint=op["fp"],
                inputs=tuple(op["inputs"]),
                rate=rates[op["id"]],
                width=float(op["width"]),
                at_source=op["at_source"],
                pinned=document["sink"] if op["kind"] == "sink" else None,
            )
        )
    return StreamQuery(document["id"], tuple(operators))


def output_rate(operator: Mapping[str, Any], rate_in: float) -> float:
    """Records/s: windows send each active group once when they close, top-k at most k of each group."""
    match operator["kind"]:
        case "window-aggregate":
            window: float = operator["window_s"]
            return min(float(operator["groups"]), rate_in * window) / window
        case "top-k":
            window = operator["window_s"]
            return min(float(operator["params"]["k"] * operator["groups"]), rate_in * window) / window
        case _:
            return rate_in * float(operator["selectivity"])
