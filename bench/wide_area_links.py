"""The networks on which queries run for real: how much each link carries, and how long a packet takes.

A file gives one of your own, as JSON or YAML. What it leaves out carries everything at once:

    links:
      - {from: ohio, to: virginia, bandwidth: 10 Mbps, latency: 12 ms}
      - {between: [ohio, tokyo], bandwidth: 200000}                        # bytes/s, both directions
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from bench.workloads.wide_area import make_network
from bench.workloads.wide_area_files import BYTES_PER_MEGABIT
from bench.workloads.wide_area_sql import COMPUTE, LINKS, SITES
from headrace.declare.units import BANDWIDTH, LATENCY, read_amount

Ends = tuple[str, str]
NETWORKS = ("ample", "tight", "scarce", "changing")
AMPLE = 2e6
NARROW = 0.0095 * 8000 / 360
"""What is left of each link of the modelled network, times the share of its tweets. At 360 tweets/s about a hundredth:
as many of the copies that NET makes fit as on the measured network.
"""
SCARCE, ROOMY, HUB, HUB_CARRIES = 3_000.0, 1.26, ("london", "singapore"), 70_000.0
"""Bytes/s between compute sites, and of one such link; what links from sources carry there of what they do on the tight
network. At 360 tweets/s; other rates scale.
"""
DROPS, DROPS_TO = ("ohio", "virginia"), 0.3
DRAWN_MBPS = (20.0, 280.0)


@dataclass(frozen=True, slots=True)
class RealNetwork:
    """Bytes/s that `tc` lets through, and seconds one way, by link; of a network that changes, one link drops for a
    while. Plans know of latencies; packets are delayed only if `delays`, as that takes a process for each link.
    """

    name: str
    rates: Mapping[Ends, float]
    latency_s: Mapping[Ends, float] = field(default_factory=dict)
    changes: bool = False
    delays: bool = False


def make_real_network(name: str, tweets: float) -> RealNetwork:
    rates = make_rates("tight" if name == "changing" else name, tweets)
    latency = make_network(1).latency
    return RealNetwork(name, rates, {ends: latency[ends] for ends in LINKS}, changes=name == "changing")


def make_drawn_network(seed: int, tweets: float) -> RealNetwork:
    """Links that carry anything that the paper's do, 20 to 280 Mbit/s, whatever their length and each way by itself; as
    much narrower as the tight ones.
    """
    rng, latency = random.Random(seed), make_network(1).latency
    narrow = {ends: rng.uniform(*DRAWN_MBPS) * BYTES_PER_MEGABIT * NARROW * tweets / 8000 for ends in LINKS}
    return RealNetwork(f"drawn-{seed}", make_rates("ample", tweets) | narrow, {ends: latency[ends] for ends in LINKS})


def make_rates(network: str, tweets: float) -> dict[Ends, float]:
    """Bytes/s that `tc` lets through, by link; only those that queries may use are narrow.

    The tight ones are those of the modelled network, narrower. Of the scarce one, those between compute sites carry
    next to nothing, but for one that has room for the results of a single large query: whoever shares what is
    elsewhere, without a look at links, waits for them.
    """
    rates = {(a, b): AMPLE for a in SITES for b in SITES if a != b}
    if network == "ample":
        return rates
    found, scale = make_network(1), tweets / 360
    narrow = {ends: found.bandwidth[ends] * NARROW * tweets / 8000 for ends in LINKS}
    if network == "scarce":
        narrow = {ends: SCARCE * scale if ends[0] in COMPUTE else ROOMY * size for ends, size in narrow.items()}
        narrow[HUB] = HUB_CARRIES * scale
    return rates | narrow


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
    return RealNetwork(path.stem, rates, latency_s, delays=True)


def _ends_of(link: Mapping[str, Any]) -> tuple[Ends, ...]:
    if "between" in link:
        one, other = link["between"]
        return (one, other), (other, one)
    return ((link["from"], link["to"]),)


def _read(written: Any, dimension: Any) -> float:
    """A number is in bytes/s, or seconds."""
    return float(written) if isinstance(written, int | float) else read_amount(written, dimension)
