"""Says whether a process of this machine is alive. Ids are reused, so its start time is part of its identity.

Ids mean something only where they were given: on one machine, until it is started again, in one namespace (a container
has its own). What is not known here is never taken for dead.
"""

from __future__ import annotations

import platform
from pathlib import Path

KILLED = 1 << 8
"""The bit of SIGKILL among the signals that wait for a process."""


def birth_of(pid: int) -> int | None:
    """When a process began, in ticks of the kernel since it started; None if there is no such process, or only its
    remains, or it was killed and has not noticed yet: on a busy machine that takes a moment.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] in "ZX" or _is_killed(pid) else int(fields[19])
    except OSError:
        return None


def _is_killed(pid: int) -> bool:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    waiting = [line.split()[1] for line in lines if line.startswith(("SigPnd:", "ShdPnd:"))]
    return any(int(mask, 16) & KILLED for mask in waiting)


def this_machine() -> str:
    """Where ids of processes mean what they mean here: `NAME/BOOT.NAMESPACE`."""
    return f"{platform.node()}/{_read_boot()}.{_read_namespace()}"


def _read_boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
    except OSError:
        return ""


def _read_namespace() -> str:
    try:
        return "".join(filter(str.isdecimal, str(Path("/proc/self/ns/pid").readlink())))
    except OSError:
        return ""


def name_of_machine(machine: str) -> str:
    """The part that people know."""
    return machine.partition("/")[0]


def is_same_boot(machine: str) -> bool:
    """Whether a place is on this machine as it runs now, in this container or another one."""
    return machine.partition(".")[0] == this_machine().partition(".")[0]
