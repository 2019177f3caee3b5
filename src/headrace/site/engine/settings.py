"""Decides which Spark to start for a project: master, cores and heap as declared, or as the machine allows."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.connect.machine import core_count, memory_bytes
from headrace.model.options import DeclaredEngine, RunEngine

if TYPE_CHECKING:
    from headrace.connect.spark.properties import SparkSettings

HEAP_SHARE = 0.25
"""Of the machine's memory that Java's heap gets: Python workers, captures and page cache need the rest."""
LEAST_HEAP, MOST_HEAP = 1_000_000_000, 30_000_000_000
"""Bytes, where the project does not say. Beyond the latter Java's references become larger, and the heap holds less."""


def engine_to_start(declared: DeclaredEngine, kind: RunEngine | None) -> DeclaredEngine:
    """What the project says, but of a kind that was asked for, if one was."""
    return declared if kind is None else replace(declared, kind=kind)


def heap_bytes(declared: DeclaredEngine, machine_bytes: int) -> int:
    """The heap as declared, or a share of what the machine has."""
    if declared.memory is not None:
        return round(declared.memory)
    return round(min(max(HEAP_SHARE * machine_bytes, LEAST_HEAP), MOST_HEAP))


def cores_of(declared: DeclaredEngine) -> int:
    """How many items run side by side."""
    in_master = re.fullmatch(r"local\[(\d+)\]", declared.master)
    if in_master is not None:
        return int(in_master[1])
    return 1 if declared.master == "local" else declared.cores or core_count()


def spark_settings(declared: DeclaredEngine, scratch: Path, name: str = "headrace") -> SparkSettings:
    from headrace.connect.spark.properties import Profile, SparkSettings

    is_local = declared.master.startswith("local")
    return SparkSettings(
        scratch,
        name=name,
        master=f"local[{cores_of(declared)}]" if is_local else declared.master,
        standing=cores_of(declared) if is_local and declared.standing is None else declared.standing,
        memory=f"{heap_bytes(declared, memory_bytes()) // 1024}k",
        cores=declared.cores,
        profile=Profile.LOCAL if is_local else Profile.CLUSTER,
        properties=declared.properties,
        umask=0o077,  # they write to the project's folder only
    )
