"""How a project is run, and what a running one is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class RunEngine(StrEnum):
    """What computes: Spark, or the service's own process alone, which is enough for small projects."""

    SPARK = "spark"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class ApplyWishes:
    """`force` are contracts to admit although they are refused; `replan` starts from nothing instead of what runs."""

    replan: bool = False
    force: tuple[str, ...] = ()
    dry_run: bool = False
