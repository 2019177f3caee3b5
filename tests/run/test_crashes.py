"""The engine is killed at every commit point, before and after it; nothing is lost and nothing doubled."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.model.log import Lease, Round
from headrace.run.execute import Engine
from headrace.run.upkeep import Upkeep
from headrace.testing import changes, tables
from headrace.testing.worlds import quick_folder
from tests.run.test_engine import check, world_of

VIEWS = [
    "SELECT r.name, s.label FROM r JOIN s ON r.k = s.k",
    "SELECT r.k, count(*) AS c, max(s.n) AS n FROM r JOIN s ON r.k = s.k GROUP BY r.k",
    "SELECT DISTINCT s.k FROM s LEFT JOIN t ON s.k = t.k WHERE t.ok IS NULL OR t.ok",
]


class Killed(BaseException):
    """As `kill -9` does, it passes every handler."""


@dataclass
class MortalLedger:
    """A ledger whose process dies at one of its commits: before it, or just after."""

    ledger: Any
    left: int
    after: bool

    def commit(self, lease: Lease, round_: Round) -> None:
        self.left -= 1
        if self.left == 0 and not self.after:
            raise Killed
        self.ledger.commit(lease, round_)
        if self.left == 0:
            raise Killed

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ledger, name)


@settings(deadline=None, max_examples=10, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_views_are_right_after_deaths_at_any_commit(data):
    with quick_folder() as folder:
        world = world_of(VIEWS, "m2", Path(folder))
        world.capture(data.draw(tables(max_rows=4)))
        loaded = False
        for _ in range(6):
            world.capture(data.draw(changes(world.history[world.now])))
            mortal = MortalLedger(world.ledger, data.draw(st.integers(1, 6)), data.draw(st.booleans()))
            engine = Engine(world.program, mortal, world.store, world.engine.runner, world.lease)
            try:
                engine.load()
                loaded = True
                vertices = list(world.program.tasks)
                if data.draw(st.booleans()):
                    engine.push(vertices, world.now)
                else:
                    engine.push_chains(dict.fromkeys(vertices, world.now))
                upkeep = Upkeep(engine, keep=0)
                while upkeep.step():
                    pass
                upkeep.trim(world.now)
            except Killed:
                pass
            if loaded:
                assert world.wrong() == []
        world.engine.load()
        check(world.engine.push(list(world.program.tasks), world.now))
        assert world.wrong() == []
