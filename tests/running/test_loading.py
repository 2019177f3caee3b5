"""Contracts come and go while changes are pushed: what stays is right all the time, and nothing is left of the rest."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from headrace.declare.sql import read_query
from headrace.model.catalogue import PostgresTable
from headrace.model.log import Commit, PieceKind
from headrace.model.notes import Halted, LogKeys, SourceLoaded, note_keys, read_notes
from headrace.model.plan import Plan, PlanOptions
from headrace.model.plan_modes import Sharing
from headrace.plan.canonical.blocks import blocks_of
from headrace.plan.make import plan_views
from headrace.run.load.transition import between, make_tidying_commit
from headrace.run.logs.upkeep import Upkeep
from headrace.run.push.engine import Engine
from headrace.run.push.halted import read_halted
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform
from headrace.site.folder import Folder
from headrace.site.loading import Loader
from headrace.site.running import make_running
from headrace.site.sources.captures import Captures
from headrace.testing import changes, tables
from headrace.testing.worlds import RunningWorld, quick_folder
from tests.plan.written import catalogue, contract, mesh, site
from tests.run.test_engine import SITES, SOURCES, check

TEXTS = {
    "by_k": "SELECT r.name, s.label FROM r JOIN s ON r.k = s.k",
    "by_name": "SELECT r.id, t.name FROM r JOIN t ON r.name = t.name",
    "three": "SELECT r.id, s.label, t.name FROM r JOIN s ON r.k = s.k JOIN t ON r.k = t.k",
    "counts": "SELECT r.k, count(*) AS c, min(r.n) AS n FROM r GROUP BY r.k",
    "labels": "SELECT s.label, count(*) AS c FROM r JOIN s ON r.k = s.k GROUP BY s.label",
    "maybe": "SELECT r.id, t.name FROM r LEFT JOIN t ON r.k = t.k",
    "best": "SELECT id, k, n FROM (SELECT *, rank() OVER (PARTITION BY k ORDER BY n DESC) AS place FROM r) AS ranked"
    " WHERE place <= 2",
}
STAYING = {
    "of_r": "SELECT r.id, r.k FROM r WHERE r.k > 0",
    "of_s": "SELECT s.k, s.label FROM s WHERE s.k > 0",
    "of_t": "SELECT t.k, t.name FROM t WHERE t.k > 0",
}
"""So that all sources stay: one that goes and comes back is read anew, for which there is no database here."""
QUERIES = {name: read_query(text, SOURCES) for name, text in {**TEXTS, **STAYING}.items()}
VIEWS = {name: blocks_of(name, query) for name, query in QUERIES.items()}


def plan_for(names: list[str], target: str, sharing: Sharing) -> Plan:
    contracts = [contract(f"c_{name}", name, target, 60) for name in (*STAYING, *names)]
    sources = [replace(one, origin=PostgresTable("${DSN}", one.name)) for one in SOURCES.values()]
    project = catalogue([site(name) for name in SITES], mesh(SITES), sources, contracts)
    return plan_views(project, VIEWS, PlanOptions(sharing=sharing))


def go_over(world: RunningWorld, plan: Plan, push: bool, folder: Path) -> None:
    """As the service does it; what runs may be pushed once more just before the new plan does."""
    wanted = make_running(plan)
    program = wanted.program
    engine = Engine(between(world.program, program), world.ledger, world.store, HereRunner(perform), world.lease)
    loader = Loader(world.ledger, Captures(Folder(folder), {}), threading.Event())
    Upkeep(engine).build_keys()
    assert loader.load_contracts(engine, wanted, list(program.tasks)) == {}
    loader.level(engine, program)
    if push:
        check(engine.push([one.vertex for one in world.plan.contracts], world.now))
    world.plan, world.program = plan, program
    world.open()
    assert set(world.engine.start_states().values()) <= {None}
    logs = {name: log for name, log in world.ledger.logs().items() if not name.startswith("spool:")}
    world.ledger.commit(world.lease, make_tidying_commit(program, logs, read_notes(world.ledger, LogKeys)))


def left_over(world: RunningWorld) -> list[str]:
    """Logs, indexes and notes that the plan has no use for."""
    found = [name for name in world.ledger.times() if name not in world.program.logs and not name.startswith("spool:")]
    for name, log in world.ledger.logs(world.program.logs).items():
        keys = {key.columns for key in world.program.logs[name].keys}
        found += [f"{name} {piece.key}" for piece in log.of_kind(PieceKind.INDEX) if piece.key not in keys]
    return found + [name for name in note_keys(world.ledger, LogKeys) if name not in world.program.logs]


names = st.lists(st.sampled_from(sorted(TEXTS)), min_size=1, max_size=4, unique=True)


@settings(
    deadline=None,
    max_examples=8,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@given(st.data())
def test_views_stay_right_while_others_come_and_go(data: st.DataObject) -> None:
    with quick_folder() as folder:
        world = RunningWorld(plan_for(sorted(TEXTS), "m1", Sharing.MARGINAL), QUERIES, Path(folder))
        world.capture(data.draw(tables(max_rows=4)))
        world.ledger.commit(world.lease, Commit(notes=tuple(SourceLoaded(name, world.now) for name in SOURCES)))
        world.engine.load()
        for _ in range(5):
            sharing = data.draw(st.sampled_from([Sharing.MARGINAL, Sharing.PLUMB]))
            plan = plan_for(data.draw(names), data.draw(st.sampled_from(SITES[:2])), sharing)
            go_over(world, plan, data.draw(st.booleans()), Path(folder))
            assert world.wrong() == []
            assert left_over(world) == []
            for _ in range(data.draw(st.integers(0, 2))):
                world.capture(data.draw(changes(world.history[world.now])))
                chosen = data.draw(st.lists(st.sampled_from(sorted(world.program.tasks)), max_size=4))
                check(world.engine.push(chosen, world.engine.watermark(chosen)))
                upkeep = Upkeep(world.engine, keep=0)
                while data.draw(st.booleans()) and upkeep.step():
                    pass
                assert upkeep.trim(world.now) == ()
                assert world.wrong() == []
        check(world.engine.push_chains(dict.fromkeys(world.program.tasks, world.now)))
        assert world.wrong() == []


@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_first_rows_that_were_kept_without_a_state_get_one(data: st.DataObject) -> None:
    with quick_folder() as folder:
        world = RunningWorld(plan_for(["best"], "m1", Sharing.MARGINAL), QUERIES, Path(folder))
        world.capture(data.draw(tables(max_rows=6)))
        world.engine.load()
        world.capture(data.draw(changes(world.history[world.now])))
        check(world.engine.push_chains(dict.fromkeys(world.program.tasks, world.now)))
        (vertex, state), *_ = [(name, task.state.name) for name, task in world.program.tasks.items() if task.state]
        world.ledger.commit(world.lease, Commit(forget=(state,)))
        assert world.engine.start_states() == {vertex: None}
        for _ in range(3):
            world.capture(data.draw(changes(world.history[world.now])))
            check(world.engine.push_chains(dict.fromkeys(world.program.tasks, world.now)))
            assert world.wrong() == []


def test_a_halted_vertex_without_a_state_stays_halted_until_it_is_rebuilt() -> None:
    """Its input starts later than it is: to go on would ask for changes that are not there."""
    with quick_folder() as folder:
        world = RunningWorld(plan_for(["best"], "m1", Sharing.MARGINAL), QUERIES, Path(folder))
        world.engine.load()
        (vertex, state), *_ = [(name, task.state.name) for name, task in world.program.tasks.items() if task.state]
        halted = Halted(vertex, "a bad row", world.now, world.now)
        world.ledger.commit(world.lease, Commit(notes=(halted,), forget=(state,)))
        assert world.engine.start_states() == {}
        assert read_halted(world.ledger) == {vertex: halted}
