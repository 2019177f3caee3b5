"""Runs the sample apps with embedded databases, simulated users and the service, then checks the promises.

Everything is in one temporary folder and in child processes; `close` removes both, at any moment.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.connect.postgres.binaries import find_binaries
from headrace.connect.postgres.embedded import EmbeddedPostgres
from headrace.connect.postgres.sample import SampleLoad, admit_guest, make_databases, read_habits
from headrace.connect.postgres.server_user import server_user
from headrace.connect.spark.items import SparkRunner, warm_up
from headrace.connect.spark.jobs import SparkJobs
from headrace.connect.spark.session import SparkSettings, end_starting, java_process, start_session, stop_session
from headrace.coordinate.compare.compare import ComparedViews, compare_views
from headrace.coordinate.moving import apply_plan
from headrace.declare.read import read_project
from headrace.model.errors import ConnectError
from headrace.model.plan import Operator, Plan, PlanOptions, Sharing
from headrace.observe.shown import ContractNumbers
from headrace.plan.make import make_plan
from headrace.run.push.perform import needs_session, perform
from headrace.run.push.push import Pushed
from headrace.site.engine.late_runner import EngineStarter, LateRunner
from headrace.site.folder import Folder
from headrace.site.log_words import LOG_WORDS
from headrace.site.reading import ViewReader
from headrace.site.service import Service, clock_now

GUEST_DATABASE, GUEST_VIEW = "posts", "wall"
INSERT = "insert into posts (uid, place, body) values (7, 8, 'hello')"
LOAD_TEXT = "written at "
"""How bodies of posts begin that the load writes; others are the visitors'."""
LAST_SAMPLE_POST = 10_000

LOADED_WITHIN_S, ENDED_WITHIN_S = 300.0, 15.0
"""The sample is loaded within half a minute; on a machine that cannot, people do not wait for ever."""
DOCTOR = "`headrace doctor` looks for the cause: Java, memory, disk"
PHASES = {"starting captures": "capturing their changes", "starting the engine": "waiting for Spark"}

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Lag:
    """A promise now; `lag_s` is None before the view is there."""

    contract: str
    view: str
    site: str
    freshness_s: float
    lag_s: float | None
    worst_s: float


@dataclass(frozen=True, slots=True)
class Arrival:
    """A row that a visitor wrote, in the view; `after_s` is counted from when it was captured."""

    post: int
    author: str
    body: str
    after_s: float


@dataclass(frozen=True, slots=True)
class PromiseResult:
    """What became of a promise."""

    contract: str
    freshness_s: float
    worst_lag_s: float
    violations: int
    violated_s: float


@dataclass(frozen=True, slots=True)
class Closing:
    """The closing report. Costs are of resources, dollars per second, as planned."""

    seconds: float
    first_view_s: float
    written: int
    kept: tuple[PromiseResult, ...]
    pushes: int
    pushed_rows: int
    moved_rows: int
    moved_bytes: int
    cost: float
    separate_cost: float
    comparison: ComparedViews
    load_error: str | None = None

    @property
    def ok(self) -> bool:
        compared = self.comparison
        return compared.equal and not compared.not_compared and self.load_error is None


class Demo:
    """`start`, then look as long as you like, `finish`, and `close` in any case."""

    def __init__(self, sample: Path, say: Say) -> None:
        self._sample = sample
        self._say = say
        self._began = time.monotonic()
        self._moved_rows = self._moved_bytes = 0
        self._seen: set[int] = set()
        self._looked_at: int | None = None
        self._service: Service | None = None
        self._load: SampleLoad | None = None
        self._spark: Future[SparkJobs] | None = None
        self._server: EmbeddedPostgres | None = None
        self.first_view_s = 0.0
        self._root = Path(tempfile.mkdtemp(prefix="headrace-demo-"))
        self.project = self._root / sample.name
        shutil.copytree(sample, self.project, ignore=shutil.ignore_patterns(".headrace"))
        self._log = logging.FileHandler(self._root / "log")
        self._log.setFormatter(LOG_WORDS)
        for name in ("headrace", "py4j", "pyspark"):
            logging.getLogger(name).addHandler(self._log)
            logging.getLogger(name).propagate = False

    # Start

    def start(self) -> None:
        """Spark, PostgreSQL and the plan at the same time; returns when every view is there."""
        starter = ThreadPoolExecutor(1, thread_name_prefix="spark")
        self._spark = starter.submit(self._start_spark)
        starter.shutdown(wait=False)
        self._say("starting PostgreSQL and Spark")
        with ThreadPoolExecutor(1) as side:
            planned = side.submit(self._make_plans)
            environment = self._start_databases()
            self.plan, self._separate = planned.result()
        self._say("the databases are ready; reading them")
        self._service = Service(
            Folder(self.project),
            environment,
            LateRunner(EngineStarter("Spark", self._spark.result)),
            in_processes=False,
            on_push=self._count_sent,
        )
        self._service.open()
        self._bring_up(self._service)
        self._load = SampleLoad(self._addresses, read_habits(self.project / "databases"))
        self._load.start()
        self.first_view_s = time.monotonic() - self._began
        self._running_since = time.monotonic()

    def _start_spark(self) -> SparkJobs:
        session = start_session(self._spark_settings)
        warm_up(session)
        return SparkJobs(SparkRunner(session, perform), needs_session, self._root / "marks", java_process(session))

    @property
    def _spark_settings(self) -> SparkSettings:
        return SparkSettings(self._root / "spark", short_lived=True)

    def _make_plans(self) -> tuple[Plan, Plan]:
        """The plan that runs, and the one in which nobody shares anything."""
        catalogue = read_project(self.project, {}, None)
        return make_plan(catalogue, PlanOptions()), make_plan(catalogue, PlanOptions(sharing=Sharing.NONE))

    def _start_databases(self) -> Mapping[str, str]:
        self._server = EmbeddedPostgres(self._root / "postgres", {"fsync": "off"})
        self._server.start()
        self._addresses = make_databases(self._server, self.project / "databases")
        self.guest_address = admit_guest(self._server, GUEST_DATABASE)
        return {f"{name.upper()}_DSN": address for name, address in self._addresses.items()}

    def _bring_up(self, service: Service) -> None:
        loading, said, began = apply_plan(service, self.plan), "", time.monotonic()
        while not loading.done.wait(0.1):
            late = time.monotonic() - began > LOADED_WITHIN_S
            if late or not service.is_running:
                why = f"it takes longer than {LOADED_WITHIN_S:.0f} s" if late else f"it failed: {service.failure}"
                raise ConnectError(f"the sample apps could not be loaded ({loading.phase}): {why}", DOCTOR)
            if loading.phase.startswith(("starting", "computing")) and loading.phase != said:
                said = loading.phase
                self._say(PHASES.get(said, said))
        if loading.error is not None:
            raise ConnectError(f"the sample apps could not be loaded: {loading.error}", DOCTOR)

    def _count_sent(self, pushed: list[Pushed]) -> None:
        """What goes from one site to another."""
        for one in pushed:
            edge = self.plan.graph.edges.get(one.vertex)
            if one.error is None and edge is not None and edge.op is Operator.COPY:
                self._moved_rows += one.rows_out
                self._moved_bytes += one.bytes

    # Look

    def lags(self) -> tuple[Lag, ...]:
        """The lags of all promises. Raises if the service has failed."""
        assert self._service is not None
        if self._service.failure is not None:
            raise RuntimeError(f"the service failed: {self._service.failure}") from self._service.failure
        looked = self._look_at_contracts(self._service)
        now = {name: one.lag_s for name, one in looked.items()}
        return tuple(
            Lag(
                one.contract,
                one.view,
                one.site,
                one.freshness_s,
                now.get(one.contract),
                looked[one.contract].worst_lag_s if one.contract in looked else 0.0,
            )
            for one in self.plan.contracts
        )

    def arrivals(self) -> tuple[Arrival, ...]:
        """Rows of visitors that came to the view since the last call."""
        found = []
        reader = self._reader()
        upto, changes = reader.changes(GUEST_VIEW, self._looked_at)
        for t, _, came in changes:
            for row in came.to_pylist():
                post, body = row["post"], row["body"]
                if post > LAST_SAMPLE_POST and not body.startswith(LOAD_TEXT) and post not in self._seen:
                    self._seen.add(post)
                    found.append(Arrival(post, row["author"], body, (clock_now() - t) / 1e6))
        self._looked_at = upto
        return tuple(found)

    def _reader(self) -> ViewReader:
        service = self._service
        assert service is not None and service.rounds.state is not None
        return ViewReader(self.plan, service.rounds.state.program, service.ledger, service.store)

    @property
    def written(self) -> int:
        return 0 if self._load is None else self._load.rows

    @property
    def psql(self) -> str:
        """A psql that is there: the machine's, or the one of the embedded server."""
        return "psql" if shutil.which("psql") else str(find_binaries(server_user()) / "psql")

    # End

    def finish(self) -> Closing:
        """Reports on promises until now, then compares all views with their queries while the apps go on.

        The comparison takes turns with the service in this process, so promises are not judged by that time.
        """
        service, load = self._service, self._load
        assert service is not None and load is not None
        seconds, kept = time.monotonic() - self._running_since, tuple(self._judge_promises(service))
        found = compare_views(self._reader(), service.folder, service.environment, service.rounds.push_to)
        load.stop()
        return Closing(
            seconds=seconds,
            first_view_s=self.first_view_s,
            written=load.rows,
            kept=kept,
            pushes=service.rounds.counts.pushes,
            pushed_rows=service.rounds.counts.rows,
            moved_rows=self._moved_rows,
            moved_bytes=self._moved_bytes,
            cost=self.plan.money,
            separate_cost=self._separate.money,
            comparison=found,
            load_error=load.error,
        )

    def _judge_promises(self, service: Service) -> list[PromiseResult]:
        looked = self._look_at_contracts(service)
        return [
            PromiseResult(one.contract, one.freshness_s, numbers.worst_lag_s, numbers.violations, numbers.violated_s)
            for one in self.plan.contracts
            if (numbers := looked.get(one.contract)) is not None
        ]

    def _look_at_contracts(self, service: Service) -> Mapping[str, ContractNumbers]:
        """What the last look found, by contract."""
        return {} if service.auditor.looked is None else service.auditor.looked.contracts

    def close(self) -> None:
        """Ends everything that was started, however far it got, and removes the folder."""
        if self._spark is not None and not self._spark.done():
            end_starting(self._spark_settings)
        if self._load is not None:
            self._load.stop()
        if self._service is not None:
            self._service.close()
        if self._server is not None:
            self._server.stop()
        if self._spark is not None:
            self._stop_spark(self._spark)
        for name in ("headrace", "py4j", "pyspark"):
            logging.getLogger(name).removeHandler(self._log)
        self._log.close()
        shutil.rmtree(self._root, ignore_errors=True)
        if self._server is not None:
            shutil.rmtree(self._server.folder, ignore_errors=True)

    def _stop_spark(self, spark: Future[SparkJobs]) -> None:
        """One that does not even come to an end of starting is left behind: its Java was killed."""
        with suppress(TimeoutError):
            if spark.exception(ENDED_WITHIN_S) is None:
                stop_session(spark.result().session)
