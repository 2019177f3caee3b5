"""What one site asks of another: a copy of its rows, up to a time and by a deadline; and what it hears from there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CopyWish:
    """A copy shall be brought to `t` before the deadline; both are microseconds."""

    t: int
    deadline: int


@dataclass(frozen=True, slots=True)
class HeardReach:
    """How far all that a site has of another one can be brought, by copy; and whether that one is about to end."""

    times: Mapping[str, int]
    is_ending: bool = False
