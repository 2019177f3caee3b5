"""What sites that joined from elsewhere say about themselves, as the coordinator sees it: one status of all of them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from headrace.coordinate.site_statuses import is_site_status, merge_statuses
from headrace.model.amounts import format_seconds
from headrace.model.joining import JoinedAgent
from headrace.model.names import name_of_view
from headrace.model.plan import ContractPlan, Plan
from headrace.model.trouble import Trouble
from headrace.plan.price import upstream_first
from headrace.run.capture.clock import Skew

AWAY_S = 5.0
"""A site that has not answered for this long is told of."""
NOT_JOINED, AWAY = "not joined", "away"
NOT_JOINED_YET = 'site "{}" has not joined yet'
TAKE_PART = "upgrade the site if it does not know the format; it is sent its part again every half a minute"
LARGE_SKEW = 1_000_000
"""Microseconds that a clock may be off before people are told."""
SET_CLOCK = "have the clocks of all sites set by NTP"
MEND = "start its agent again, or mend the network; it goes on with what it was told last"


@dataclass(frozen=True, slots=True)
class RefusedPart:
    """What keeps a site that answers from taking its part of the plan, the part's number, and since when: seconds since
    1970.
    """

    what: str
    number: int
    since: float


@dataclass(frozen=True, slots=True)
class AgentReport:
    """What a site said last (None before it has said anything), and when it was heard and first missed: seconds since
    1970. `skew` is how far its clock is ahead of the coordinator's, in microseconds, and `skewed` since when that is
    much.
    """

    said: Mapping[str, Any] | None = None
    heard: float | None = None
    missed: float | None = None
    why: str = ""
    refused: RefusedPart | None = None
    skew: Skew | None = None
    skewed: float | None = None

    def hear(self, said: Mapping[str, Any], skew: Skew, now: float) -> AgentReport:
        """What is known once a site has answered. A clock that was put right, or has jumped, is measured anew."""
        measured = skew if self.skew is None else self.skew.and_also(skew)
        since = (self.skewed or now) if _is_large(measured) else None
        return AgentReport(said, now, refused=self.refused, skew=measured, skewed=since)

    def is_away(self, now: float) -> bool:
        return self.missed is not None and now - self.missed >= AWAY_S

    def fell_silent(self, now: float, why: str) -> AgentReport:
        return replace(self, missed=now if self.missed is None else self.missed, why=why)


@dataclass(frozen=True, slots=True)
class AwaitedSites:
    """The sites of a project, those of them that have joined, and since when the others are waited for (seconds since
    1970).
    """

    sites: tuple[str, ...]
    agents: Mapping[str, JoinedAgent]
    since: float


def merge_reports(
    awaited: AwaitedSites, reports: Mapping[str, AgentReport], about: Mapping[str, Any], now: float
) -> dict[str, Any]:
    sites, agents = awaited.sites, awaited.agents
    told = {site: _find_status(site, reports.get(site, AgentReport()), now) for site in sites}
    found = merge_statuses(told, about)
    for one in found["sites"]:
        _complete_site(one, agents.get(one["id"]), reports.get(one["id"], AgentReport()), now)
    for site in sites:
        report = reports.get(site, AgentReport())
        if report.is_away(now) and site in agents:
            assert report.missed is not None
            what = f"{_say_silent(site, report, now)}: {report.why}"
            found["troubles"].append(Trouble(what, report.missed, MEND).to_json())
        elif report.refused is not None and site in agents:
            what = f'site "{site}" runs its earlier plan: {report.refused.what}'
            found["troubles"].append(Trouble(what, report.refused.since, TAKE_PART).to_json())
        elif site not in agents:
            hint = f"`headrace sites invite {shlex.quote(site)}` prints the command to run there"
            found["troubles"].append(Trouble(NOT_JOINED_YET.format(site), awaited.since, hint).to_json())
        if site in agents and report.skew is not None and report.skewed is not None:
            found["troubles"].append(Trouble(_say_skew(site, report.skew), report.skewed, SET_CLOCK).to_json())
    return found


def tell_unheard(
    plan: Plan,
    forced: Mapping[str, float],
    awaited: AwaitedSites,
    reports: Mapping[str, AgentReport],
    heard: Iterable[Mapping[str, Any]],
    now: float,
) -> list[dict[str, Any]]:
    """Contracts of the plan of which no site says anything, and why. `heard` are the others."""
    known = {one["id"] for one in heard}
    found = []
    for entry in plan.contracts:
        if entry.contract in known:
            continue
        report = reports.get(entry.site, AgentReport())
        if entry.site not in awaited.agents:
            state, reason = "stopped", NOT_JOINED_YET.format(entry.site)
        elif report.is_away(now):
            state, reason = "unresponsive", _say_silent(entry.site, report, now)
        else:
            state, reason = "loading", f'site "{entry.site}" has not said yet how far it is'
        found.append(_describe_unheard(entry, forced.get(entry.contract), state, reason))
    return found


def name_clocks(contracts: Iterable[dict[str, Any]], plan: Plan, reports: Mapping[str, AgentReport]) -> None:
    """Adds to the reasons of contracts that are late which clock is off, and by how much, if their rows come from
    several sites: times of one are then compared with the clock of another.
    """
    off = {site: report.skew for site, report in reports.items() if report.skewed is not None}
    entries = {entry.contract: entry for entry in plan.contracts} if off else {}
    for one in contracts:
        entry = entries.get(one["id"])
        if one["state"] != "late" or entry is None:
            continue
        sites = {plan.graph.vertices[name].site for name in upstream_first(plan.graph, (entry.vertex,))}
        told = [_say_clock(site, skew) for site in sorted(sites) if (skew := off.get(site)) is not None]
        if len(sites) > 1 and told:
            one["reason"] = "; ".join(said for said in (one.get("reason"), *told) if said)


def _describe_unheard(entry: ContractPlan, forced_s: float | None, state: str, reason: str) -> dict[str, Any]:
    """What is known of a contract before its site has said anything, with the fields that every contract has."""
    unknown = dict.fromkeys(("lag_s", "measured_at", "next_push_s", "last_push_s", "prediction_error"))
    return {
        "id": entry.contract,
        "freshness_s": entry.freshness_s if forced_s is None else forced_s,
        "violations": 0,
        "cost_h": entry.money * 3600.0,
        **unknown,
        "view": name_of_view(entry.view),
        "site": entry.site,
        "state": state,
        "reason": reason,
        **({} if forced_s is None else {"forced": True}),
    }


def _find_status(site: str, report: AgentReport, now: float) -> dict[str, Any] | None:
    status = None if report.said is None else report.said.get("status")
    if status is None or not is_site_status(status):
        return None  # it has said nothing yet, or is of a version that says it otherwise
    found: dict[str, Any] = deepcopy(status)
    if report.is_away(now):
        assert report.missed is not None
        for contract in found["contracts"]:
            reason = _say_silent(site, report, now)
            contract |= {"state": "unresponsive", "next_push_s": None, "reason": reason}
            if contract["lag_s"] is not None:
                contract["lag_s"] += now - report.missed
    return found


def _complete_site(one: dict[str, Any], agent: JoinedAgent | None, report: AgentReport, now: float) -> None:
    if agent is None:
        one |= {"state": NOT_JOINED, "pid": None, "address": None, "clock_ahead_s": None}
        return
    one["address"] = f"https://{agent.address}"
    if report.said is not None:
        one["pid"] = report.said["pid"]
    one["clock_ahead_s"] = None if report.skew is None else round(report.skew.ahead / 1e6, 3)
    if report.is_away(now):
        one["state"] = AWAY


def _is_large(skew: Skew) -> bool:
    """Whether a clock is certainly far off, however long the answer took."""
    return skew.least > LARGE_SKEW or skew.most < -LARGE_SKEW


def _say_skew(site: str, skew: Skew) -> str:
    later = "views that need rows of this site and of others may be that much later"
    return f"{_say_clock(site, skew)}; {later}"


def _say_clock(site: str, skew: Skew) -> str:
    off = format_seconds(round(abs(skew.ahead) / 1e6, 1))
    way = "ahead of" if skew.ahead > 0 else "behind"
    return f'the clock of site "{site}" is {off} {way} that of whoever coordinates'


def _say_silent(site: str, report: AgentReport, now: float) -> str:
    silent = format_seconds(round(now - (report.missed or now)))
    return f'site "{site}" has not answered the coordinator for {silent}'
