"""Says whether a process of this machine is alive. Ids are reused, so its start time is part of its identity."""

from __future__ import annotations

from pathlib import Path


def birth_of(pid: int) -> int | None:
    """When a process began, in ticks of the kernel since it started; None if there is no such process, or only its
    remains.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])
