"""Plans come and go while sources lag behind each other and services die: no view asks for changes that are gone."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from headrace.model.log import Commit, Edit, Piece
from headrace.model.notes import LogKeys, SourceLoaded, read_notes
from headrace.model.plan import Plan
from headrace.model.plan_modes import Sharing
from headrace.model.types import Row
from headrace.run.capture.spool import SPOOL, spool_log
from headrace.run.compile.columns import serving_log
from headrace.run.load.transition import between, make_tidying_commit
from headrace.run.logs.upkeep import Upkeep
from headrace.run.program import Program
from headrace.run.push.engine import Engine
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform
from headrace.site.folder import Folder
from headrace.site.loading import Loader
from headrace.site.running import make_running
from headrace.site.sources.captures import Captures
from headrace.testing import changes, tables
from headrace.testing.worlds import RunningWorld, quick_folder
from tests.examples import examples
from tests.run.test_engine import SOURCES
from tests.running.test_loading import QUERIES, TEXTS, names, plan_for

BUDGETS = dict.fromkeys(("m1", "m2", "m3"), 2_000)


@dataclass
class LaggingWorld(RunningWorld):
    """Sources in `behind` are captured later: their changes wait, with the times that they have."""

    behind: set[str] = field(default_factory=set)
    waiting: dict[str, list[Piece]] = field(default_factory=dict)

    def capture_raw(self, rows: Mapping[str, Sequence[tuple[Row, str]]], t: int) -> None:
        for source in self.sources:
            self.waiting.setdefault(source, []).extend(self._piece(source, rows.get(source, ()), t))
        self.catch_up(t)

    def catch_up(self, t: int) -> None:
        times = self.ledger.times()
        edits = [
            Edit(spool_log(source), times[spool_log(source)], t, tuple(self.waiting.pop(source, ())))
            for source in self.sources
            if source not in self.behind
        ]
        self.ledger.commit(self.lease, Commit(tuple(edits)))

    def wrong_of_loaded(self) -> list[str]:
        """Views that are loaded, and differ from their queries."""
        whole, there = self.plan, self.ledger.times()
        loaded = tuple(one for one in whole.contracts if serving_log(self.program, one) in there)
        self.plan = replace(whole, contracts=loaded)
        try:
            return self.wrong()
        finally:
            self.plan = whole


class Died(Exception):
    """A service was killed."""


@dataclass
class Service:
    """Goes over to plans as the service does, and dies where a test says."""

    world: LaggingWorld
    folder: Path
    data: st.DataObject

    def may_die(self) -> None:
        if self.data.draw(st.integers(0, 9)) == 0:
            raise Died

    @property
    def loader(self) -> Loader:
        hasty = threading.Event()
        hasty.set()  # nobody waits for a source that lags
        return Loader(self.world.ledger, Captures(Folder(self.folder), {}), hasty)

    def engine(self, program: Program) -> Engine:
        world = self.world
        return Engine(program, world.ledger, world.store, HereRunner(perform), world.lease)

    def start(self) -> None:
        """As `up` does: what a dead service left is mended, then loaded."""
        engine = self.engine(self.world.program)
        engine.forget(engine.find_cut_off())
        self.tidy(self.world.program)
        Upkeep(engine).build_keys()
        self.world.open()
        self.load()

    def load(self) -> None:
        """As upkeep does: one view after another, as far as that is possible now."""
        engine = self.world.engine
        for entry in self.world.plan.contracts:
            name = serving_log(self.world.program, entry)
            if name not in self.world.ledger.times():
                self.loader.load_if_read(engine, [name])

    def go_over(self, plan: Plan) -> None:
        wanted, world = make_running(plan), self.world
        program, there = wanted.program, world.ledger.times()
        anew = frozenset(name for name in program.logs if name not in there)
        engine = self.engine(between(world.program, program, anew))
        Upkeep(engine).build_keys()
        self.may_die()
        try:
            self.loader.load_contracts(engine, wanted, list(program.tasks))
        except RuntimeError:
            self.take_back()
            return
        self.may_die()
        self.loader.level(engine, program)
        self.may_die()
        then = self.engine(program)
        if then.find_cut_off():
            self.take_back()
            return
        then.forget([name for name, error in then.start_states().items() if error is not None])
        world.plan, world.program = plan, program
        self.may_die()
        self.tidy(program)
        world.open()

    def take_back(self) -> None:
        self.tidy(self.world.program)
        engine = self.engine(self.world.program)
        engine.forget(engine.find_cut_off())
        self.world.open()

    def tidy(self, program: Program) -> None:
        world = self.world
        logs = {name: log for name, log in world.ledger.logs().items() if not name.startswith(SPOOL)}
        world.ledger.commit(world.lease, make_tidying_commit(program, logs, read_notes(world.ledger, LogKeys)))

    def push_and_keep_up(self) -> None:
        """As far as everything is captured."""
        world, there = self.world, self.world.ledger.times()
        loaded = [name for name in world.program.tasks if name in there]
        for name in loaded:
            if self.data.draw(st.integers(0, 2)):
                world.engine.push([name], world.engine.watermark([name]))
        upkeep = Upkeep(world.engine, keep=0, budgets=BUDGETS if self.data.draw(st.booleans()) else {})
        while self.data.draw(st.booleans()) and upkeep.step():
            pass
        if cut_off := upkeep.trim(world.now):
            self.may_die()
            world.engine.forget(cut_off)
            upkeep.trim(world.now)


@settings(
    deadline=None,
    max_examples=examples(4),
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@given(st.data())
def test_no_view_asks_for_changes_that_are_gone(data: st.DataObject) -> None:
    with quick_folder() as folder:
        world = LaggingWorld(plan_for(sorted(TEXTS), "m1", Sharing.MARGINAL), QUERIES, Path(folder))
        service = Service(world, Path(folder), data)
        world.capture(data.draw(tables(max_rows=4)))
        world.ledger.commit(world.lease, Commit(notes=tuple(SourceLoaded(name, world.now) for name in SOURCES)))
        world.engine.load()
        for _ in range(6):
            world.behind = data.draw(st.sets(st.sampled_from(sorted(SOURCES)), max_size=1))
            world.capture(data.draw(changes(world.history[world.now])))
            try:
                service.push_and_keep_up()
                sharing = data.draw(st.sampled_from([Sharing.MARGINAL, Sharing.PLUMB]))
                service.go_over(plan_for(data.draw(names), data.draw(st.sampled_from(["m1", "m2"])), sharing))
            except Died:
                service.start()
            service.load()
            assert world.wrong_of_loaded() == []
        world.behind = set()
        world.catch_up(world.now)
        service.start()
        world.engine.push(list(world.program.tasks), world.now)
        assert world.engine.missing() == []
        assert world.wrong() == []
