"""How long does `audit --recompute` take, next to PostgreSQL running the same queries, while somebody writes?

Tables of 1 and 10 million orders in an embedded PostgreSQL, a service on Spark that keeps two views of them (a join as
large as the table, and totals), and a writer beside. Printed for each size: seconds of the audit, seconds that
PostgreSQL takes for the same queries (each row of the answer is read and hashed), their ratio, the largest process that
ran until then (service, audit and PostgreSQL alike), and how long the writer waited at most while the audit ran. Every
view must equal its query, or the run fails.

    headrace bench audit [--rows 1000000,10000000] [--engine spark]
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from bench.beside import Beside
from headrace.connect.postgres.embedded import EmbeddedPostgres

PROJECT = """
project: orders
sites: {here: {}}
sources:
  orders: {kind: table, at: here, postgres: {dsn: "${DSN}", table: public.orders}, key: [id]}
  customers: {kind: table, at: here, postgres: {dsn: "${DSN}", table: public.customers}, key: [customer]}
contracts:
  named: {view: named, at: here, freshness: 10 min}
  totals: {view: totals, at: here, freshness: 10 min}
"""
VIEWS = {
    "named": "SELECT o.id, c.name, o.amount, o.state FROM orders o JOIN customers c ON o.customer = c.customer",
    "totals": "SELECT c.country, o.state, count(*) AS n, sum(o.amount) AS amount FROM orders o"
    " JOIN customers c ON o.customer = c.customer GROUP BY c.country, o.state",
}
TABLES = """
CREATE TABLE customers (customer bigint PRIMARY KEY, name text, country text);
CREATE TABLE orders (id bigint PRIMARY KEY, customer bigint, amount double precision, state text);
INSERT INTO customers SELECT n, 'customer ' || n, 'country ' || n % 200 FROM generate_series(0, {rows} / 100) n;
INSERT INTO orders SELECT n, (n::bigint * 7919) % ({rows} / 100), (n % 100000) / 7.0, 'state ' || n % 5
  FROM generate_series(1, {rows}) n;
ANALYZE;
"""
CHANGES_PER_S = 50


@dataclass(frozen=True, slots=True)
class Measured:
    """Of one size. `waited_s` is the longest statement of the writer while the audit ran."""

    rows: int
    load_s: float
    audit_s: float
    postgres_s: float
    largest_process_mb: float
    waited_s: float
    changes: int


class Writer(Beside):
    """Changes single orders, a transaction each, and remembers the longest."""

    def __init__(self, dsn: str, rows: int) -> None:
        super().__init__("writer")
        self._dsn = dsn
        self._rows = rows
        self.longest_s = 0.0
        self.changes = 0

    def run(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as session:
            while not self.stopping.wait(1 / CHANGES_PER_S):
                began = time.monotonic()
                key = 1 + (self.changes * 104_729) % self._rows
                session.execute("UPDATE orders SET amount = amount + 1 WHERE id = %s", (key,))
                self.longest_s = max(self.longest_s, time.monotonic() - began)
                self.changes += 1


def measure(folder: Path, rows: int, engine: str) -> Measured:
    project = folder / "project"
    (project / "views").mkdir(parents=True)
    (project / "headrace.yml").write_text(PROJECT)
    for name, sql in VIEWS.items():
        (project / "views" / f"{name}.sql").write_text(sql)
    with EmbeddedPostgres(folder / "postgres", {"fsync": "off", "max_wal_size": "4GB"}) as server:
        dsn = server.dsn()
        with psycopg.connect(dsn, autocommit=True) as session:
            session.execute(TABLES.format(rows=rows).encode())
        print(f"{rows:,} orders are there", file=sys.stderr, flush=True)
        postgres_s = sum(min(query_s(dsn, sql) for _ in range(2)) for sql in VIEWS.values())
        environment = {**os.environ, "DSN": dsn}
        began = time.monotonic()
        try:
            run(environment, "up", str(project), "--detach", "--engine", engine)
            load_s = time.monotonic() - began
            print(f"loaded in {load_s:.0f} s", file=sys.stderr, flush=True)
            writer = Writer(dsn, rows)
            writer.start()
            try:
                audit_s = audit(environment, project, rows)
            finally:
                writer.stop()
        finally:
            run(environment, "down", str(project))
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return Measured(rows, load_s, audit_s, postgres_s, largest, writer.longest_s, writer.changes)


def query_s(dsn: str, sql: str) -> float:
    """Until PostgreSQL has computed every row of an answer."""
    with psycopg.connect(dsn) as session:
        began = time.monotonic()
        session.execute(f"SELECT count(*), sum(hashtext(answer::text)) FROM ({sql}) AS answer".encode()).fetchone()
        return time.monotonic() - began


def audit(environment: dict[str, str], project: Path, rows: int) -> float:
    began = time.monotonic()
    found = run(environment, "audit", str(project), "--recompute", "--json")
    took_s = time.monotonic() - began
    compared = {one["view"]: one for one in found["recompute"]}
    assert compared["named"]["equal"] and compared["totals"]["equal"], found["recompute"]
    assert compared["named"]["rows"] == rows, found["recompute"]
    print(f"compared in {took_s:.0f} s; writers waited {found['writers_waited_s']} s", file=sys.stderr, flush=True)
    return took_s


def run(environment: dict[str, str], *words: str) -> Any:
    """A command of ours; progress goes where ours goes."""
    command = [sys.executable, "-m", "headrace", *words]
    ended = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 0, f"{words[0]} ended with {ended.returncode}: {ended.stdout}"
    return json.loads(ended.stdout) if "--json" in words else ended.stdout


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", default="1000000,10000000", help="of the table, with commas between sizes")
    options.add_argument("--engine", default="spark", help="what keeps the views: spark or local")
    asked = options.parse_args()
    print("      rows   load s   audit s   PostgreSQL s   ratio   largest MB   writer waited s   changes")
    for rows in map(int, asked.rows.split(",")):
        folder = Path(tempfile.mkdtemp(prefix="headrace-bench-"))
        try:
            one = measure(folder, rows, asked.engine)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        print(
            f"{one.rows:10,} {one.load_s:8.0f} {one.audit_s:9.1f} {one.postgres_s:14.1f}"
            f" {one.audit_s / one.postgres_s:7.1f} {one.largest_process_mb:12.0f} {one.waited_s:17.2f} {one.changes:9}",
            flush=True,
        )


if __name__ == "__main__":
    main()
