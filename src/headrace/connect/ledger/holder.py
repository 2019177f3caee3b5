"""Names the holders of leases: processes, as `MACHINE:ID-BIRTH`. A process that was killed cannot release its lease."""

from __future__ import annotations

import os

from headrace.connect.processes import birth_of, name_of_machine, this_machine


def this_holder() -> str:
    """This process."""
    return f"{this_machine()}:{os.getpid()}-{birth_of(os.getpid()) or 0}"


def is_gone(holder: str) -> bool:
    """Whether the holder was a process of this machine that has ended. What is not known to be gone is not gone."""
    machine, _, number = holder.rpartition(":")
    pid, _, birth = number.partition("-")
    if machine != this_machine() or not pid.isdecimal() or not birth.isdecimal():
        return False
    return birth_of(int(pid)) != int(birth)


def say_holder(holder: str) -> str:
    """A holder in words."""
    machine, _, number = holder.rpartition(":")
    pid = number.partition("-")[0]
    if not machine or not pid.isdecimal():
        return f'"{holder}"'
    where = "" if machine == this_machine() else f' of "{name_of_machine(machine)}", in another container or machine'
    return f"process {pid}{where}"
