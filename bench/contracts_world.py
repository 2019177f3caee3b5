"""A service that keeps contracts on this machine: a PostgreSQL of its own, Spark, and whoever watches them."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from bench.service_spark import start_service_spark
from bench.workloads.live_table1 import DATABASE, Live, fill_database, live_catalogue
from headrace.connect.postgres.embedded import EmbeddedPostgres
from headrace.connect.spark.items import warm_up
from headrace.connect.spark.jobs import SparkJobs
from headrace.coordinate.host import Prepared, ServiceHost
from headrace.coordinate.perform import apply_plan
from headrace.model.catalogue import Catalogue
from headrace.model.plan import Plan, PlanOptions
from headrace.plan.make import make_plan
from headrace.run.ports import Runner
from headrace.site.folder import Folder
from headrace.site.service import Service

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POSTGRES = {"shared_buffers": "256MB", "max_wal_size": "2GB", "checkpoint_timeout": "15min"}
TEMPLATE = "smile_template"
WARM_UPS = 10
"""Jobs until Java has compiled most of what they need."""


@dataclass
class Machine:
    """What all runs share. Databases are copies of one that is filled once for a number of tweets."""

    folder: Path
    postgres: EmbeddedPostgres
    runner: Runner[Any]
    runs: int = 0

    @property
    def session(self) -> SparkSession:
        assert isinstance(self.runner, SparkJobs)
        return self.runner.session

    def fill(self, live: Live) -> float:
        """Seconds that it took."""
        started = time.perf_counter()
        self._execute(f"CREATE DATABASE {TEMPLATE}")
        with psycopg.connect(self.postgres.dsn(TEMPLATE), autocommit=True) as connection:
            fill_database(connection, live)
        return time.perf_counter() - started

    def new_database(self) -> str:
        """Its address."""
        self.runs += 1
        self._execute(f"CREATE DATABASE smile{self.runs} TEMPLATE {TEMPLATE}")
        return self.postgres.dsn(f"smile{self.runs}")

    def drop_database(self) -> None:
        """With the slots that captures left in it."""
        name = f"smile{self.runs}"
        with psycopg.connect(self.postgres.dsn(), autocommit=True) as connection:
            for (slot,) in connection.execute(
                "SELECT slot_name FROM pg_replication_slots WHERE database = %s", [name]
            ).fetchall():
                connection.execute("SELECT pg_drop_replication_slot(%s)", [slot])
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def _execute(self, statement: str) -> None:
        with psycopg.connect(self.postgres.dsn(), autocommit=True) as connection:
            connection.execute(statement)


@contextmanager
def machine(cores: int) -> Iterator[Machine]:
    folder = Path(tempfile.mkdtemp(prefix="contracts-"))
    try:
        with (
            EmbeddedPostgres(folder / "postgres", POSTGRES) as postgres,
            start_service_spark(folder / "spark", cores) as jobs,
        ):
            for _ in range(WARM_UPS):
                warm_up(jobs.session)
            yield Machine(folder, postgres, jobs)
        if postgres.folder != folder / "postgres":
            shutil.rmtree(postgres.folder, ignore_errors=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Kept:
    """A service that has loaded its plan."""

    service: Service
    dsn: str
    load_s: float

    @property
    def plan(self) -> Plan:
        """What runs now: the service admits what it refused once it has measured that it fits."""
        assert self.service.running is not None
        return self.service.running.plan


@contextmanager
def keeping(machine: Machine, live: Live, options: PlanOptions, catalogue: Catalogue | None = None) -> Iterator[Kept]:
    """Plans, loads, and keeps the contracts until the block ends. What is refused is not kept, unless it fits later.

    `catalogue` asks for something else than all contracts.
    """
    plan = make_plan(live_catalogue(live) if catalogue is None else catalogue, options)
    dsn = machine.new_database()
    project = machine.folder / f"project{machine.runs}"
    service = Service(Folder(project), {DATABASE: dsn}, machine.runner)
    started = time.perf_counter()
    service.open()
    try:
        loading = apply_plan(service, plan)
        loading.done.wait()
        if loading.error is not None:
            raise RuntimeError(f"the plan could not be loaded: {loading.error}")
        kept = Kept(service, dsn, time.perf_counter() - started)
        with ServiceHost(service, service.folder, lambda _: Prepared(kept.plan, {}, None, ())).replanning():
            yield kept
    finally:
        service.close()
        machine.drop_database()
        shutil.rmtree(project, ignore_errors=True)
