"""Counts the processor seconds that a PostgreSQL on this machine spends on some sessions.

Each session has a process of its own, whose clock the kernel keeps: nothing that others do in the same server is
counted. What the server does in the background for everybody (its log, checkpoints, vacuuming) is not counted either.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from headrace.connect.postgres.feed_tables import connect_feeds
from headrace.model.errors import ConnectError

SESSIONS = "SELECT pid, client_port FROM pg_stat_activity WHERE application_name = %s"


@dataclass(frozen=True, slots=True)
class PostgresFeedMeter:
    """The processes of some sessions; they have to stay open."""

    pids: tuple[int, ...]

    @classmethod
    def find(cls, dsn: str, application: str) -> Self | None:
        """The sessions that an application has open now; None if they have no processes that we can see."""
        with connect_feeds(dsn) as session:
            found = [(row["pid"], row["client_port"]) for row in session.execute(SESSIONS, [application])]
        seen = all(_is_session(pid, port) and _clock_of(pid) is not None for pid, port in found)
        return cls(tuple(pid for pid, _ in found)) if found and seen else None

    def read_seconds(self) -> float:
        total = 0.0
        for pid in self.pids:
            seconds = _clock_of(pid)
            if seconds is None:
                raise ConnectError("a session with the store broke while it was measured")
            total += seconds
        return total

    def close(self) -> None:
        """Nothing is held."""


def _is_session(pid: int, port: int | None) -> bool:
    """Whether a process here is the session of that client: a server in a container has other numbers.

    Servers write to their processes' titles whom they serve: `postgres: anna shop 127.0.0.1(43210) idle`.
    """
    try:
        title = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return False
    client = "[local]" if port in (None, -1) else f"({port})"
    return title.startswith("postgres") and client in title


def _clock_of(pid: int) -> float | None:
    """Processor seconds of a process, to the nanosecond; /proc counts in hundredths. None if it is gone."""
    try:
        return time.clock_gettime((~pid << 3) | 2)  # as clock_getcpuclockid(3) makes it, which Python lacks
    except (OSError, AttributeError, OverflowError):
        return None
