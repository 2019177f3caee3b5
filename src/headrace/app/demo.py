"""Runs the demo: sample apps with databases and load on this machine, kept fresh as `up` keeps any project.

    a folder of its own    a copy of the sample project, and its databases (connect/postgres/sample.py)
    engine and host        as `headrace up` starts them (app/running.py)
    looks                  the host's audit, and the reader that everybody reads views with
    readers                people who read their feeds meanwhile (app/demo_feed.py)
    closing report         the promises until now, and every view against its query (`headrace audit --recompute`)

The door passes in the functions that show progress and serve HTTP. `close` ends all that was started, however far it
got, and removes the folder.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.app.demo_feed import FEED, DemoReaders, FeedResult, choose_people, compare_pages
from headrace.app.demo_service import DemoService, open_sample
from headrace.app.preparing import AskSources, prepare, runnable
from headrace.app.reading import compare_views
from headrace.app.running import Say, Serve
from headrace.connect.postgres.binaries import find_binaries
from headrace.connect.postgres.sample import SampleLoad
from headrace.connect.postgres.server_user import server_user
from headrace.coordinate.compare.compared import ComparedViews
from headrace.declare.read import read_project
from headrace.declare.units import DURATION, Unreadable, read_amount
from headrace.model.errors import UsageError
from headrace.model.feed_names import feed_of
from headrace.model.options import ApplyWishes
from headrace.model.plan import ContractPlan, Operator, Plan, PlanOptions
from headrace.model.plan_modes import Sharing
from headrace.plan.make import make_plan
from headrace.site.service import clock_now

GUEST_DATABASE, GUEST_VIEW = "posts", "wall"
INSERT = "insert into posts (uid, place, body) values (7, 8, 'hello')"
LOAD_TEXT = "written at "
"""How bodies of posts begin that the load writes; others are the visitors'."""
LAST_SAMPLE_POST = 10_000

QUICK_ENGINE = """
# Compiles quickly instead of well: Spark starts in two thirds of the time, which a demo is better off with.
engine: {memory: 1 GB, properties: {spark.driver.extraJavaOptions: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}}
"""

PHASES = {"starting captures": "capturing their changes", "starting the engine": "waiting for Spark"}


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
    feed: FeedResult
    load_error: str | None = None

    @property
    def ok(self) -> bool:
        compared = self.comparison
        return compared.equal and not compared.not_compared and not self.feed.different and self.load_error is None


def read_duration(text: str) -> float:
    """Seconds, of `60s` or `2 min`."""
    try:
        return read_amount(text, DURATION)
    except Unreadable as error:
        raise UsageError(error.message, error.hint) from error


def open_demo(serve: Serve, say: Say) -> AbstractContextManager[Demo]:
    """`say` is told what goes on."""
    return open_sample("apps", lambda sample: Demo(sample, serve, say))


class Demo:
    """`start`, then look as long as you like, `finish`, and `close` in any case."""

    def __init__(self, sample: Path, serve: Serve, say: Say) -> None:
        self._serve, self._say = serve, say
        self._began = time.monotonic()
        self._sample = DemoService(sample, QUICK_ENGINE)
        self._seen: set[int] = set()
        self._looked_at: int | None = None
        self._load: SampleLoad | None = None
        self._readers: DemoReaders | None = None
        self.first_view_s = 0.0

    # Start

    def start(self) -> None:
        """Spark, PostgreSQL and the plan at the same time; returns when every view is there."""
        sample = self._sample
        declared = read_project(sample.project, {}, None)
        engine = sample.start_engine(declared.engine)
        self._say("starting PostgreSQL and Spark")
        # The sample declares all that planning needs, so nobody has to wait for the databases.
        planned = sample.threads.submit(prepare, sample.project, {}, ApplyWishes(), AskSources.DECLARED)
        self._environment = sample.databases.start()
        self.guest_address = sample.databases.admit_guest(GUEST_DATABASE)
        prepared = runnable(planned.result(), engine.kind)
        self._say("the databases are ready; reading them")
        sample.serve(prepared, self._environment, self._serve, self._say, self._tell_phase)
        self._load = sample.databases.start_load()
        self._readers = DemoReaders(sample.databases.follows().list_followers(), self.read_page)
        sample.threads.submit(self._readers.run)
        self._separate = sample.threads.submit(make_plan, declared, PlanOptions(sharing=Sharing.NONE))
        self.first_view_s = time.monotonic() - self._began
        self._running_since = time.monotonic()

    def _tell_phase(self, phase: str) -> None:
        if phase.startswith(("starting", "computing")):
            self._say(PHASES.get(phase, phase))

    # Look

    @property
    def plan(self) -> Plan:
        """What runs; it may move by itself."""
        running = self._sample.host.service.running
        assert running is not None, "every view is there after `start`"
        return running.plan

    def lags(self) -> tuple[Lag, ...]:
        """The lags of all promises. Raises if the service has failed."""
        self._sample.check()
        looked = self._look_at_contracts()
        views = tuple(_lag(one, looked.get(one.contract, {})) for one in self._promised())
        return (*views, self._feed_lag())

    def _promised(self) -> list[ContractPlan]:
        """What runs, without the views that only the feed reads."""
        plan = self.plan
        return [one for one in plan.contracts if feed_of(one.contract, plan.catalogue.feeds) is None]

    def _feed_lag(self) -> Lag:
        feed, seen, readers = self.plan.catalogue.feeds[FEED], self._feed_status(), self._readers
        worst_s = 0.0 if readers is None else readers.worst_lag_s
        return Lag(FEED, "feed", feed.site, feed.freshness_s, seen.get("lag_s"), worst_s)

    def _feed_status(self) -> Mapping[str, Any]:
        return next((one for one in self._sample.host.status()["feeds"] if one["id"] == FEED), {})

    def read_page(self, who: str) -> Mapping[str, Any]:
        """A page of somebody's feed. Raises `ConnectError` while it is being filled."""
        return self._sample.host.service.feed_door.read(FEED, who, None, None)

    def arrivals(self) -> tuple[Arrival, ...]:
        """Rows of visitors that came to the view since the last call."""
        found = []
        upto, changes = self._sample.host.reader().changes(GUEST_VIEW, self._looked_at)
        for t, _, came in changes:
            for row in came.to_pylist():
                post, body = row["post"], row["body"]
                if post > LAST_SAMPLE_POST and not body.startswith(LOAD_TEXT) and post not in self._seen:
                    self._seen.add(post)
                    found.append(Arrival(post, row["author"], body, (clock_now() - t) / 1e6))
        self._looked_at = upto
        return tuple(found)

    @property
    def written(self) -> int:
        return 0 if self._load is None else self._load.rows

    @property
    def psql(self) -> str:
        """A psql that is there: the machine's, or the one of the embedded server."""
        return "psql" if shutil.which("psql") else str(find_binaries(server_user()) / "psql")

    @property
    def command(self) -> str:
        """Our own command, as somebody in another terminal can call it."""
        return "headrace" if shutil.which("headrace") else str(Path(sys.executable).with_name("headrace"))

    @property
    def project(self) -> Path:
        return self._sample.project

    # End

    def finish(self) -> Closing:
        """Reports on promises until now, then compares all views with their queries while the apps go on.

        The comparison takes turns with the service in this process, so promises are not judged by that time.
        """
        load = self._load
        assert load is not None
        seconds, kept = time.monotonic() - self._running_since, tuple(self._judge_promises())
        found = compare_views(self._sample.project, self._environment)
        load.stop()
        feed = self._judge_feed()
        plan, service = self.plan, self._sample.host.status()["service"]
        moved = [name for name, edge in plan.graph.edges.items() if edge.op is Operator.COPY]
        accounts = self._sample.host.service.accounts
        return Closing(
            seconds=seconds,
            first_view_s=self.first_view_s,
            written=load.rows,
            kept=kept,
            pushes=service["pushes"],
            pushed_rows=service["pushed_rows"],
            moved_rows=sum(accounts.rows.get(name, 0) for name in moved),
            moved_bytes=sum(accounts.bytes.get(name, 0) for name in moved),
            cost=plan.money,
            separate_cost=self._separate.result().money,
            comparison=found,
            feed=feed,
            load_error=load.error,
        )

    def _judge_feed(self) -> FeedResult:
        readers = self._readers
        assert readers is not None
        readers.end.set()
        feed, people = self.plan.catalogue.feeds[FEED], choose_people(readers.people)
        different = compare_pages(people, self.read_page, self._sample.databases.follows().find_newest, feed.limit)
        seen = self._feed_status()
        return FeedResult(
            freshness_s=feed.freshness_s,
            pages=readers.pages,
            worst_lag_s=readers.worst_lag_s,
            compared=len(people),
            different=different,
            pairs=seen.get("pairs") or 0,
            stored_ahead=seen.get("stored_ahead") or 0,
            p95_ms=seen.get("p95_ms"),
        )

    def _judge_promises(self) -> Iterator[PromiseResult]:
        found = self._look_at_contracts()
        for one in self._promised():
            if (numbers := found.get(one.contract)) is not None:
                worst_s, violated_s = numbers["worst_lag_s"], numbers["violated_s"]
                yield PromiseResult(one.contract, one.freshness_s, worst_s, numbers["episodes"], violated_s)

    def _look_at_contracts(self) -> dict[str, dict[str, Any]]:
        """What the last look found, by contract."""
        return {one["id"]: one for one in self._sample.host.audit()["contracts"]}

    def close(self) -> None:
        self._sample.close(*(() if self._readers is None else (self._readers.end.set,)))


def _lag(promised: ContractPlan, looked: Mapping[str, Any]) -> Lag:
    lag_s, worst_s = looked.get("lag_s"), looked.get("worst_lag_s", 0.0)
    return Lag(promised.contract, promised.view, promised.site, promised.freshness_s, lag_s, worst_s)
