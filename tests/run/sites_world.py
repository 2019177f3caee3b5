"""A plan whose sites run apart: each with a ledger, a store and an engine of its own, in one process.

Sites see of each other what `Neighbours` lets them, by function calls.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from headrace.meaning.zset import ZSet
from headrace.model.plan import Plan
from headrace.model.relation import Relation
from headrace.run.push.exports import SEGMENT_BYTES, ChangesGone, Exports, Segment
from headrace.run.push.imports import commit_segment
from headrace.testing.worlds import START, RunningWorld


@dataclass
class DirectNeighbours:
    """What the site of a world has of others, by calls."""

    sites: SitesWorld
    site: str
    told: Mapping[str, int] = field(default_factory=dict)

    def reach(self) -> Mapping[str, int]:
        return self.told

    def hear(self) -> None:
        """What others tell now, which may be more once they have heard of each other."""
        self.told = self._gather(lambda exports: exports.reach(self.site))

    def find_starts(self, copies: Collection[str]) -> Mapping[str, int]:
        found = self._gather(lambda exports: exports.find_starts(self.site))
        return {name: t for name, t in found.items() if name in copies}

    def read_contents(self, copy: str, t: int) -> pa.Table:
        return self.sites.exports(self.sites.origin(self.site, copy)).read_contents(copy, t)

    def bring(self, copies: Collection[str], t: int) -> None:
        for name in copies:
            self.sites.bring(self.site, name, t)

    def _gather(self, ask) -> dict[str, int]:
        others = {copy.origin for copy in self.sites.worlds[self.site].program.imports.values()}
        return {name: t for other in others for name, t in ask(self.sites.exports(other)).items()}


@dataclass
class SitesWorld:
    plan: Plan
    queries: Mapping[str, Relation]
    folder: Path
    start: int = START
    worlds: dict[str, RunningWorld] = field(default_factory=dict)
    neighbours: dict[str, DirectNeighbours] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for site in self.plan.catalogue.sites:
            (self.folder / site).mkdir()
            self.worlds[site] = RunningWorld(
                self.plan.at_site(site), self.queries, self.folder / site, start=self.start
            )
        self.open()

    def open(self) -> None:
        """As after a restart of all sites."""
        for site, world in self.worlds.items():
            world.open()
            world.engine.neighbours = self.neighbours[site] = DirectNeighbours(self, site)
        self._tell()

    def _tell(self) -> None:
        for _ in self.worlds:
            for one in self.neighbours.values():
                one.hear()

    def exports(self, site: str) -> Exports:
        return Exports(self.worlds[site].engine)

    def origin(self, site: str, copy: str) -> str:
        return self.worlds[site].program.imports[copy].origin

    @property
    def history(self) -> dict[int, dict[str, ZSet]]:
        return next(iter(self.worlds.values())).history

    @property
    def now(self) -> int:
        return max(world.now for world in self.worlds.values())

    def capture(self, changes: Mapping[str, ZSet], step: int = 10) -> None:
        """One transaction of all databases."""
        for world in self.worlds.values():
            world.capture(changes, step)
        self._tell()

    def load(self) -> None:
        """Each site loads what it can, until all is there."""
        while any(world.engine.missing() for world in self.worlds.values()):
            loaded = [name for world in self.worlds.values() for name in self.load_available(world)]
            assert loaded, "sites wait for each other"

    def load_available(self, world: RunningWorld) -> list[str]:
        available = world.engine.find_available()
        return world.engine.load(available) if available else []

    def read_segment(self, site: str, copy: str, most_bytes: int = SEGMENT_BYTES) -> Segment:
        after = self.worlds[site].ledger.times()[copy]
        return self.exports(self.origin(site, copy)).read_changes(copy, after, most_bytes)

    def start_lost_anew(self) -> None:
        """Copies that lack changes which are gone start anew, as their sites do when they are told."""
        while lost := [(site, copy) for site, copy in self._copies() if self._is_lost(site, copy)]:
            for site, copy in lost:
                self.worlds[site].engine.forget([copy])
        self.load()

    def _copies(self) -> list[tuple[str, str]]:
        return [(site, copy) for site, world in self.worlds.items() for copy in world.program.imports]

    def _is_lost(self, site: str, copy: str) -> bool:
        if copy not in self.worlds[site].ledger.times():
            return False
        try:
            self.read_segment(site, copy)
        except ChangesGone:
            return True
        return False

    def bring(self, site: str, copy: str, t: int) -> None:
        """A copy to a time, with all that it takes elsewhere."""
        world, origin = self.worlds[site], self.origin(site, copy)
        if world.ledger.times()[copy] < t:
            self.push(origin, list(world.program.imports[copy].task.reads), t)
            commit_segment(world.engine, copy, self.read_segment(site, copy))

    def push(self, site: str, vertices: Collection[str], t: int) -> list[str | None]:
        """Vertices to a time, with all that it takes elsewhere; errors."""
        world = self.worlds[site]
        for copy in world.program.imports_of(vertices):
            self.bring(site, copy, t)
        return [one.error for one in world.engine.push(vertices, t) if one.error is not None]

    def wrong(self) -> list[str]:
        return [f"{site}: {one}" for site, world in self.worlds.items() for one in world.wrong()]
