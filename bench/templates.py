"""How long does it take to plan a template with as many pairs as RACE's largest experiment, from tables in PostgreSQL?

Makes an embedded PostgreSQL with a table of devices and one of pairs, from a seed; pairs say how often they need a row
of each side. Then plans it with `headrace plan` in a process of its own, and takes the steps of deciding apart:
numbering and placing pairs, finding out who sends, takes and runs what, and what each device is told. The paper's
optimiser took 3.2 s for 20,000 devices and 186,000 pairs (section 5.3). Processor seconds, since machines are shared.

    python -m bench.templates [--devices 20000] [--pairs 186000] [--seed 1]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import psycopg

from headrace.app.project import planned_catalogue
from headrace.app.template_rows import read_template_rows
from headrace.connect.postgres.embedded import EmbeddedPostgres
from headrace.doors.cli.template_text import template_lines
from headrace.plan.make import make_plan
from headrace.plan.place.duties import duties_of, find_duties, measure_traffic
from headrace.plan.place.explain_template import explain_placed_pair
from headrace.plan.place.family import place_groups, with_templates

PAPER_S = 3.2

HALF_EVERY_S = 2000.0
"""Half of all pairs need rows less often than this, a few all that there are."""

PROJECT = """
project: friends
sites: {core: {}}
sources:
  people: {kind: table, at: core, key: uid, rate: 0.01 /s, postgres: {dsn: "${PEOPLE_DSN}", table: people}}
  friends: {kind: table, at: core, key: [uid, friend], rate: 0.01 /s, postgres: {dsn: "${PEOPLE_DSN}", table: friends}}
devices:
  phones: {table: people, id: uid, streams: {location: {columns: {lat: double, lng: double}, rate: 0.05 /s}}}
templates:
  nearby_friends:
    {per: {table: friends, a: uid, b: friend}, devices: phones, view: nearby_friends, every: {a: mine_s, b: theirs_s}}
contracts:
  nearby_friends: {view: nearby_friends, at: core, freshness: 10 min}
"""
VIEW = """
SELECT x.lat, x.lng FROM a.location AS x JOIN b.location AS y ON distance(x.lat, x.lng, y.lat, y.lng) < 100
"""

Made = TypeVar("Made")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=20_000)
    parser.add_argument("--pairs", type=int, default=186_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="headrace-bench-"))
    try:
        with EmbeddedPostgres(folder / "server", {"fsync": "off"}) as server:
            fill_tables(server.dsn(), asked.devices, asked.pairs, asked.seed)
            measure(write_project(folder / "project"), {**os.environ, "PEOPLE_DSN": server.dsn()})
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def fill_tables(dsn: str, devices: int, pairs: int, seed: int) -> None:
    """Friends are drawn at random. How often a pair needs rows of each side has a long tail."""
    random = np.random.default_rng(seed)
    drawn = np.unique(random.integers(0, devices, (int(pairs * 1.1), 2)), axis=0)
    drawn = drawn[drawn[:, 0] != drawn[:, 1]]
    drawn = drawn[random.permutation(len(drawn))[:pairs]]
    every = random.lognormal(np.log(HALF_EVERY_S), 1.75, drawn.shape)
    with psycopg.connect(dsn, autocommit=True) as session, session.cursor() as cursor:
        cursor.execute("CREATE TABLE people (uid bigint PRIMARY KEY)")
        cursor.execute("CREATE TABLE friends (uid bigint, friend bigint, mine_s float8, theirs_s float8,"
                       " PRIMARY KEY (uid, friend))")  # fmt: skip
        with cursor.copy("COPY people FROM STDIN") as copy:
            copy.write("".join(f"{uid}\n" for uid in range(devices)))
        with cursor.copy("COPY friends FROM STDIN") as copy:
            rows = zip(drawn.tolist(), every.tolist(), strict=True)
            copy.write("".join(f"{a}\t{b}\t{mine}\t{theirs}\n" for (a, b), (mine, theirs) in rows))
        cursor.execute("ANALYZE")


def write_project(folder: Path) -> Path:
    (folder / "views").mkdir(parents=True)
    (folder / "headrace.yml").write_text(PROJECT, encoding="utf-8")
    (folder / "views" / "nearby_friends.sql").write_text(VIEW, encoding="utf-8")
    return folder


def measure(project: Path, environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "headrace", "plan", str(project), "--json"]
    before = _children_s()
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    command_s = _children_s() - before
    (template,) = json.loads(told)["templates"]
    plan, plan_s = timed(lambda: make_plan(planned_catalogue(project, environment)))
    rows, read_s = timed(lambda: read_template_rows(plan.catalogue, project, environment))
    groups, place_s = timed(lambda: place_groups(plan.catalogue, rows))
    group = groups["phones"]
    duties, duties_s = timed(lambda: find_duties(group.wanted, group.placed.where, group.facts.count))
    told_of, documents_s = timed(lambda: duties_of(duties, range(group.facts.count)))
    traffic = measure_traffic(duties, group.facts)
    deciding = place_s + duties_s + documents_s
    pair = (str(group.ids[group.wanted[0].rows.a[0]]), str(group.ids[group.wanted[0].rows.side("b")[0]]))
    why, why_s = timed(lambda: explain_placed_pair(group, "nearby_friends", pair))
    assert len(told_of) == group.facts.count
    assert round(template["messages_s"], 6) == round(traffic.messages, 6)
    print("\n".join(template_lines(with_templates(plan, rows))))
    print(f"{'step':34} processor s")
    for step, seconds in (
        ("the command, from start to end", command_s),
        ("views and contracts planned", plan_s),
        ("rows of both tables read", read_s),
        ("pairs numbered and placed", place_s),
        ("who sends, takes and runs what", duties_s),
        ("the same for each device", documents_s),
        ("deciding, these three", deciding),
        ("the paper's optimiser", PAPER_S),
        ("why one pair runs where it does", why_s),
    ):
        print(f"{step:34} {seconds:8.2f}")
    print(f"{','.join(pair)}: {why.because.splitlines()[0]}")
    assert deciding < PAPER_S


def timed(make: Callable[[], Made]) -> tuple[Made, float]:
    began = time.process_time()
    made = make()
    return made, time.process_time() - began


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
