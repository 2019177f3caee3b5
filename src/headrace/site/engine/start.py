"""Starts the engine that computes the pushes of a project: Spark, or this process."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from headrace.model.options import DeclaredEngine, RunEngine
from headrace.run.feeds.apply import FeedApplyItem
from headrace.run.logs.history import GatherItem
from headrace.run.logs.upkeep_work import UpkeepItem
from headrace.run.ports import Runner
from headrace.run.push.chains import ChainItem
from headrace.run.push.here_jobs import HereJobs
from headrace.run.push.items import Item
from headrace.run.push.perform import needs_session, perform
from headrace.run.push.work import WorkItem
from headrace.run.schedule.deadlines import Patience, limit_s
from headrace.site.engine.late_runner import Absence, EngineStarter, LateRunner
from headrace.site.engine.settings import cores_of, spark_settings
from headrace.site.engine.timed_runner import TimedRunner, ends_within
from headrace.site.folder import Folder

log = logging.getLogger("headrace.engine")

DEFAULT_PATIENCE = Patience()
HERE_AT_MOST, HERE_AT_MOST_BYTES = 500_000.0, 20_000_000
"""Changed rows of a push, counted at each of its steps, and bytes of upkeep that this process does while Spark is away:
a few seconds of work.
"""
STANDING_AT_MOST_BYTES = 200_000_000
"""Bytes of upkeep that a standing task reads. A Spark job of its own would cost more than it takes."""


@dataclass(frozen=True, slots=True)
class StartedEngine:
    """What runs items, what ends it, whether it is away now, and how many items it runs side by side.

    `replace` kills it and has another started, for a reason; there is none if this process computes by itself.
    `allowed_s` is how long what runs now may take.
    """

    kind: RunEngine
    runner: Runner[Any]
    end: Callable[[], None] = lambda: None
    absence: Callable[[], Absence | None] = lambda: None
    replace: Callable[[str], None] | None = None
    allowed_s: Callable[[], float] = lambda: 0.0
    cores: int = 2


def start_engine(engine: DeclaredEngine, folder: Folder, patience: Patience = DEFAULT_PATIENCE) -> StartedEngine:
    if engine.kind is RunEngine.LOCAL:
        return StartedEngine(engine.kind, _here(patience))
    return _spark(engine, folder, patience)


def _here(patience: Patience) -> Runner[Any]:
    """Nobody can end what hangs in this process: there is no use in waiting for it."""
    return TimedRunner(HereJobs(perform), replace(patience, end_s=min(1.0, patience.end_s)))


def is_small(item: Item) -> bool:
    """Whether it need not wait for Spark: what is too much for this process would take the service along.

    What is for Spark alone fails here at once and is tried again later: nobody else has to wait for it.
    """
    match item:
        case ChainItem(items):
            return sum(one.weight for one in items if not needs_session(one)) <= HERE_AT_MOST
        case WorkItem():
            return item.weight <= HERE_AT_MOST or needs_session(item)
        case FeedApplyItem():
            return item.weight <= HERE_AT_MOST
        case UpkeepItem() | GatherItem():
            return item.bytes <= HERE_AT_MOST_BYTES
        case _:
            return False


def fits_standing(item: Item) -> bool:
    """Whether a standing task does it: a second of work, or two. Others have to wait for as long."""
    match item:
        case UpkeepItem() | GatherItem():
            return item.bytes <= STANDING_AT_MOST_BYTES
        case _:
            return is_small(item)


def _spark(declared: DeclaredEngine, folder: Folder, patience: Patience) -> StartedEngine:
    from headrace.connect.spark.kept_session import KeptSession

    settings = spark_settings(declared, folder.spark)
    log.info("Spark at %s, with a heap of %s", settings.master, settings.memory)
    spark = KeptSession(settings, perform, needs_session, fits_standing, partial(limit_s, patience=patience))
    engine = EngineStarter(
        "Spark", spark.start, spark.is_alive, _here(patience), is_small, spark.kill, spark.why_dead, patience
    )
    runner = LateRunner(engine, resumes=folder.running_version is not None)

    def end() -> None:
        runner.end()
        if not ends_within(spark.end, patience.answer_s):
            spark.kill()

    return StartedEngine(
        declared.kind, runner, end, runner.absence, runner.replace, runner.allowed_s, cores_of(declared)
    )
