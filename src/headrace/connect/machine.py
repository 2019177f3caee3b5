"""Reads the memory and cores of this machine, or of the container that we run in."""

from __future__ import annotations

import os
import resource
from pathlib import Path

UNLIMITED = 1 << 60
"""Limits above this many bytes are none: so version 1 of control groups says it."""


def memory_bytes(root: Path = Path("/")) -> int:
    """The memory of the machine, or what our control group, or one around it, may use if that is less. 0 if nobody
    knows.
    """
    limits = [*_group_limits(root), *_total(root)]
    return min(limits, default=0)


def address_space_bytes() -> int | None:
    """What `ulimit -v` allows a process; None if there is no limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


def allow_open_files(wanted: int) -> int:
    """Has this process open so many files and connections, or as many as it may; how many that is.

    What it may by itself is often 1,024, and what it may if it asks a multiple of that.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return wanted if soft == resource.RLIM_INFINITY else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most


def core_count() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0))


def _total(root: Path) -> list[int]:
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
    except OSError:
        return []
    return [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemTotal:")]


def _group_limits(root: Path) -> list[int]:
    """Limits of our group and of all around it: the smallest counts, and inside a container only some can be seen."""
    base = root / "sys/fs/cgroup"
    found = []
    for controllers, path in _groups(root):
        version_1 = "memory" in controllers
        if controllers and not version_1:
            continue
        place, name = (base / "memory", "memory.limit_in_bytes") if version_1 else (base, "memory.max")
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for depth in range(len(parts) + 1):
            limit = _limit(place.joinpath(*parts[:depth], name))
            if limit is not None:
                found.append(limit)
    return found


def _groups(root: Path) -> list[tuple[list[str], str]]:
    """Controllers (none in version 2) and path of each group that this process is in."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    parts = [line.split(":", 2) for line in lines if line.count(":") >= 2]
    return [([one for one in controllers.split(",") if one], path) for _, controllers, path in parts]


def _limit(file: Path) -> int | None:
    try:
        text = file.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() and int(text) < UNLIMITED else None
