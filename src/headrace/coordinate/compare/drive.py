"""Has sites that run elsewhere compare their views with their queries at one time, and gathers what they find.

    open     every site looks at its sources
    cut      all make a cut at one time t, which is a little later than all their clocks; again, if one could not
    begin    sites give each other rows as of t, and compare
    look     once a second, until all are done

No rows come here. A site that does not answer is left out from then on: its views are not compared, and neither are
those that read its sources. Nothing is waited for without an end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from headrace.coordinate.compare.across import choose_site, name_views, say_nowhere
from headrace.coordinate.compare.compare import TRIES, has_another_try
from headrace.coordinate.compare.compared import ComparedView, ComparedViews, NotCompared
from headrace.coordinate.compare.cut import find_pause_s
from headrace.coordinate.compare.moment import query_of
from headrace.coordinate.compare.sources import sources_of
from headrace.model.errors import ConnectError
from headrace.model.plan import ContractPlan, Plan

AHEAD_S, MORE_AHEAD_S, MOST_AHEAD_S = 3.0, 0.5, 6.0
"""How far t is ahead of all clocks at first, how much more at each further attempt, and at most: sites get ready
meanwhile.
"""
CUT_ATTEMPTS = 16
CUT_WITHIN_S = 120.0
LOOK_EVERY_S = 0.5
SILENT_S = 30.0
"""How long a site may be silent while it compares."""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class CutAnswer:
    """Why a site has no cut at the time that it was told, None if it has; and which of its sources have no rows to
    compare with.
    """

    why_not: str | None
    unreadable: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ShareProgress:
    said: str
    is_done: bool
    views: tuple[ComparedView, ...]
    left_out: Mapping[str, str]
    writers_waited_s: float


class SharingSite(Protocol):
    """A site that takes part in a comparison. Each raises ConnectError if it does not answer in time, or refuses."""

    def read_clock(self) -> int: ...
    def open(self) -> Mapping[str, str]: ...
    def cut(self, t: int) -> CutAnswer: ...
    def begin(self, t: int, contracts: tuple[str, ...]) -> None: ...
    def look(self) -> ShareProgress: ...
    def end(self) -> None: ...


OpenSites = Callable[[], Mapping[str, SharingSite]]
"""Sites that take part in one comparison."""


@dataclass(slots=True)
class SitesComparison:
    """A comparison at one time. `away` are sites that take no part any more, and why."""

    plan: Plan
    sites: Mapping[str, SharingSite]
    away: dict[str, str]
    say: Callable[[str], None]
    unreadable: dict[str, str] = field(default_factory=dict)

    def compare(self, contracts: Iterable[ContractPlan]) -> tuple[dict[str, ComparedView], dict[str, str], float]:
        """What was found by contract, why others are not compared, and how long writers waited at most."""
        wanted = {one.contract: one for one in contracts}
        try:
            self.say(f"asking {', '.join(sorted(self.sites))} to compare {len(wanted)} views")
            for unreadable in self._ask_all(lambda site: site.open()).values():
                self.unreadable |= unreadable
            t = self._cut()
            left_out = {name: why for name, one in wanted.items() if (why := self._why_not(one)) is not None}
            if t is None:
                left_out = {name: left_out.get(name, "no site has answered") for name in wanted}
                return {}, left_out, 0.0
            return self._compare_at(t, {name: one for name, one in wanted.items() if name not in left_out}, left_out)
        finally:
            with ThreadPoolExecutor(max(1, len(self.sites))) as ending:
                list(ending.map(_end, self.sites.values()))

    def _cut(self) -> int | None:
        """The time of the cut; None if no site is left."""
        until = time.monotonic() + CUT_WITHIN_S
        for attempt in range(1, CUT_ATTEMPTS + 1):
            clocks = self._ask_all(lambda site: site.read_clock())
            if not clocks:
                return None
            ahead_s = min(AHEAD_S + MORE_AHEAD_S * (attempt - 1), MOST_AHEAD_S)
            t = max(clocks.values()) + round(ahead_s * 1e6)
            self.say("waiting for a moment at which nobody writes")
            answers = self._ask_all(lambda site, t=t: site.cut(t))  # type: ignore[misc]
            for answer in answers.values():
                self.unreadable |= answer.unreadable
            without = {site: answer.why_not for site, answer in answers.items() if answer.why_not is not None}
            if not without:
                return t
            for site, why in without.items():
                self.say(f'site "{site}" waits for a moment at which nobody writes: {why}')
            if attempt == CUT_ATTEMPTS or time.monotonic() > until:
                break
            time.sleep(find_pause_s(attempt))
        self.away |= {
            site: f'site "{site}" found no moment at which nobody writes: {why}' for site, why in without.items()
        }
        return self._cut()

    def _why_not(self, contract: ContractPlan) -> str | None:
        """Why a view cannot be compared, as far as is known now."""
        catalogue = self.plan.catalogue
        site = choose_site(catalogue, contract)
        if site is None:
            return say_nowhere(catalogue, contract)
        read = sorted(sources_of(query_of(catalogue, contract.view)))
        for needed in (contract.site, site, *(catalogue.sources[name].site for name in read)):
            if needed in self.away:
                return self.away[needed]
        return next((self.unreadable[name] for name in read if name in self.unreadable), None)

    def _compare_at(
        self, t: int, wanted: Mapping[str, ContractPlan], left_out: dict[str, str]
    ) -> tuple[dict[str, ComparedView], dict[str, str], float]:
        self._ask_all(lambda site: site.begin(t, tuple(sorted(wanted))))
        found: dict[str, ComparedView] = {}
        heard = dict.fromkeys(self.sites, time.monotonic())
        waiting, waited_s = {site for site in self.sites if site not in self.away}, 0.0
        while waiting:
            looks = _ask_each({site: self.sites[site] for site in waiting}, lambda site: site.look())
            for name, look in sorted(looks.items()):
                if isinstance(look, ShareProgress):
                    heard[name] = time.monotonic()
                    waited_s = max(waited_s, look.writers_waited_s)
                    if look.is_done:
                        waiting.discard(name)
                        found |= {one.contract: one for one in look.views}
                        left_out |= {contract: why for contract, why in look.left_out.items() if contract in wanted}
                    elif look.said:
                        self.say(f'site "{name}": {look.said}')
                elif time.monotonic() - heard[name] > SILENT_S:
                    waiting.discard(name)
                    self.away[name] = str(look)
            time.sleep(LOOK_EVERY_S if waiting else 0.0)
        for name, contract in wanted.items():
            if name not in found and name not in left_out:
                left_out[name] = self._why_not(contract) or f'site "{contract.site}" runs another plan; try again'
        return found, left_out, waited_s

    def _ask_all(self, ask: Callable[[SharingSite], Answer]) -> dict[str, Answer]:
        """The answers of sites that take part. One that does not answer takes none from now on."""
        answers = _ask_each({name: one for name, one in self.sites.items() if name not in self.away}, ask)
        self.away |= {name: str(one) for name, one in answers.items() if isinstance(one, ConnectError)}
        return {name: one for name, one in answers.items() if not isinstance(one, ConnectError)}


def compare_across(
    plan: Plan, open_sites: OpenSites, away: Mapping[str, str], say: Callable[[str], None]
) -> ComparedViews:
    """All views of a plan. `away` are sites that cannot take part, and why."""
    found: dict[str, ComparedView] = {}
    left_out: dict[str, str] = {}
    waited_s, compared = 0.0, list(plan.contracts)
    for _ in range(TRIES):
        moment = SitesComparison(plan, open_sites(), dict(away), say)
        now, without, longest_s = moment.compare(compared)
        found, left_out, waited_s = found | now, left_out | without, max(waited_s, longest_s)
        compared = [one for one in compared if has_another_try(plan.catalogue, one, found, left_out)]
        if not compared:
            break
    views = name_views(plan.contracts)
    reasons = tuple(NotCompared(views[name], name, why) for name, why in left_out.items() if name not in found)
    return ComparedViews(tuple(found[name] for name in views if name in found), reasons, waited_s)


def _ask_each(
    sites: Mapping[str, SharingSite], ask: Callable[[SharingSite], Answer]
) -> dict[str, Answer | ConnectError]:
    def ask_one(site: SharingSite) -> Answer | ConnectError:
        try:
            return ask(site)
        except ConnectError as error:
            return error

    with ThreadPoolExecutor(max(1, len(sites))) as asking:
        return dict(zip(sites, asking.map(ask_one, sites.values()), strict=True))


def _end(site: SharingSite) -> None:
    with suppress(ConnectError):  # it ends by itself, somewhat later
        site.end()
