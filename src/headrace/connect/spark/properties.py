"""Says how Spark is started: the properties that Headrace sets for many small incremental jobs, and why."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from headrace.connect.machine import core_count
from headrace.model.errors import ConnectError
from headrace.model.password import SECRET_PROPERTY, VARIABLE

CORES = "spark.headrace.cores"
"""A property of our own: how many slots of a local master are for ordinary jobs. Standing tasks have others."""
FAILURES = 4
"""How often a task may fail until its job does. Locally Spark allows one failure, so that one Python worker that ends
would end the standing tasks of all others.
"""
DRIVER_OPTIONS, EXECUTOR_OPTIONS = "spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"
END_WITHOUT_MEMORY = "-XX:+ExitOnOutOfMemoryError"
"""A Java without memory lives on with some of its threads dead, and a thread that asks it waits for ever."""


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
    executor_memory: str | None = None
    """Of each executor's heap, where that is not the driver's: a cluster whose workers have less never starts one."""
    cores: int | None = None
    """That all executors of a cluster may use together; a local master says so itself."""
    standing: int | None = 0
    """How many tasks stand and take small items as they come; None for as many as an executor can do without."""
    short_lived: bool = False
    """Compile quickly instead of well: starts in two thirds of the time; for demo and tests, not for heavy jobs."""
    profile: Profile = Profile.LOCAL
    umask: int = -1
    """Of Java and the Python workers; -1 is that of this process."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Spark properties that override ours; options of Java are added to ours."""


def spark_properties(settings: SparkSettings) -> dict[str, str]:
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
        # Workers would look for modules in the folder from which the service was started, before any other.
        "spark.executorEnv.PYTHONSAFEPATH": "1",
        "spark.python.worker.reuse": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "spill"),
        "spark.scheduler.mode": "FAIR",
        "spark.driver.memory": settings.memory,
        "spark.executor.memory": settings.executor_memory or settings.memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if settings.master.startswith("local"):
        ours[CORES] = str(_local_slots(settings.master))
        ours |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        # Spark makes up a secret of its own. On a cluster, both sides have to be told one: the project says so.
        ours["spark.authenticate"] = "true"
    elif settings.cores is not None:
        ours["spark.cores.max"] = str(settings.cores)
    options = {DRIVER_OPTIONS: _java_options(settings), EXECUTOR_OPTIONS: (END_WITHOUT_MEMORY,)}
    added = {name: " ".join([*settings.properties.get(name, "").split(), *own]) for name, own in options.items()}
    return {**ours, **settings.properties, **added}


def spark_master(settings: SparkSettings) -> str:
    """The master that Spark is told: a local one has slots for standing tasks beside those for jobs."""
    if not settings.master.startswith("local") or not settings.standing:
        return settings.master
    return f"local[{_local_slots(settings.master) + settings.standing},{FAILURES}]"


def _local_slots(master: str) -> int:
    found = re.fullmatch(r"local(?:\[(\d+|\*)\])?", master)
    if found is None or found[1] is None:
        return 1
    return core_count() if found[1] == "*" else int(found[1])


def fill_properties(properties: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Replaces `${NAME}` by what the environment says. Raises ConnectError if that is nothing."""
    unset = sorted({name for text in properties.values() for name in VARIABLE.findall(text) if name not in environment})
    if unset:
        raise ConnectError(f'engine: variable "{unset[0]}" is not set', f"export {unset[0]}=...")
    return {name: VARIABLE.sub(lambda found: environment[found[1]], text) for name, text in properties.items()}


def for_command_line(properties: Mapping[str, str]) -> list[tuple[str, str]]:
    """Those that everybody may read who lists the processes of the machine. Spark is given the others later."""
    return [(name, value) for name, value in properties.items() if not SECRET_PROPERTY.search(name)]


def _own_import_path() -> list[str]:
    """Where this process finds modules besides those of its interpreter: workers find them there as well."""
    prefixes = {Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix)}
    entries = dict.fromkeys(Path(entry or ".").resolve() for entry in sys.path)
    return [str(entry) for entry in entries if entry.is_dir() and not prefixes & {entry, *entry.parents}]


def _java_options(settings: SparkSettings) -> tuple[str, ...]:
    quick = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC") if settings.short_lived else ()
    log_settings = f"-Dlog4j2.configurationFile={log_settings_file(settings).as_uri()}"
    return (*quick, "-Duser.timezone=UTC", log_settings, END_WITHOUT_MEMORY)


def log_settings_file(settings: SparkSettings) -> Path:
    return settings.scratch.absolute() / "log4j2.properties"
