"""Names the holders of leases: processes, as `MACHINE:NUMBER`. A process that was killed cannot release its lease."""

from __future__ import annotations

import platform

from headrace.connect.processes import birth_of


def is_gone(holder: str) -> bool:
    """Whether the holder was a process of this machine that has ended. What is not known to be gone is not gone.

    A number that was given again is taken for the old process: then the lease has to run out.
    """
    machine, _, number = holder.rpartition(":")
    if machine != platform.node() or not number.isdecimal():
        return False
    return birth_of(int(number)) is None
