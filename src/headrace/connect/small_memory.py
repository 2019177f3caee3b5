"""Keeps a process small that mostly waits: few pools of memory, and what it does not use any more is given back.

Most of what a service has in memory after it has started is of no use later: what start-up has freed stays in pools of
the C library, one for each few threads, and parts of libraries stay mapped that only loading them needs. Nothing here
changes what a process computes. Where the C library or the kernel knows none of this, nothing happens.
"""

from __future__ import annotations

import ctypes
import gc
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

SMALL = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_TRIM_THRESHOLD_": "65536",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "OPENBLAS_NUM_THREADS": "1",
}
"""The environment of a process that is to be small from its first moment on."""
FIRST_AFTER_S, EVERY_S = 10.0, 300.0
M_ARENA_MAX = -8
"""How many pools the C library has; by default eight for each core."""
MADV_DONTNEED = 4
SMAPS = Path("/proc/self/smaps")
_LIBRARY = re.compile(r"\.so(\.[0-9]+)*$")
_MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ (\d+) *(.*)$")


def use_few_pools() -> None:
    """Call it before threads start. Arrow's own allocator keeps what was freed; the C library gives it back."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_ARENA_MAX, 1)
    pa.set_memory_pool(pa.system_memory_pool())


def give_back_memory() -> None:
    """Gives back what was freed, and pages of libraries: those that are used are mapped again from the file's cache."""
    gc.collect()
    library = ctypes.CDLL(None)
    trim, madvise = getattr(library, "malloc_trim", None), getattr(library, "madvise", None)
    if trim is not None:
        trim(0)
    if madvise is not None:
        for start, end in list(_find_read_only()):
            madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), MADV_DONTNEED)


def keep_giving_back(end: threading.Event) -> None:
    """Gives back what start-up has left, and now and then what came later, until the event is set."""
    pause_s = FIRST_AFTER_S
    while not end.wait(pause_s):
        give_back_memory()
        pause_s = EVERY_S


def _find_read_only() -> Iterator[tuple[int, int]]:
    """Mapped libraries that nobody writes to, and of which no page is the process's own. Pages that the loader has
    written to before they became read-only would be lost: such mappings are left alone.

    Other files are left alone, too. Rows are mapped as well, by threads that may unmap them while this looks; what is
    at their address then would be lost. Libraries stay as long as the process.
    """
    try:
        lines = SMAPS.read_text().splitlines()
    except OSError:
        return
    mapping: tuple[int, int] | None = None
    for line in lines:
        found = _MAPPING.match(line)
        if found is not None:
            start, end, rights, inode, path = found.groups()
            is_file = inode != "0" and "w" not in rights and rights.endswith("p")
            mapping = (int(start, 16), int(end, 16)) if is_file and _LIBRARY.search(path) else None
        elif mapping is not None and line.startswith("Anonymous:"):
            if line.split()[1] == "0":
                yield mapping
            mapping = None
