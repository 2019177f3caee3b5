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
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from headrace.connect.spark.java import Java, ensure_java
from headrace.model.errors import ConnectError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_GONE = (Py4JError, OSError)
"""What is raised when Java ends, or has ended, while it is asked."""
DRIVER_OPTIONS, EXECUTOR_OPTIONS = "spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"
END_WITHOUT_MEMORY = "-XX:+ExitOnOutOfMemoryError"
"""A Java without memory lives on with some of its threads dead, and a thread that asks it waits for ever."""
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


class Profile(StrEnum):
    """`LOCAL`: one machine, small jobs. `CLUSTER`: several machines, so stages are re-planned by what they hold."""

    LOCAL = "local"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """How to start Spark. `scratch` holds spilled data, the warehouse and `spark.log`; it is made when missing."""

    scratch: Path
    name: str = "headrace"
    master: str = "local[2]"
    partitions: int = 2
    """Of a shuffle. Jobs are small: more partitions cost more than they give (200 is four times slower)."""
    memory: str = "1g"
    """Of the driver's heap, which does the work as well when the master is local, and of each executor's."""
    cores: int | None = None
    """That all executors of a cluster may use together; a local master says so itself."""
    short_lived: bool = False
    """Compile quickly instead of well: starts in two thirds of the time; for demo and tests, not for heavy jobs."""
    profile: Profile = Profile.LOCAL
    properties: Mapping[str, str] = field(default_factory=dict)
    """Spark properties that override ours; options of Java are added to ours."""


def start_session(settings: SparkSettings) -> SparkSession:
    """The session of this process. There is one: a second call returns the first, whatever its settings ask."""
    java = ensure_java()
    _prepare_environment()
    settings.scratch.mkdir(parents=True, exist_ok=True)
    _log_settings_file(settings).write_text(LOG_SETTINGS.format(log=log_file(settings)))
    _log_each_failure_once()
    from pyspark.sql import SparkSession

    builder = SparkSession.Builder().master(settings.master).appName(settings.name)
    properties = spark_properties(settings, java)
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
    conf = SparkConf(loadDefaults=False).setMaster(settings.master).setAppName(settings.name)
    conf.setAll(list(properties.items()))
    with output_file(settings).open("ab") as output:
        gateway = launch_gateway(conf, {"stdout": output, "stderr": output})  # type: ignore[no-untyped-call]
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
    # All are found before any is killed: Java is launched by a script, and nobody could tell whose its parts were.
    for pid in [pid for pid in marked if _descends_from(os.getpid(), pid, parents)]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


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


def _log_settings_file(settings: SparkSettings) -> Path:
    return settings.scratch.absolute() / "log4j2.properties"


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


def spark_properties(settings: SparkSettings, java: Java) -> dict[str, str]:
    """Everything we set, by the name that Spark gives it; the settings' own `properties` win.

    But for options of Java: ours come last, so that no others keep a Java alive that ran out of memory.
    """
    scratch = settings.scratch.absolute()
    ours = {
        "spark.sql.ansi.enabled": "true",
        "spark.sql.ansi.doubleQuotedIdentifiers": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(settings.partitions),
        "spark.default.parallelism": str(settings.partitions),
        # Re-plans every stage: dearer for small jobs.
        "spark.sql.adaptive.enabled": "true" if settings.profile is Profile.CLUSTER else "false",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(_own_import_path()),
        "spark.python.worker.reuse": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "spill"),
        "spark.scheduler.mode": "FAIR",
        "spark.driver.memory": settings.memory,
        "spark.executor.memory": settings.memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if settings.master.startswith("local"):
        ours |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    elif settings.cores is not None:
        ours["spark.cores.max"] = str(settings.cores)
    options = {DRIVER_OPTIONS: _java_options(settings), EXECUTOR_OPTIONS: (END_WITHOUT_MEMORY,)}
    added = {name: " ".join([*settings.properties.get(name, "").split(), *own]) for name, own in options.items()}
    return {**ours, **settings.properties, **added}


def _own_import_path() -> list[str]:
    """Where this process finds modules besides those of its interpreter: workers find them there as well."""
    prefixes = {Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix)}
    entries = dict.fromkeys(Path(entry or ".").resolve() for entry in sys.path)
    return [str(entry) for entry in entries if entry.is_dir() and not prefixes & {entry, *entry.parents}]


def _java_options(settings: SparkSettings) -> tuple[str, ...]:
    quick = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC") if settings.short_lived else ()
    log_settings = f"-Dlog4j2.configurationFile={_log_settings_file(settings).as_uri()}"
    return (*quick, "-Duser.timezone=UTC", log_settings, END_WITHOUT_MEMORY)
