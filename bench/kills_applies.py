"""Somebody who edits a project and applies it, again and again, while its processes are killed."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from bench.beside import Beside
from bench.kills_world import World
from bench.workloads.posts_and_people import CONTRACTS, write_contracts

PAUSE_S = 1.0
FEWEST = 3
"""Contracts that a project has at least, so that there is always something to keep."""
OUR_FAULT = 70


@dataclass
class Applier(Beside):
    """`faults` are answers that nobody may get: a kill may break an apply off, but never with an error of ours."""

    world: World
    seed: int
    applied: int = 0
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__("applier")

    def run(self) -> None:
        chance = random.Random(f"{self.seed} applies")
        while not self.stopping.wait(PAUSE_S):
            names = [name for name in CONTRACTS if chance.random() < 0.6]
            self._apply(names if len(names) >= FEWEST else list(CONTRACTS)[:FEWEST])

    def apply_all(self) -> None:
        """The project as it was; call it when this has stopped and the service runs."""
        self._apply(list(CONTRACTS))

    def _apply(self, names: list[str]) -> None:
        write_contracts(self.world.project, names)
        done = self.world.command("apply", str(self.world.project))
        said = f"{done.stdout}{done.stderr}"
        self.applied += done.returncode == 0
        if done.returncode == OUR_FAULT or "AssertionError" in said or "has no changes before" in said:
            self.faults.append(f"apply of {', '.join(names)}: {said.strip()}")
