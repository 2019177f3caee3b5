"""SMILE's workload (EDBT 2014, Table 1): 9 relations of tweets, 25 sharings, 6 machines.

Sizes, three of the update ratios and the network are not in the paper; they are fixed here so that results compare.
Relation j is at machine j mod 6 + 1 and sharing k at k mod 6 + 1, or both anywhere, by a seed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from headrace import Project
from headrace.model.catalogue import Catalogue

MACHINES = 6


@dataclass(frozen=True)
class Relation:
    """`ratio` is changed rows per tweet, `columns` are widths in bytes; the first column is the key."""

    name: str
    ratio: float
    rows: float
    columns: dict[str, int]


RELATIONS = (
    Relation("users", 0.3, 3_000_000, {"uid": 8, "pad": 120}),
    Relation("tweets", 1.0, 7_000_000, {"tid": 8, "uid": 8, "pad": 180}),
    Relation("socnet", 0.25, 2_500_000, {"uid": 8, "uid2": 8}),
    Relation("loc", 0.02, 400_000, {"uid": 8, "place": 40}),
    Relation("curloc", 0.1, 700_000, {"tid": 8, "lat": 8, "lng": 8}),
    Relation("urls", 0.2, 1_400_000, {"tid": 8, "url": 60}),
    Relation("hashtags", 0.15, 1_050_000, {"tid": 8, "tags": 24}),
    Relation("photos", 0.05, 350_000, {"tid": 8, "purl": 60}),
    Relation("foursq", 0.02, 140_000, {"tid": 8, "rid": 8}),
)

SHARINGS = (
    "users socnet",
    "users tweets curloc",
    "users tweets urls",
    "users tweets urls curloc",
    "users tweets",
    "tweets curloc",
    "urls curloc",
    "tweets photos",
    "foursq tweets",
    "hashtags tweets",
    "foursq users tweets curloc",
    "foursq users tweets",
    "foursq users tweets loc",
    "tweets loc",
    "users loc tweets curloc",
    "foursq users tweets socnet",
    "users loc",
    "users tweets photos curloc",
    "users tweets hashtags curloc",
    "users tweets hashtags photos curloc",
    "users tweets foursq photos curloc",
    "foursq curloc",
    "photos curloc",
    "hashtags curloc",
    "hashtags users tweets",
)

TIMES = {
    "capture": (0.0, 0.0, 0.0),
    "copy": (0.02, 3.125e-5, 0.0),
    "apply": (0.05, 0.000555555555556, 0.0),
    "join": (0.05, 0.0, 0.000555555555556),
    "union": (0.02, 0.0, 7.77777777778e-5),
    "aggregate": (0.05, 0.000555555555556, 0.0),
    "derive": (0.05, 0.000555555555556, 0.0),
}
"""Seconds: fixed, per row in, per row out (SMILE's figure 5, where it can be read)."""

DISTINCT_AUTHORS = 3_000_000


@dataclass(frozen=True)
class Setting:
    """`seed` None is the fixed placement. More contracts than sharings ask for them again at other machines, and from
    the seventh time on for half the freshness."""

    contracts: int = len(SHARINGS)
    tweets_per_s: float = 100.0
    freshness_s: float = 45.0
    seed: int | None = None


def make_table1(setting: Setting = Setting(), order: Sequence[int] | None = None) -> Catalogue:  # noqa: B008 - frozen
    """The project; `order` are the numbers of contracts, from 1, as they are declared."""
    rng = random.Random(setting.seed)
    project = Project("table1", admission="sustainable")
    for number in range(1, MACHINES + 1):
        project.site(f"m{number}", cpu="0.34 $/core-hour", disk="0.11 $/GB-month", speed=1)
    _add_links(project)
    for number, relation in enumerate(RELATIONS):
        machine = number % MACHINES if setting.seed is None else rng.randrange(MACHINES)
        _add_source(project, relation, machine + 1, setting.tweets_per_s)
    for number, sharing in enumerate(SHARINGS, 1):
        project.view(f"V{number}", query_of(sharing.split()))
    random_machines = [rng.randrange(MACHINES) for _ in range(setting.contracts)]
    for number in order or range(1, setting.contracts + 1):
        turn, view = divmod(number - 1, len(SHARINGS))
        fixed = (view + 1 + turn) % MACHINES
        machine = fixed if setting.seed is None else random_machines[number - 1]
        freshness_s = setting.freshness_s / (1 if turn < MACHINES else 2)
        project.contract(f"S{number}", view=f"V{view + 1}", at=f"m{machine + 1}", freshness=freshness_s, penalty=0.001)
    for operator, (fixed_s, per_in, per_out) in TIMES.items():
        project.operator_time(operator, fixed=fixed_s, per_in=per_in, per_out=per_out)
    return project.catalogue


def _add_links(project: Project) -> None:
    machines = [f"m{number}" for number in range(1, MACHINES + 1)]
    for src in machines:
        for dst in machines:
            if src != dst:
                project.link(from_=src, to=dst, bandwidth="1.25e+08 B/s", latency="0.0005 s", price="0 $/GB")


def _add_source(project: Project, relation: Relation, machine: int, tweets_per_s: float) -> None:
    columns: dict[str, dict[str, str | float]] = {}
    for name, width in relation.columns.items():
        columns[name] = {"type": "string" if width > 8 else "bigint", "width": width}
        if name == "tid" or name == "uid":
            columns[name]["distinct"] = relation.rows if name == next(iter(relation.columns)) else DISTINCT_AUTHORS
    project.source(
        relation.name,
        at=f"m{machine}",
        key=[next(iter(relation.columns))],
        rows=relation.rows,
        rate=relation.ratio * tweets_per_s,
        columns=columns,
    )


def query_of(names: Sequence[str]) -> str:
    """All columns of some relations, joined by tweet and by user."""
    columns = {relation.name: list(relation.columns) for relation in RELATIONS}
    outputs = [f"{name}.{column} AS {name}_{column}" for name in names for column in columns[name]]
    conditions = []
    for key in ("uid", "tid"):
        members = [f"{name}.{key}" for name in names if key in columns[name]]
        conditions += [f"{members[0]} = {other}" for other in members[1:]]
    return f"SELECT {', '.join(outputs)} FROM {', '.join(names)} WHERE {' AND '.join(conditions)}"
