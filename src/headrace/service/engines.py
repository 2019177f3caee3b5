"""What computes the pushes of a project: Spark, or this process."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.model.running import RunEngine
from headrace.run.chains import ChainItem
from headrace.run.items import HereRunner, Item
from headrace.run.perform import perform
from headrace.run.ports import Runner
from headrace.run.work import WorkItem
from headrace.service.folder import Folder
from headrace.service.late_runner import Engine, LateRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE_AT_MOST = 50_000.0
"""Changed rows of a push that this process does while Spark is away: about a second."""


def start_engine(engine: RunEngine, folder: Folder) -> tuple[Runner[Any], Callable[[], None]]:
    """What runs items, and what ends it. Functions declared in Python may lie in the project's folder."""
    sys.path.insert(0, str(folder.project.absolute()))
    if engine is RunEngine.LOCAL:
        return HereRunner(perform), lambda: None
    return _spark(folder)


def is_small_push(item: Item) -> bool:
    return isinstance(item, WorkItem | ChainItem) and item.weight <= HERE_AT_MOST


def _spark(folder: Folder) -> tuple[Runner[Any], Callable[[], None]]:
    from headrace.connect.spark.items import HEAVY_MODULES, SparkRunner, warm_up
    from headrace.connect.spark.session import (
        SparkSettings,
        abandon_session,
        end_starting,
        is_alive,
        start_session,
        stop_session,
    )

    settings = SparkSettings(folder.spark)
    sessions: list[SparkSession] = []

    def start() -> Runner[Any]:
        while sessions:
            abandon_session(sessions.pop())
        shutil.rmtree(folder.spark / "spill", ignore_errors=True)  # of one that died
        session = start_session(settings)
        sessions.append(session)
        warm_up(session, (*HEAVY_MODULES, "headrace.run.perform"))
        return SparkRunner(session, perform)

    def lives(runner: Runner[Any]) -> bool:
        return isinstance(runner, SparkRunner) and is_alive(runner.session)

    runner = LateRunner(
        Engine("Spark", start, lives, HereRunner(perform), is_small_push), resumes=folder.running() is not None
    )

    def end() -> None:
        runner.end()
        if not sessions:
            end_starting(settings)
        for session in sessions:
            stop_session(session)

    return runner, end
