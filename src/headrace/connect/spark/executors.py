"""Ends work on a cluster that has no executors for us: Spark itself would wait for them for ever, without a word."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.connect.spark.session import JAVA_GONE
from headrace.model.amounts import format_seconds
from headrace.model.errors import ConnectError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WITHIN_S = 120.0
"""How long there may be none. A worker that is there starts one within seconds."""
LOOK_EVERY_S = 1.0


@contextmanager
def needing_executors(session: SparkSession, within_s: float = WITHIN_S) -> Iterator[None]:
    """While this holds, jobs are cancelled once there has been no executor for so long.

    Raises ConnectError then. On one machine, where the driver does the work, nothing is looked for.
    """
    if (session.sparkContext.master or "").startswith("local"):
        yield
        return
    done, missing = threading.Event(), threading.Event()
    watch = threading.Thread(target=_watch, args=(session, within_s, done, missing), name="executors", daemon=True)
    watch.start()
    try:
        yield
    except Exception as error:
        if missing.is_set():
            raise _say_missing(session, within_s) from error
        raise
    finally:
        done.set()
        watch.join()


def _watch(session: SparkSession, within_s: float, done: threading.Event, missing: threading.Event) -> None:
    seen = time.monotonic()
    while not done.wait(LOOK_EVERY_S):
        try:
            if count_executors(session):
                seen = time.monotonic()
            elif time.monotonic() - seen > within_s:
                missing.set()
                session.sparkContext.cancelAllJobs()
        except JAVA_GONE:  # whoever waits for a job is told
            return


def count_executors(session: SparkSession) -> int:
    """Those of a cluster; the driver is listed with them, and is none."""
    tracker = session.sparkContext._jsc.sc().statusTracker()
    return len(tracker.getExecutorInfos()) - 1


def _say_missing(session: SparkSession, within_s: float) -> ConnectError:
    context = session.sparkContext
    memory, cores = context.getConf().get("spark.executor.memory"), context.getConf().get("spark.executor.cores")
    wanted = f"with {memory} of memory" + (f" and {cores} cores" if cores else "")
    return ConnectError(
        f'"{context.master}" gave us no executor {wanted} within {format_seconds(within_s)}',
        "look at the cluster's page for workers with that much free; end other applications there, add a worker, or "
        "leave out `--master` to compute on this machine",
    )
