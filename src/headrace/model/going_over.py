"""A plan on its way to run, with the steps that lead there: what a service notes before it takes the first one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.model.plan import Plan
from headrace.model.steps import Step


@dataclass(frozen=True, slots=True)
class GoingOver:
    """`forced` says what forced contracts are promised, in seconds. `files` is a digest of the project's files that the
    plan was made from; empty if it was not made from files.
    """

    plan: Plan
    forced: Mapping[str, float]
    steps: tuple[Step, ...]
    files: str = ""
