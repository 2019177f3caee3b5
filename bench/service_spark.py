"""Spark as a service has it, standing tasks included, for benchmarks that measure pushes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.connect.machine import core_count
from headrace.connect.spark.jobs import SparkJobs
from headrace.connect.spark.kept_session import KeptSession
from headrace.connect.spark.properties import SparkSettings
from headrace.run.push.perform import needs_session, perform
from headrace.site.engine.start import fits_standing


@contextmanager
def start_service_spark(scratch: Path, cores: int | None = None, memory: str = "1g") -> Iterator[SparkJobs]:
    """Uses as many cores as asked for, or all. Workers are warm."""
    count = cores or core_count()
    settings = SparkSettings(scratch, master=f"local[{count}]", standing=count, memory=memory)
    spark = KeptSession(settings, perform, needs_session, fits_standing)
    try:
        yield spark.start()
    finally:
        spark.end()
