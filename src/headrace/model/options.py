"""Options for running a project, and requests to a running one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from headrace.model.plan_modes import PlanWishes


class RunEngine(StrEnum):
    """What computes: Spark, or the service's own process alone, which is enough for small projects."""

    SPARK = "spark"
    LOCAL = "local"


class SitesMode(StrEnum):
    """Where sites run: all inside one process, each as a process of its own on this machine, or elsewhere: then they
    join.
    """

    INSIDE = "inside"
    PROCESSES = "processes"
    AGENTS = "agents"


@dataclass(frozen=True, slots=True)
class DeclaredEngine:
    """What a project, or a site, says about its engine. Where `cores` or `memory` is None the machine decides.

    `memory` is in bytes, of Java's heap. `standing` tasks take small items as they come; None for as many as there is
    room for. `properties` are those of Spark, by the names that Spark gives them.
    """

    kind: RunEngine = RunEngine.SPARK
    master: str = "local[*]"
    cores: int | None = None
    memory: float | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    standing: int | None = None


@dataclass(frozen=True, slots=True)
class ApplyWishes:
    """`force` are contracts to admit although they are refused; `replan` starts from nothing instead of what runs.
    `planning` says how to plan, beside what the project says.
    """

    replan: bool = False
    force: tuple[str, ...] = ()
    dry_run: bool = False
    planning: PlanWishes = field(default_factory=PlanWishes)
