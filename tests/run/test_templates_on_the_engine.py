"""Templates of all shapes on the engine: the cloud's share follows rows, pairs, placements and reports."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st

from headrace.meaning.evaluate import evaluate
from headrace.meaning.scalar_time import from_micros, micros
from headrace.meaning.zset import ZSet
from headrace.model.catalogue import Catalogue, Refusal
from headrace.model.errors import EvaluationError
from headrace.plan.make import plan_declared
from headrace.plan.place.expansion import expand_templates
from headrace.testing.worlds import RunningWorld, quick_folder
from tests.declare.projects import read
from tests.examples import examples

TEXT = """
    sources:
      people: {kind: table, at: us, columns: {uid: int}, rows: 10, rate: 0.01 /s}
      friends: {kind: table, at: us, columns: {uid: int, friend: int}, rows: 20, rate: 0.01 /s}
      places: {kind: table, at: us, columns: {id: int, k: int}, rows: 5, rate: 0 /s}
    devices:
      phones: {table: people, id: uid, streams: {here: {columns: {k: int, n: int}, rate: 0.1 /s, KEEP}}}
    templates:
      t: {per: PER, devices: phones, view: v}
"""
PAIR, ALONE = "{table: friends, a: uid, b: friend}", "{table: people, a: uid}"
START = dt.datetime(2026, 3, 1, 12)
VIEWS = {
    "join": "SELECT x.k, y.n FROM a.here x JOIN b.here y ON x.k = y.k WHERE x.n < 2",
    "residual": "SELECT x.k FROM a.here x JOIN b.here y ON x.k + y.k < 3",
    "left": "SELECT x.k, y.n FROM a.here x LEFT JOIN b.here y ON x.k = y.k",
    "exists": "SELECT x.k FROM a.here x WHERE EXISTS (SELECT 1 FROM b.here y WHERE y.k = x.k)",
    "not exists": "SELECT x.k FROM a.here x WHERE NOT EXISTS (SELECT 1 FROM b.here y WHERE y.k = x.k)",
    "groups": "SELECT x.k, count(*) AS c FROM a.here x JOIN b.here y ON x.n = y.n GROUP BY x.k",
    "one group": "SELECT count(*) AS c, max(y.k) AS m FROM a.here x JOIN b.here y ON x.k = y.k",
    "distinct": "SELECT DISTINCT x.n FROM a.here x JOIN places p ON p.k = x.k JOIN b.here y ON y.n = x.n",
    "first rows": "SELECT p.id FROM a.here x JOIN b.here y ON x.n = y.n JOIN places p ON p.k >= y.k ORDER BY 1 LIMIT 2",
    "both": "SELECT k FROM a.here UNION ALL SELECT n FROM b.here UNION ALL SELECT id FROM places",
    "two levels": "SELECT m.id FROM mine m JOIN theirs o ON m.id = o.id",
}
LEVELS = {
    "mine": "SELECT p.id FROM a.here x JOIN places p ON p.k = x.k",
    "theirs": "SELECT p.id FROM b.here x JOIN places p ON p.k = x.k",
}
ALONE_VIEWS = {
    "table": "SELECT p.id, x.n FROM a.here x JOIN places p ON p.k = x.k",
    "count": "SELECT count(*) AS c FROM a.here x WHERE x.n > 0",
    "left": "SELECT p.id, x.n FROM places p LEFT JOIN a.here x ON p.k = x.k",
}
CASES = [("pair", name, sql) for name, sql in VIEWS.items()] + [("one", name, sql) for name, sql in ALONE_VIEWS.items()]


def expand(folder: Path, kind: str, sql: str, keep: str) -> Catalogue:
    text = TEXT.replace("PER", PAIR if kind == "pair" else ALONE).replace(", KEEP", keep and f", keep: {keep}")
    found = expand_templates(read(folder, text, v=sql, **(LEVELS if "mine" in sql else {})))
    # Rows come and go at random, also twice: nothing of what is tested needs keys.
    return replace(found, sources={name: replace(one, key=()) for name, one in found.sources.items()})


def start_world(catalogue: Catalogue, folder: Path) -> RunningWorld:
    plan = plan_declared(catalogue)
    assert [one.contract for one in plan.contracts] == ["t"], plan.rejected
    query = catalogue.views["v"].query
    assert not isinstance(query, Refusal)
    return RunningWorld(plan, {"v": query}, folder, start=micros(START))


SMALL = st.integers(0, 2)


def draw_history(data: st.DataObject, catalogue: Catalogue) -> list[dict[str, ZSet]]:
    """Batches of changes of all sources that the template has."""
    draw = data.draw
    tables: dict[str, list[tuple[object, ...]]] = {name: [] for name in catalogue.sources}
    batches = []
    for _ in range(3):
        batch = {}
        for name, known in tables.items():
            columns = catalogue.sources[name].columns or ()
            rows = st.tuples(*(_value(str(one.type), one.name) for one in columns))
            added = draw(st.lists(rows, max_size=4))
            gone = [row for row in known if draw(st.booleans())]
            batch[name] = ZSet.of(added) - ZSet.of(gone)  # type: ignore[arg-type]
            tables[name] = [row for row in known if row not in gone] + added
            if any(known.count(row) > 1 for row in gone):
                reject()
        batches.append(batch)
    return batches


def _value(type_: str, name: str) -> st.SearchStrategy[object]:
    if type_ == "timestamp":
        return st.sampled_from((START, START - dt.timedelta(minutes=50), START + dt.timedelta(minutes=10)))
    if type_ == "string":
        return st.sampled_from(("x", "y"))
    return SMALL if name in ("device", "seq", "a", "b", "at", "reporter", "uid") else st.none() | SMALL


@pytest.mark.parametrize("keep", ["", "1 h"])
@pytest.mark.parametrize(("kind", "name", "sql"), CASES, ids=lambda one: one if " FROM " not in one else "")
@settings(
    max_examples=examples(3),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@given(data=st.data())
def test_what_people_read_follows_every_change(tmp_path, kind, name, sql, keep, data):
    catalogue = expand(tmp_path, kind, sql, keep)
    batches = draw_history(data, catalogue)
    with quick_folder() as folder:
        world = start_world(catalogue, Path(folder))
        try:
            world.capture(batches[0])
            world.engine.load()
            assert world.wrong() == []
            for batch in batches[1:]:
                world.capture(batch, step=10)
                world.pass_time(data.draw(st.sampled_from((1, 20 * 60_000_000))))
                for one in world.engine.push_chains(dict.fromkeys(world.program.tasks, world.now)):
                    assert one.error is None, one.error
                assert world.wrong() == []
        except EvaluationError:
            reject()


@pytest.mark.parametrize("name", ["join", "left", "not exists", "groups", "first rows"])
@settings(
    max_examples=examples(3),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@given(data=st.data())
def test_deleting_rows_that_are_too_old_changes_no_result(tmp_path, name, data):
    """Deleted when they are over, at once or much later, they may leave in the same step in which they are over."""
    catalogue = expand(tmp_path, "pair", VIEWS[name], "1 h")
    batch, draw = draw_history(data, catalogue)[0], data.draw
    with quick_folder() as folder:
        world = start_world(catalogue, Path(folder))
        try:
            world.capture(batch)
            world.engine.load()
            published = world.history[world.now]["phones/here"]
            for _ in range(4):
                world.pass_time(20 * 60_000_000)
                over = from_micros(world.now) - dt.timedelta(hours=1)
                here = world.history[world.now]["phones/here"]
                old = [
                    (row, weight) for row, weight in here.items() if isinstance(row[2], dt.datetime) and row[2] <= over
                ]
                gone = ZSet(one for one in old if draw(st.booleans()))
                world.capture({"phones/here": -gone})
                if draw(st.booleans()):
                    for one in world.engine.push_chains(dict.fromkeys(world.program.tasks, world.now)):
                        assert one.error is None, one.error
                    assert world.wrong() == []
                tables, query = world.history[world.now], world.queries["v"]
                everything = {**tables, "phones/here": published}
                now = from_micros(world.now)
                assert evaluate(query, tables, now) == evaluate(query, everything, now)
        except EvaluationError:
            reject()
