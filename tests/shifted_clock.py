"""A clock that processes see instead of the machine's: ahead or behind by any time, or standing still, while they run.

A library that is loaded before all others (LD_PRELOAD) answers the questions for the time of day from a file that is
mapped into memory; the clocks that only count seconds go on as they are. It is compiled when it is needed.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.connect.postgres.embedded import EmbeddedPostgres
from headrace.connect.postgres.server_user import ENVIRONMENT

HOUR_S = 3600.0

LIBRARY = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct shift { int64_t ahead_ns, stopped_at_ns; };
static volatile struct shift *shift;

__attribute__((constructor)) static void map_shift(void) {
    int file = open(SHIFT_FILE, O_RDONLY);
    void *found = file < 0 ? MAP_FAILED : mmap(0, sizeof(struct shift), PROT_READ, MAP_SHARED, file, 0);
    if (found != MAP_FAILED) shift = found;
    if (file >= 0) close(file);
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    long failed = syscall(SYS_clock_gettime, clock, at);
    if (failed || !shift || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return (int)failed;
    int64_t ns = at->tv_sec * 1000000000LL + at->tv_nsec + shift->ahead_ns;
    if (shift->stopped_at_ns) ns = shift->stopped_at_ns;
    at->tv_sec = ns / 1000000000LL;
    at->tv_nsec = ns % 1000000000LL;
    return 0;
}

int gettimeofday(struct timeval *at, void *zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""


@dataclass(frozen=True)
class ShiftedClock:
    """`library` is for LD_PRELOAD."""

    library: Path
    file: Path

    def set(self, ahead_s: float = 0.0) -> None:
        """Goes on from there."""
        self._write(round(ahead_s * 1e9), 0)

    def stop(self) -> None:
        """Stands still from now on."""
        ahead, stopped = struct.unpack("qq", self.file.read_bytes())
        self._write(ahead, stopped or time.time_ns() + ahead)

    def _write(self, *numbers: int) -> None:
        with self.file.open("r+b") as opened:
            opened.write(struct.pack("qq", *numbers))


@contextmanager
def shifted_clock() -> Iterator[ShiftedClock]:
    """Skips the test where there is no compiler. In a folder that every user may enter."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    folder = Path(tempfile.mkdtemp(prefix="headrace-clock-"))
    folder.chmod(0o755)
    try:
        clock = ShiftedClock(folder / "clock.so", folder / "shift")
        clock.file.write_bytes(struct.pack("qq", 0, 0))
        command = [compiler, "-shared", "-fPIC", "-O1", f'-DSHIFT_FILE="{clock.file}"', "-x", "c", "-", "-o"]
        subprocess.run([*command, str(clock.library)], input=LIBRARY.encode(), check=True)
        yield clock
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def postgres_with(clock: ShiftedClock) -> Iterator[EmbeddedPostgres]:
    """A server that sees another clock."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-tests-"))
    try:
        ENVIRONMENT["LD_PRELOAD"] = os.fspath(clock.library)
        try:
            server = EmbeddedPostgres(folder, {"fsync": "off"})
            server.start()
        finally:
            del ENVIRONMENT["LD_PRELOAD"]
        with server:
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)
