"""Streams that join tables as of their events, through the whole engine: whatever is captured, in whatever batches,
each row meets what the tables held at its event time, also if it comes late.

The judge recomputes with histories: for each row of the stream alone it evaluates the query as it is written, over the
tables as they were at the time of that row.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from headrace.declare.sql import read_query
from headrace.meaning.evaluate import evaluate
from headrace.meaning.scalar_time import from_micros, micros
from headrace.meaning.zset import EMPTY, ZSet
from headrace.model.catalogue import SourceColumn, SourceKind
from headrace.model.plan import PlanOptions
from headrace.model.relation import Relation, fields_of
from headrace.model.types import Row
from headrace.plan.canonical.blocks import blocks_of
from headrace.plan.make import plan_views
from headrace.run.program import DeriveStep
from headrace.testing.worlds import START, RunningWorld, quick_folder
from tests.examples import examples
from tests.plan.written import catalogue, contract, mesh, site
from tests.queries.schemas import source
from tests.run.deaths import live_through_deaths
from tests.run.sites_world import SitesWorld

SITES = ("m1", "m2")
CLICKS = replace(
    source("clicks", "id int, k int, ts timestamp", "", SourceKind.STREAM, "ts"), joins_as_of_event=True, site="m1"
)
CURRENT = replace(CLICKS, joins_as_of_event=False)
TABLES = {
    "prices": replace(source("prices", "k int, price int"), site="m2"),
    "names": replace(source("names", "k int, name string"), site="m1"),
}
ROW_BY_ROW = [
    "SELECT c.id, p.price FROM clicks c JOIN prices p ON p.k = c.k",
    "SELECT c.id, p.price, n.name FROM clicks c JOIN prices p ON p.k = c.k JOIN names n ON n.k = p.price",
    "SELECT c.id, p.price FROM clicks c LEFT JOIN prices p ON p.k = c.k AND p.price > 1",
    "SELECT c.id, p.price, n.name FROM clicks c LEFT JOIN prices p ON p.k = c.k LEFT JOIN names n ON n.k = c.k",
    "SELECT p.price, c.id FROM prices p RIGHT JOIN clicks c ON p.k = c.k",
    "SELECT id FROM clicks c WHERE EXISTS (SELECT 1 FROM prices p WHERE p.k = c.k AND p.price > c.id)",
    "SELECT id FROM clicks c WHERE k NOT IN (SELECT k FROM prices)",
    "SELECT x.id, n.name FROM (SELECT id, k + 1 AS more FROM clicks WHERE id > 0) x JOIN names n ON n.k = x.more",
    "SELECT c.id, x.name FROM clicks c, (SELECT n.name, p.k FROM prices p JOIN names n ON n.k = p.price) x "
    "WHERE x.k = c.k",
    "SELECT c.id, p.price, date_trunc('hour', c.ts) AS hour FROM clicks c CROSS JOIN prices p",
]
OVER_ROWS = [
    (0, "SELECT price, count(*) AS n, sum(id) AS total FROM rows GROUP BY price"),
    (2, "SELECT id, max(price) AS most FROM rows GROUP BY id"),
    (2, "SELECT DISTINCT price FROM rows"),
    (3, "SELECT name, id FROM rows ORDER BY id DESC, name LIMIT 2"),
]
"""Queries over the rows of one of those above."""


@dataclass
class EventWorld(RunningWorld):
    """`plain` are the queries of each row with joins to tables as they are; `over` are those over all their rows."""

    plain: Mapping[str, Relation] = field(default_factory=dict)
    over: Mapping[str, Relation] = field(default_factory=dict)
    loaded: int = START

    def expected(self, contract: str, t: int) -> ZSet:
        planned = next(one for one in self.plan.contracts if one.contract == contract)
        at = max(time for time in self.history if time <= t)
        found = EMPTY
        for row, weight in self.history[at]["clicks"].items():
            found += evaluate(self.plain[planned.view], self._as_of(row, weight, t))
        return evaluate(self.over[planned.view], {"rows": found}) if planned.view in self.over else found

    def note_load(self) -> None:
        """What was there when the changes of tables began to be kept counts for all times before."""
        if self.loaded == START:
            steps = {name: task.step for name, task in self.program.tasks.items()}
            kept = [name for name, step in steps.items() if isinstance(step, DeriveStep) and step.derivation.stamp]
            (self.loaded,) = {log.start for log in self.ledger.logs(kept).values()}

    def _as_of(self, row: Row, weight: int, t: int) -> dict[str, ZSet]:
        """One row of the stream, and the tables as they were then, as far as anybody knows at `t`."""
        event = row[2]
        if event is None:
            return {**dict.fromkeys(TABLES, EMPTY), "clicks": ZSet([(row, weight)])}
        assert isinstance(event, dt.datetime)
        seen = max(min(micros(event), t), self.loaded)
        at = max(time for time in self.history if time <= seen)
        return {**self.history[at], "clicks": ZSet([(row, weight)])}


def world_of(queries: Sequence[tuple[str, str | None]], folder: Path, target: str = "m2") -> EventWorld:
    """Views of each query, or of a query over the rows of one."""
    sources = {"clicks": CLICKS, **TABLES}
    sources = {name: replace(one, rows=20.0, rate=0.1) for name, one in sources.items()}
    views, plain, over = dict[str, Relation](), dict[str, Relation](), dict[str, Relation]()
    for number, (text, above) in enumerate(queries):
        name = f"v{number}"
        views[name] = read_query(
            text if above is None else above.replace("FROM rows", f"FROM ({text}) AS rows"), sources
        )
        plain[name] = read_query(text, {**sources, "clicks": CURRENT})
        if above is not None:
            columns = tuple(SourceColumn(one.name, one.type) for one in fields_of(plain[name]))
            over[name] = read_query(above, {"rows": replace(TABLES["prices"], name="rows", columns=columns)})
    contracts = [contract(f"c_{name}", name, target, 60) for name in views]
    project = catalogue([site(name) for name in SITES], mesh(SITES), sources.values(), contracts)
    plan = plan_views(project, {name: blocks_of(name, view) for name, view in views.items()}, PlanOptions())
    assert not plan.rejected, plan.rejected
    return EventWorld(plan, views, folder, plain=plain, over=over)


def push_all(world: RunningWorld) -> None:
    assert not [one for one in world.engine.push_chains(dict.fromkeys(world.program.tasks, world.now)) if one.error]


KEYS = st.sampled_from([0, 1, 2, 0, 1, 2, None])


@st.composite
def batches(draw: st.DrawFn, world: RunningWorld) -> dict[str, ZSet]:
    """Clicks of any time around now, and any change of the tables."""
    times = st.sampled_from([*range(START - 10, world.now + 40, 5), None])
    clicks = st.tuples(KEYS, KEYS, times.map(lambda time: None if time is None else from_micros(time)))
    made = {"clicks": ZSet((row, 1) for row in draw(st.lists(clicks, max_size=4)))}
    for name, value in (("prices", KEYS), ("names", st.sampled_from("ab"))):
        held = [row for row, weight in world.history[world.now][name].items() for _ in range(weight)]
        gone = draw(st.lists(st.sampled_from(held), max_size=2, unique=True)) if held else []
        come = draw(st.lists(st.tuples(KEYS, value), max_size=3))
        made[name] = ZSet([*((row, 1) for row in come), *((row, -1) for row in gone)])
    return made


def follow(data: st.DataObject, world: EventWorld, count: int) -> None:
    world.capture(data.draw(batches(world)))
    world.engine.load()
    world.loaded = world.now
    assert world.wrong() == []
    vertices = sorted(world.program.tasks)
    for _ in range(count):
        for _ in range(data.draw(st.integers(1, 3))):
            world.capture(data.draw(batches(world)))
        chosen = data.draw(st.lists(st.sampled_from(vertices), max_size=4))
        cut = data.draw(st.sampled_from(sorted(world.history)))
        pushed = world.engine.push(chosen, min(cut, world.engine.watermark(chosen)))
        assert not [one for one in pushed if one.error]
        assert world.wrong() == []
        if data.draw(st.booleans()):
            world.open()
    world.engine.push_chains(dict.fromkeys(vertices, world.now))
    assert world.wrong() == []


FEW = settings(
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)


@pytest.mark.parametrize("text", ROW_BY_ROW)
@settings(FEW, max_examples=examples(2))
@given(data=st.data())
def test_rows_meet_tables_as_they_were_at_their_event_times(data: st.DataObject, text: str):
    with quick_folder() as folder:
        follow(data, world_of([(text, None)], Path(folder)), count=2)


@pytest.mark.parametrize(("number", "text"), OVER_ROWS)
@settings(FEW, max_examples=examples(2))
@given(data=st.data())
def test_groups_of_such_rows_follow_them(data: st.DataObject, number: int, text: str):
    with quick_folder() as folder:
        follow(data, world_of([(ROW_BY_ROW[number], text)], Path(folder)), count=2)


@settings(FEW, max_examples=examples(2))
@given(data=st.data())
def test_rows_meet_the_same_tables_after_deaths_at_any_commit(data: st.DataObject):
    with quick_folder() as folder:
        world = world_of([(ROW_BY_ROW[3], None), (ROW_BY_ROW[8], None)], Path(folder))
        live_through_deaths(data, world, batches, world.note_load)


@pytest.mark.long
@settings(FEW, max_examples=1_000)
@given(st.data(), st.lists(st.sampled_from([(text, None) for text in ROW_BY_ROW]), min_size=1, max_size=3))
def test_several_such_views_share_the_changes_of_tables(data: st.DataObject, queries: list[tuple[str, None]]):
    with quick_folder() as folder:
        follow(data, world_of(queries, Path(folder)), count=4)


def at(micros_: int) -> dt.datetime:
    return from_micros(micros_)


def test_later_changes_of_a_table_change_nothing_and_late_rows_meet_what_was_there(tmp_path: Path):
    world = world_of([("SELECT c.id, p.price FROM clicks c JOIN prices p ON p.k = c.k", None)], tmp_path)
    world.capture({"prices": ZSet([((1, 10), 1)]), "clicks": ZSet([((1, 1, at(5)), 1)])})
    world.engine.load()
    changed = world.capture({"prices": ZSet([((1, 10), -1), ((1, 20), 1)])})
    world.capture({"clicks": ZSet([((2, 1, at(changed)), 1), ((3, 1, at(changed - 1)), 1)])})
    world.capture({"prices": ZSet([((1, 20), -1)])})
    world.capture({"clicks": ZSet([((4, 1, at(changed + 5)), 1), ((5, 1, at(world.now)), 1)])})
    push_all(world)
    assert rows_of(world) == {(1, 10), (2, 20), (3, 10), (4, 20)}


def rows_of(world: RunningWorld) -> set[Row]:
    table = world.rows("c_v0")
    return {tuple(row[name] for name in table.column_names[:2]) for row in table.to_pylist()}


def test_history_outlives_what_is_made_of_it(tmp_path: Path):
    """Views that are computed anew, as when a plan moves them, come to the same rows."""
    world = world_of([(ROW_BY_ROW[2], None)], tmp_path)
    world.capture({"prices": ZSet([((1, 10), 1)])})
    world.engine.load()
    changed = world.capture({"prices": ZSet([((1, 10), -1)])})
    world.capture({"clicks": ZSet([((1, 1, at(changed - 1)), 1), ((2, 1, at(changed)), 1)])})
    push_all(world)
    tasks = world.program.tasks
    steps = {name: task.step for name, task in tasks.items()}
    (history,) = [name for name, step in steps.items() if isinstance(step, DeriveStep) and step.derivation.stamp]
    world.engine.forget([name for name in tasks if name not in world.engine.upstream([history])])
    world.open()
    world.engine.load()
    push_all(world)
    assert rows_of(world) == {(1, 10), (2, None)}


def test_a_site_that_starts_anew_gets_history_from_where_it_is_kept(tmp_path: Path):
    whole = world_of([(ROW_BY_ROW[0], None)], tmp_path, target="m1")
    apart = SitesWorld(whole.plan, whole.queries, tmp_path)
    world = apart.worlds["m1"]
    assert world.program.imports, "changes of prices come from the other site"
    apart.capture({"prices": ZSet([((1, 10), 1)])})
    apart.load()
    apart.capture({"prices": ZSet([((1, 10), -1)])})
    changed = apart.now
    apart.capture({"clicks": ZSet([((1, 1, at(changed - 1)), 1), ((2, 1, at(changed)), 1)])})
    for _ in range(2):
        for name, one in apart.worlds.items():
            assert apart.push(name, list(one.program.tasks), apart.now) == []
        assert rows_of(world) == {(1, 10)}
        world.engine.forget([*world.program.tasks, *world.program.imports])
        apart.open()
        apart.load()
