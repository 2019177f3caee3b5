"""The networks on which queries run for real: how much each link carries, and how long a packet takes.

A file gives one of your own, as JSON or YAML. What it leaves out carries everything at once:

    links:
      - {from: ohio, to: virginia, bandwidth: 10 Mbps, latency: 12 ms}
      - {between: [ohio, tokyo], bandwidth: 200000}                        # bytes/s, both directions
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from bench.workloads.wide_area_sql import SITES, SOURCES
from headrace.declare.units import BANDWIDTH, LATENCY, read_amount

Ends = tuple[str, str]
NETWORKS = ("ample", "tight", "changing")
AMPLE = 2e6
STREAM = 36_000.0
"""Bytes/s that a copy of a whole stream of tweets takes at 30 a second; other rates scale."""
DROPS, DROPS_TO = ("ohio", "virginia"), 0.3


@dataclass(frozen=True, slots=True)
class RealNetwork:
    """Bytes/s that `tc` lets through, and seconds one way, by link; of a network that changes, one link drops for a
    while.
    """

    name: str
    rates: Mapping[Ends, float]
    latency_s: Mapping[Ends, float] = field(default_factory=dict)
    changes: bool = False


def make_real_network(name: str, tweets: float) -> RealNetwork:
    rates = make_rates("tight" if name == "changing" else name, tweets)
    return RealNetwork(name, rates, changes=name == "changing")


def make_rates(network: str, tweets: float) -> dict[Ends, float]:
    """Bytes/s that `tc` lets through, by link.

    On the tight one, a whole stream of tweets fits once over each link that leaves a source, and little more; the link
    that Ireland has to Tokyo is too narrow for even one, so that whoever shares what is there waits for it.
    """
    rates = {(a, b): AMPLE for a in SITES for b in SITES if a != b}
    if network == "ample":
        return rates
    stream = STREAM * tweets / 30.0
    factors = {"virginia": 1.9, "london": 1.6, "tokyo": 1.3}
    for source in SOURCES:
        for site, factor in factors.items():
            rates[source, site] = factor * stream
    rates["ireland", "tokyo"] = 0.5 * stream
    return rates


def read_real_network(path: Path) -> RealNetwork:
    document: Any = YAML(typ="safe").load(path.read_text())
    unknown = sorted({*document.get("sites", ())} - {*SITES})
    rates, latency_s = make_rates("ample", 1.0), dict[Ends, float]()
    for link in document["links"]:
        for ends in _ends_of(link):
            if ends not in rates:
                unknown += [site for site in ends if site not in SITES] or [f"{ends[0]} to itself"]
                continue
            if "bandwidth" in link:
                rates[ends] = _read(link["bandwidth"], BANDWIDTH)
            if "latency" in link:
                latency_s[ends] = _read(link["latency"], LATENCY)
    if unknown:
        raise SystemExit(f"{path}: there is no {', '.join(dict.fromkeys(unknown))}; sites are {', '.join(SITES)}")
    return RealNetwork(path.stem, rates, latency_s)


def _ends_of(link: Mapping[str, Any]) -> tuple[Ends, ...]:
    if "between" in link:
        one, other = link["between"]
        return (one, other), (other, one)
    return ((link["from"], link["to"]),)


def _read(written: Any, dimension: Any) -> float:
    """A number is in bytes/s, or seconds."""
    return float(written) if isinstance(written, int | float) else read_amount(written, dimension)
