"""Moves contracts of sites that run apart when what these measure differs from the plan: as a service that runs all
sites does, but from what each site says of itself, and with links and sites that may fail.

    every 5 s    what sites have measured, and what links carry, as one measurement   coordinate/joined_measured.py
                 is another plan better?                                              coordinate/replanning.py
    if so        sites go over to it as to one that somebody applied

Plans of the modes of other systems (`--wide-area`) stay as they were applied: those do not move anything.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from headrace.coordinate.joined_measured import LinksSeen, join_measured
from headrace.coordinate.link_beliefs import Ends, LinkBeliefs, follow_links, read_beliefs, write_beliefs
from headrace.coordinate.measured import write_measured
from headrace.coordinate.refused import RefusedVersions
from headrace.coordinate.replanning import LOOK_EVERY_S, ContractMove, Replanning
from headrace.model.log import Lease
from headrace.model.plan import Plan, settle_wishes
from headrace.plan.share.revalue import Measured
from headrace.run.ports import Ledger
from headrace.site.folder import Folder

log = logging.getLogger("headrace.service")

LOOKING = 0.05
"""Share of the time that may be spent on looking for better plans."""


class MovedSites(Protocol):
    """The sites of a project, as `SitesReplanning` sees them."""

    folder: Folder
    plan: Plan
    stop: threading.Event

    def status(self) -> dict[str, Any]: ...

    def read_measured_parts(self) -> Mapping[str, Measured]:
        """What each site has measured."""

    def find_down(self, now: float) -> frozenset[str]:
        """Sites that do not answer, and did not for a while."""

    def try_to_move(self, plan: Plan) -> str | None:
        """Has sites go over to a plan of the same contracts; why not, if that cannot be now."""

    @property
    def may_move(self) -> bool:
        """Whether all sites that answer run the newest plan."""


@dataclass
class SitesReplanning:
    """`look` is called by one thread. What it swaps, any thread may read."""

    sites: MovedSites
    ledger: Ledger
    lease: Lease
    beliefs: LinkBeliefs = field(default_factory=dict)
    measured: Measured | None = None
    shares: Mapping[Ends, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._replanning = Replanning(self.ledger, self.lease)
        self._replanning.resume()
        self._refused = RefusedVersions()
        self.beliefs, self.shares = read_beliefs(self.sites.folder)

    @property
    def moves(self) -> tuple[ContractMove, ...]:
        return self._replanning.moves

    def run(self) -> None:
        """Looks until the sites are told to stop."""
        pause_s = LOOK_EVERY_S
        while not self.sites.stop.wait(pause_s):
            started_s = time.thread_time()
            try:
                self.look(time.time())
            except OSError as error:  # a full disk
                log.warning("looking for a better plan failed: %s", error)
            except Exception:  # whatever it is: what runs goes on as it is
                log.exception("looking for a better plan failed")
            # What waits for sites that load is no work: it must not keep anybody from looking at links.
            pause_s = max(LOOK_EVERY_S, (time.thread_time() - started_s) / LOOKING)

    def look(self, now: float) -> ContractMove | None:
        plan, sites = self.sites.plan, self.sites
        self.beliefs = follow_links(self.beliefs, sites.status()["links"], now)
        carried = {ends: one.bytes_s for ends, one in self.beliefs.items()}
        seen = LinksSeen(carried, self.shares)
        measured, seen = join_measured(plan, sites.read_measured_parts(), seen, sites.find_down(now), now)
        self.shares = seen.shares
        write_beliefs(sites.folder, self.beliefs, self.shares)
        self.measured = measured
        write_measured(sites.folder, measured)
        if settle_wishes(plan.options, plan.catalogue).wide_area is not None or not sites.may_move:
            return None
        move = self._replanning.step(plan, measured, sites.try_to_move)
        if move is None:
            self._refused.step(plan, measured, sites.try_to_move)
        return move
