"""An engine that is killed at its commits, again and again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from headrace.meaning.zset import ZSet
from headrace.model.event_wire import EventsAsked
from headrace.model.log import Commit, Lease
from headrace.model.push_events import DatasetsPushed
from headrace.run.logs.garbage import KEEP_MICROSECONDS
from headrace.run.logs.upkeep import Upkeep
from headrace.run.push.engine import Engine
from headrace.testing import changes
from headrace.testing.worlds import RunningWorld
from tests.run.test_engine import check

DEATHS = 6


class Killed(BaseException):
    """As `kill -9` does, it passes every handler."""


@dataclass
class MortalLedger:
    """A ledger whose process dies at one of its commits: before it, or just after."""

    ledger: Any
    left: int
    after: bool
    pushed: int = 0
    """Commits that moved a log on."""

    def commit(self, lease: Lease, commit: Commit) -> None:
        self.left -= 1
        if self.left == 0 and not self.after:
            raise Killed
        self.ledger.commit(lease, commit)
        self.pushed += any(edit.expected is not None and edit.t > edit.expected for edit in commit.edits)
        if self.left == 0:
            raise Killed

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ledger, name)


def live_through_deaths(
    data: st.DataObject,
    world: RunningWorld,
    draw: Callable[[RunningWorld], st.SearchStrategy[dict[str, ZSet]]] = lambda world: changes(
        world.history[world.now]
    ),
    once_loaded: Callable[[], None] = lambda: None,
) -> None:
    """Whatever dies when: views are right once they are loaded, and in the end they are up to date. There are as many
    events of pushes as commits of pushes.
    """
    world.capture(data.draw(draw(world)))
    loaded, pushed = False, 0
    for _ in range(DEATHS):
        world.capture(data.draw(draw(world)))
        mortal = MortalLedger(world.ledger, data.draw(st.integers(1, 6)), data.draw(st.booleans()))
        ports = (mortal, world.store, world.engine.runner, world.lease)
        engine = Engine(world.program, *ports, tell=lambda pushed: (DatasetsPushed(0, len(pushed)),))
        try:
            engine.load()
            loaded = True
            once_loaded()
            _push_and_keep_up(data, world, engine)
        except Killed:
            pass
        pushed += mortal.pushed
        told = world.ledger.events(EventsAsked(limit=1000, routine=True))
        assert len(told) == pushed
        assert all(isinstance(one.event, DatasetsPushed) and one.event.pushes for one in told)
        if loaded:
            assert world.wrong() == []
    world.engine.load()
    once_loaded()
    check(world.engine.push(list(world.program.tasks), world.now))
    assert world.wrong() == []


def _push_and_keep_up(data: st.DataObject, world: RunningWorld, engine: Engine) -> None:
    vertices = list(world.program.tasks)
    if data.draw(st.booleans()):
        engine.push(vertices, world.now)
    else:
        engine.push_chains(dict.fromkeys(vertices, world.now))
    upkeep = Upkeep(engine, keep=data.draw(st.sampled_from([0, KEEP_MICROSECONDS])), gather_files=2)
    while upkeep.step():
        pass
    upkeep.trim(world.now)
