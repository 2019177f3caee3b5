"""Refuses what a limit on memory would end without a word: a process that gets no more is aborted, often in C."""

from __future__ import annotations

from headrace.connect.machine import address_space_bytes
from headrace.model.amounts import format_bytes
from headrace.model.errors import UsageError

LEAST_BYTES = {"up": 2_000_000_000, "demo": 2_000_000_000}
"""Of address space, by command: files are mapped, and each thread has its stack."""
BESIDE_HEAP_BYTES = 3_000_000_000
"""What Java needs beside its heap, and this process beside Java's."""


def need_address_space(command: str) -> None:
    """Raises UsageError if the shell allows a command less than it needs."""
    _need(
        LEAST_BYTES.get(command, 0), f"`headrace {command}` needs at least {format_bytes(LEAST_BYTES.get(command, 0))}"
    )


def need_for_heap(heap_bytes: int) -> None:
    """Raises UsageError if Java cannot have a heap of that many bytes."""
    wanted = heap_bytes + BESIDE_HEAP_BYTES
    told = f"Spark with a heap of {format_bytes(heap_bytes)} needs about {format_bytes(wanted)}"
    _need(wanted, told, "; or `--engine local`, which needs no Java")


def say_signal(number: int) -> str:
    """How a process ended that a signal ended, and what may be behind it."""
    limit = address_space_bytes()
    limited = "" if limit is None else f"; a process may use at most {format_bytes(limit)} of memory here (`ulimit -v`)"
    return f"the service was ended by signal {number} right after it started, and could not say why{limited}"


def _need(wanted: int, told: str, otherwise: str = "") -> None:
    limit = address_space_bytes()
    if limit is not None and limit < wanted:
        what = f"a process may use at most {format_bytes(limit)} of memory here (`ulimit -v`), and {told}"
        raise UsageError(what, f"`ulimit -v unlimited` in the shell or service manager that starts it{otherwise}")
