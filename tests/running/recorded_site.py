"""A site that answers another one as it does in a project that runs: what it runs, and what it captured, is given.

Names of copies are those of a plan. Later versions may plan otherwise, so the plan is recorded with what was said.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from pathlib import Path

from headrace.app.site_answers import answer_site
from headrace.connect.wire.server import WireAnswer, WireRequest
from headrace.connect.wire.snapshot_files import SnapshotFiles
from headrace.meaning.zset import ZSet
from headrace.model.plan import Plan
from headrace.model.types import Row
from headrace.site.exporting import Exporting
from headrace.site.given_contents import GivenContents
from tests.run.sites_world import SitesWorld

SITE, READER = "m1", "m2"
PART_ROWS = 2
"""So that a snapshot of a few rows has several parts."""
DAY, MOMENT = datetime.date(2026, 3, 1), datetime.datetime(2026, 3, 1, 12, 30)


def make_r(number: int, name: str | None) -> Row:
    return (number, number % 2, 10 * number, number / 4, Decimal(number) / 10, name, DAY, MOMENT, number % 2 == 0)


FIRST = {
    "r": ZSet((make_r(number, f"name {number}"), 1) for number in range(1, 6)),
    "s": ZSet([((0, 7, Decimal("1.50"), "even", MOMENT), 1), ((1, 8, None, "odd", None), 1)]),
}
LATER = (
    {"r": ZSet([(make_r(6, "né"), 1), (make_r(1, "name 1"), -1)])},
    {"s": ZSet([((1, 8, None, "odd", None), -1), ((1, 9, Decimal("2.25"), "new", MOMENT), 1)])},
    {"r": ZSet([(make_r(7, None), 2)])},
)


@dataclass(frozen=True)
class AnsweringService:
    """What `answer_site` asks of a service: a site of a plan whose sources are all free to go anywhere."""

    exporting: Exporting
    running: None = None


@dataclass(frozen=True)
class AnsweringSite:
    """`answer` is what the process of a site calls for requests of others."""

    plan: Plan
    folder: Path
    world: SitesWorld = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "world", SitesWorld(self.plan, {}, self.folder))
        self.world.capture(FIRST)
        self.world.load()
        for changes in LATER:
            self.world.capture(changes)
        for site, world in self.world.worlds.items():
            assert self.world.push(site, list(world.program.tasks), self.world.now) == []

    @cached_property
    def service(self) -> AnsweringService:
        given = GivenContents(SnapshotFiles(self.folder / "given"), PART_ROWS)
        engine = self.world.worlds[SITE].engine
        return AnsweringService(Exporting(lambda: engine, lambda *_: None, given, lambda _: False))

    def answer(self, request: WireRequest) -> WireAnswer:
        return answer_site(self, request)  # type: ignore[arg-type]  # of a host, only the service is asked
