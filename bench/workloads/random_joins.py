"""Random three-way joins on three unequal sites: where the cheapest, the fastest and the best plan differ."""

from __future__ import annotations

import random

from bench.workloads.table1 import TIMES
from headrace import Project
from headrace.model.catalogue import Catalogue

SITES = ("m1", "m2", "m3")
TABLES = ("a", "b", "c")


def make_random_join(seed: int) -> Catalogue:
    """One contract on a join of three tables, chained or all on one key."""
    rng = random.Random(seed)
    project = Project(f"random-{seed}", admission="sustainable")
    for name in SITES:
        price, speed = rng.choice(((0.1, 0.5), (0.34, 1), (1, 2), (0.34, 0.5), (1, 1)))
        project.site(name, cpu=f"{price} $/core-hour", disk="0.11 $/GB-month", speed=speed)
    latency, price = rng.choice(("1 ms", "50 ms")), rng.choice((0, 0.01, 0.1))
    for src in SITES:
        for dst in SITES:
            if src != dst:
                project.link(from_=src, to=dst, bandwidth="1e7 B/s", latency=latency, price=f"{price} $/GB")
    for name in TABLES:
        rows = rng.choice((10_000, 100_000, 1_000_000))
        columns: dict[str, dict[str, str | float]] = {"pad": {"type": "string", "width": rng.choice((20, 100, 200))}}
        for key in ("k", "j"):
            columns[key] = {"type": "bigint", "distinct": rng.choice((rows, rows // 10))}
        project.source(name, at=rng.choice(SITES), rows=rows, rate=rng.choice((5, 20, 100)), columns=columns)
    second = "b.j = c.j" if rng.random() < 0.5 else "b.k = c.k"
    project.view("v", f"SELECT a.pad AS x, b.pad AS y, c.pad AS z FROM a, b, c WHERE a.k = b.k AND {second}")
    project.contract("s", view="v", at=rng.choice(SITES), freshness=rng.choice((4, 8, 20)), penalty=0.001)
    for operator, (fixed, per_in, per_out) in TIMES.items():
        project.operator_time(operator, fixed=fixed, per_in=per_in, per_out=per_out)
    return project.catalogue
