"""Decides which Spark to start for a project: master, cores and heap as declared, or as the machine allows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.connect.machine import core_count, memory_bytes
from headrace.model.options import DeclaredEngine, RunEngine

if TYPE_CHECKING:
    from headrace.connect.spark.properties import SparkSettings
    from headrace.model.plan import Plan

HEAP_SHARE = 0.25
"""Of the machine's memory that Java's heap gets: Python workers, captures and page cache need the rest."""
LEAST_HEAP, MOST_HEAP = 1_000_000_000, 30_000_000_000
"""Bytes, where the project does not say. Beyond the latter Java's references become larger, and the heap holds less."""
LEAST_SHARED_HEAP = 512_000_000
"""Bytes of each of several that share a machine: Spark does not start with less."""


def engine_to_start(declared: DeclaredEngine, kind: RunEngine | None) -> DeclaredEngine:
    """What the project says, but of a kind that was asked for, if one was."""
    return declared if kind is None else replace(declared, kind=kind)


def heap_bytes(declared: DeclaredEngine, machine_bytes: int) -> int:
    """The heap as declared, or a share of what the machine has."""
    if declared.memory is not None:
        return round(declared.memory)
    return round(min(max(HEAP_SHARE * machine_bytes, LEAST_HEAP), MOST_HEAP))


def share_heap(engines: Mapping[str, DeclaredEngine], site: str, machine_bytes: int) -> DeclaredEngine:
    """The engine of a site beside those of other sites on this machine: heaps that nobody declared share what one
    alone would get.
    """
    declared, sharing = engines[site], [one for one in engines.values() if _takes_share(one)]
    if not _takes_share(declared) or len(sharing) == 1:
        return declared
    return replace(declared, memory=max(heap_bytes(declared, machine_bytes) // len(sharing), LEAST_SHARED_HEAP))


def _takes_share(declared: DeclaredEngine) -> bool:
    return declared.kind is RunEngine.SPARK and declared.memory is None


def find_engines(plan: Plan, kind: RunEngine | None) -> dict[str, DeclaredEngine]:
    """The engine of each site that has anything to do, if each runs apart: its own, or the project's."""
    catalogue, used = plan.catalogue, {vertex.site for vertex in plan.graph.vertices.values()}
    return {
        name: engine_to_start(site.engine or catalogue.engine, kind)
        for name, site in catalogue.sites.items()
        if name in used
    }


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
