"""Starts a world of sites, waits until it is well, and compares its views with their queries."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import duckdb
import psycopg

from bench.kills_watch import Watch
from bench.sites_world import COORDINATOR, SITES, SitesWorld
from bench.workloads.posts_and_people import CONTRACTS

STARTED_WITHIN_S, EQUAL_WITHIN_S = 240.0, 60.0
LOOK_EVERY_S = 0.2
TABLES = {"people": ("users", "places"), "posts": ("posts", "likes")}


def start_all(here: SitesWorld, watches: Mapping[str, Watch]) -> None:
    began = time.monotonic()
    here.start(COORDINATOR)
    if not wait_until(lambda: here.read_status(COORDINATOR) is not None, STARTED_WITHIN_S):
        raise RuntimeError((here.root / f"{COORDINATOR}.out").read_text())
    for site in SITES:
        here.start(site)
    for watch in watches.values():
        watch.start()
    if not wait_until(lambda: all(is_well(watch) for watch in watches.values()), STARTED_WITHIN_S):
        said = [(here.root / f"{site}.out").read_text() for site in (COORDINATOR, *SITES)]
        raise RuntimeError("the sites do not run: " + "\n".join(said))
    print(f"all views are there after {time.monotonic() - began:.1f} s", flush=True)


def is_well(watch: Watch) -> bool:
    return bool(watch.looks) and watch.looks[-1].wrong is None


def wait_until(is_true: Callable[[], bool], within_s: float) -> bool:
    until = time.monotonic() + within_s
    while not is_true():
        if time.monotonic() > until:
            return False
        time.sleep(LOOK_EVERY_S)
    return True


def compare_with_sources(here: SitesWorld) -> tuple[int, list[str]]:
    """How many views are as their queries, and what the others lack or have too much."""
    expected = _query_sources(here)
    wrong: dict[str, str] = {}
    until = time.monotonic() + EQUAL_WITHIN_S
    for name, (site, _, _) in CONTRACTS.items():
        while True:
            found = Counter(map(tuple, _read_view(here, site, name)))
            if found == expected[name]:
                wrong.pop(name, None)
                break
            missing, extra = sum((expected[name] - found).values()), sum((found - expected[name]).values())
            wrong[name] = f"{name} is not as its query: {missing} rows are missing, and {extra} too many"
            if time.monotonic() > until:
                break
            time.sleep(1.0)
    return len(CONTRACTS) - len(wrong), list(wrong.values())


def _read_view(here: SitesWorld, site: str, name: str) -> list[list[Any]]:
    words = ["show", name, str(here.folder_of(site).project), "--limit", "1000000", "--json"]
    found: list[list[Any]] = json.loads(here.ask(*words, at=site))["rows"]
    return found


def _query_sources(here: SitesWorld) -> dict[str, Counter[tuple[Any, ...]]]:
    with duckdb.connect() as duck:
        for database, tables in TABLES.items():
            with psycopg.connect(here.find_dsn(database)) as connection:
                for table in tables:
                    cursor = connection.execute(f"SELECT * FROM {table}".encode())
                    columns = [
                        f"{one.name} {'BIGINT' if one.type_code == 20 else 'TEXT'}" for one in cursor.description or ()
                    ]
                    duck.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
                    duck.executemany(
                        f"INSERT INTO {table} VALUES ({', '.join('?' for _ in columns)})", cursor.fetchall()
                    )
        return {name: Counter(duck.execute(query).fetchall()) for name, (_, _, query) in CONTRACTS.items()}
