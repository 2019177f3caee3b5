"""Windows of processing time hold the rows of a stream by when they were captured, whatever is pushed when, and also if
the view is computed anew.

The judge is the same query over the rows with the time of their capture as a column.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.declare.sql import read_query
from headrace.meaning.evaluate import evaluate
from headrace.meaning.scalar_time import from_micros
from headrace.meaning.zset import EMPTY, ZSet
from headrace.model.catalogue import SourceColumn, SourceKind
from headrace.model.plan import PlanOptions
from headrace.model.relation import Relation
from headrace.model.types import TIMESTAMP
from headrace.plan.canonical.blocks import blocks_of
from headrace.plan.make import plan_views
from headrace.run.program import DeriveStep
from headrace.testing.worlds import START, RunningWorld, quick_folder
from tests.examples import examples
from tests.plan.written import catalogue, contract, mesh, site
from tests.queries.schemas import NEXMARK, queries
from tests.run.test_event_tables import FEW, push_all

BID = replace(NEXMARK["bid"], site="m1", rows=20.0, rate=0.1, key=())
TEXTS = {
    "q12": queries("nexmark")["q12"],
    "sessions": "SELECT bidder, session_window.start AS first, count(*) AS n FROM bid WHERE price > 0 "
    "GROUP BY bidder, session_window(now(), '1 second')",
    "sliding": "SELECT window.end AS upto, max(more) AS most FROM (SELECT price + 1 AS more FROM bid) "
    "GROUP BY window(now(), '2 seconds', '1 second')",
}


@dataclass
class ArrivalWorld(RunningWorld):
    judges: Mapping[str, Relation] = field(default_factory=dict)
    loaded: int = START

    def expected(self, contract: str, t: int) -> ZSet:
        came, before = EMPTY, EMPTY
        for time, held in sorted(self.history.items()):
            if self.loaded <= time <= t:
                came += ZSet(((*row, from_micros(time)), weight) for row, weight in (held["bid"] - before).items())
                before = held["bid"]
        return evaluate(self.judges[contract.removeprefix("c_")], {"arrived": came})


def world_of(folder: Path) -> ArrivalWorld:
    columns = (*(BID.columns or ()), SourceColumn("came", TIMESTAMP))
    arrived = {"arrived": replace(BID, name="arrived", kind=SourceKind.TABLE, time=None, columns=columns)}
    views = {name: read_query(text, {"bid": BID}) for name, text in TEXTS.items()}
    asked = {name: re.sub(r"current_timestamp\(\)|now\(\)", "came", text) for name, text in TEXTS.items()}
    asked["sliding"] = asked["sliding"].replace("AS more FROM", "AS more, came FROM")
    judges = {name: read_query(text.replace("FROM bid", "FROM arrived"), arrived) for name, text in asked.items()}
    contracts = [contract(f"c_{name}", name, "m2", 60) for name in views]
    project = catalogue([site("m1"), site("m2")], mesh(("m1", "m2")), [BID], contracts)
    plan = plan_views(project, {name: blocks_of(name, view) for name, view in views.items()}, PlanOptions())
    assert not plan.rejected, plan.rejected
    return ArrivalWorld(plan, views, folder, judges=judges)


@st.composite
def bids(draw: st.DrawFn) -> dict[str, ZSet]:
    places = st.integers(0, 2)
    rows = st.tuples(
        places, places, places, st.just("web"), st.just("url"), st.just(dt.datetime(2026, 1, 1)), st.none()
    )
    return {"bid": ZSet((row, 1) for row in draw(st.lists(rows, max_size=3)))}


@settings(FEW, max_examples=examples(3))
@given(data=st.data())
def test_windows_hold_rows_by_when_they_were_captured(data: st.DataObject):
    with quick_folder() as folder:
        world = world_of(Path(folder))
        world.capture(data.draw(bids()))
        world.engine.load()
        world.loaded = world.now
        assert world.wrong() == []
        steps = {name: task.step for name, task in world.program.tasks.items()}
        (noted,) = [name for name, step in steps.items() if isinstance(step, DeriveStep) and step.derivation.stamp]
        for _ in range(3):
            for _ in range(data.draw(st.integers(1, 3))):
                world.capture(data.draw(bids()), data.draw(st.sampled_from((10, 600_000, 1_700_000))))
            push_all(world)
            assert world.wrong() == []
            if data.draw(st.booleans()):
                world.engine.forget([name for name in steps if name not in world.engine.upstream([noted])])
                world.open()
                world.engine.load()
                assert world.wrong() == []
