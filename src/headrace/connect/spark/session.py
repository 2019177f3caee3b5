"""Starts the one Spark session of a process, set for many small incremental jobs.

What always holds: answers do not depend on the machine (ANSI rules, UTC), nothing listens beyond loopback, and Spark
writes only below `scratch`, its log included.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from headrace.connect.files import open_private
from headrace.connect.spark.java import ensure_java
from headrace.connect.spark.properties import (
    SparkSettings,
    fill_properties,
    for_command_line,
    log_settings_file,
    spark_master,
    spark_properties,
)
from headrace.model.errors import ConnectError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_GONE = (Py4JError, OSError)
"""What is raised when Java ends, or has ended, while it is asked."""
LOG_SETTINGS = """\
status = error
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss.SSS}}{{UTC}} %p %c{{1}}: %m%n%ex
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
"""


def start_session(settings: SparkSettings) -> SparkSession:
    """The session of this process. There is one: a second call returns the first, whatever its settings ask."""
    java = ensure_java()
    _prepare_environment()
    settings.scratch.mkdir(parents=True, exist_ok=True)
    log_settings_file(settings).write_text(LOG_SETTINGS.format(log=log_file(settings)))
    _log_each_failure_once()
    from pyspark.sql import SparkSession

    builder = SparkSession.Builder().master(spark_master(settings)).appName(settings.name)
    properties = fill_properties(spark_properties(settings), os.environ)
    for name, value in properties.items():
        builder = builder.config(name, value)
    try:
        _start_java(settings, properties)
        session = builder.getOrCreate()
        _end_in_silence(session)
        return session
    except Exception as error:  # of a Java that is killed while it starts, anything
        _abandon_java()
        raise ConnectError(
            f"Spark did not start on Java {java.major} in {java.home} ({java.origin})",
            hint=f"`headrace doctor` looks for the cause; Spark's log is {log_file(settings)}",
        ) from error


def has_session() -> bool:
    """Whether this process has a Spark already."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


def _start_java(settings: SparkSettings, properties: Mapping[str, str]) -> None:
    """What Java itself prints goes to a file: warnings of its own that nobody can act on."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return
    conf = SparkConf(loadDefaults=False).setMaster(spark_master(settings)).setAppName(settings.name)
    conf.setAll(for_command_line(properties))
    with open_private(output_file(settings), os.O_APPEND) as output:
        gateway = launch_gateway(conf, {"stdout": output, "stderr": output, "umask": settings.umask})  # type: ignore[no-untyped-call]
    SparkContext._ensure_initialized(gateway=gateway)


def stop_session(session: SparkSession, within_s: float = 15.0) -> None:
    """Ends Spark and its Java; nothing of it is left, and nothing writes to its scratch any more."""
    from pyspark import SparkContext

    if not is_alive(session):
        abandon_session(session)
        return
    session.stop()
    gateway = SparkContext._gateway
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    if process.stdin is not None:
        process.stdin.close()  # Java ends with the one who started it
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def java_process(session: SparkSession) -> subprocess.Popen[bytes] | None:
    """None if somebody else started it."""
    found: subprocess.Popen[bytes] | None = getattr(session.sparkContext._gateway, "proc", None)
    return found


def is_alive(session: SparkSession) -> bool:
    """Whether it can run jobs: asked, since a Java that was killed a moment ago may still look as if it ran."""
    process = java_process(session)
    try:
        stopped = session.sparkContext._jsc.sc().isStopped()
    except (AttributeError, *JAVA_GONE):
        return False
    return not stopped and (process is None or process.poll() is None)


def abandon_session(session: SparkSession) -> None:
    """Lets go of a session that died, so that another can be started in this process; ends what is left of its Java."""
    session.sparkContext._jsc = None  # nobody there to be told
    session.sparkContext.stop()
    _abandon_java()


def _abandon_java() -> None:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.context import SQLContext

    process: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    if process is not None:
        process.kill()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    SQLContext._instantiatedContext = None


def _end_in_silence(session: SparkSession) -> None:
    """When Java dies, the thread that listens to its counters would print a stack; the threads that asked Java are told
    anyway.
    """
    server = session.sparkContext._accumulatorServer
    if server is not None:
        server.handle_error = lambda request, client_address: None  # type: ignore[method-assign]


def end_starting(settings: SparkSettings) -> None:
    """Ends a Java that is still starting: `start_session` then raises where it is called, instead of going on."""
    # Java is launched by a script that forks. All are held still and found before any is killed: one that was forked
    # after a look would be left, and nobody could tell whose it was.
    held: set[int] = set()
    while found := _find_starting(settings) - held:
        _signal_all(found, signal.SIGSTOP)
        held |= found
    _signal_all(held, signal.SIGKILL)


def _signal_all(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _find_starting(settings: SparkSettings) -> set[int]:
    """Processes that we launched and whose command names the scratch."""
    mark = os.fsencode(settings.scratch.absolute())
    parents: dict[int, int] = {}
    marked = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(process.name)] = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            if mark in (process / "cmdline").read_bytes():
                marked.append(int(process.name))
        except OSError:  # it has ended by itself
            continue
    return {pid for pid in marked if _descends_from(os.getpid(), pid, parents)}


def _descends_from(ancestor: int, pid: int, parents: Mapping[int, int]) -> bool:
    while pid in parents:
        pid = parents[pid]
        if pid == ancestor:
            return True
    return False


def output_file(settings: SparkSettings) -> Path:
    return settings.scratch.absolute() / "java.log"


def log_file(settings: SparkSettings) -> Path:
    return settings.scratch.absolute() / "spark.log"


def _prepare_environment() -> None:
    """What Spark only takes from the environment of the process."""
    import pyspark

    # Another Spark's jars would not fit this pyspark; workers on another Python would miss our packages.
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _log_each_failure_once() -> None:
    """What fails raises; pyspark and py4j would print it as well, stacks and all."""
    from pyspark.logger import PySparkLogger

    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_not_of_py4j)
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Some of what it logs has nobody's name."""
    return "py4j" not in Path(record.pathname).parts
