"""For how long promises hold without a site that ends: said when it has ended, so that people know when to be back."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass

from headrace.model.amounts import format_seconds
from headrace.model.errors import HeadraceError
from headrace.model.plan import Plan
from headrace.run.program import Program
from headrace.run.schedule.next_push import SECOND, paths_of
from headrace.site.folder import Folder

FILE = "left.json"


@dataclass(frozen=True, slots=True)
class LeftFresh:
    """The contract whose promise is broken first without a site, and how old its rows were `at` some time (seconds
    since 1970) when the site ended.
    """

    contract: str
    freshness_s: float
    age_s: float
    at: float

    @property
    def left_s(self) -> float:
        return self.freshness_s - self.age_s

    def say(self) -> str:
        """What it means for people who upgrade the site."""
        promised = f'"{self.contract}" (promised {format_seconds(self.freshness_s)}'
        if self.left_s <= 0:
            return f"{promised}, {format_seconds(round(self.age_s, 1))} behind) was late already when this site ended"
        left = f"all promises that need this site hold for {format_seconds(round(self.left_s, 1))} without it"
        return f"{left}, until it runs and has pushed again; {promised}) is broken first then"


def find_left(
    plan: Plan, program: Program, times: Mapping[str, int], given: Mapping[str, int], now: int
) -> LeftFresh | None:
    """`times` are those of vertices here, `given` how far others have what they copy of them; None if nobody needs
    anything of this site.
    """
    found = [(one, times[one.vertex]) for one in plan.contracts if one.vertex in times]
    exports, elsewhere = program.exports.keys(), paths_of(plan.graph, plan.elsewhere)
    for one in plan.elsewhere:
        needed = [given[name] for name in exports & set(elsewhere.upstream[one.contract]) if name in given]
        found += [(one, min(needed))] if needed else []
    left = [LeftFresh(one.contract, one.freshness_s, max(0, now - t) / SECOND, now / SECOND) for one, t in found]
    return min(left, key=lambda one: one.left_s, default=None)


def keep_left(folder: Folder, left: LeftFresh | None) -> None:
    """Notes it for whoever has told the site to end."""
    if left is None:
        folder.remove(FILE)
    else:
        folder.write_json(FILE, asdict(left))


def read_left(folder: Folder, within_s: float = 60.0) -> LeftFresh | None:
    """What a site has noted that has just ended."""
    with suppress(HeadraceError, TypeError):
        found = folder.read_json(FILE)
        left = None if found is None else LeftFresh(**found)
        return left if left is not None and abs(time.time() - left.at) < within_s else None
    return None
