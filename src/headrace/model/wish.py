"""What one site asks of another: a copy of its rows, up to a time and by a deadline."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CopyWish:
    """A copy shall be brought to `t` before the deadline; both are microseconds."""

    t: int
    deadline: int
