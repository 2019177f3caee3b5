"""What `headrace status` shows for a contract: numbers, its state, and the reason for any state but `kept`.

kept          the view is no further behind than promised, and can be read; of a contract that delivers, its copy
late          the view, or the copy, is further behind; the reason names the cause where it is known
loading       the view has no rows yet, but is being loaded; or a source of it is being read again
failing       the view cannot be computed or delivered now, or a check found wrong rows; it resumes by itself once the
              cause is fixed
stopped       the service is not running
unresponsive  the service runs, but does not respond (`site/last_status.py`)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.model.amounts import format_seconds
from headrace.model.names import name_of_view
from headrace.model.plan import ContractPlan, Plan
from headrace.observe.audit import Record
from headrace.observe.shown import ContractNumbers
from headrace.site.deliver.progress import say_writing
from headrace.site.last_status import State
from headrace.site.push_state import PushState
from headrace.site.running import Running
from headrace.site.snapshot import ServiceSnapshot
from headrace.site.troubles import DELIVERY, SOURCE_DIFFERS, VIEW_DIFFERS, find_cause, find_slow_link


def contract_documents(seen: ServiceSnapshot, state: State) -> list[dict[str, Any]]:
    """Those of the plan that runs, then those that are loaded for the first time."""
    pushing, loading = seen.pushing, seen.loading
    found: list[dict[str, Any]] = []
    if pushing is not None:
        found = [_contract_document(seen, pushing, one, state) for one in pushing.running.plan.contracts]
    if loading is not None and not loading.is_done:
        known = {one["id"] for one in found}
        found += [
            {**_described(seen, loading.wanted, one), "state": "loading", "reason": loading.phase}
            for one in loading.wanted.plan.contracts
            if one.contract not in known
        ]
    return found


def _contract_document(seen: ServiceSnapshot, pushing: PushState, entry: ContractPlan, state: State) -> dict[str, Any]:
    name, running, start = entry.contract, pushing.running, seen.starts.get(entry.contract)
    described = _described(seen, running, entry)
    what, reason = _state(seen, pushing, entry, described, state)
    return {
        **described,
        "next_push_s": None if start is None else (start - seen.now) / 1e6,
        "state": what,
        **({} if reason is None else {"reason": reason}),
        "last_push_s": seen.last_push_s.get(entry.vertex),
        "prediction_error": pushing.learning.error_of(name),
        **_latency(seen, entry),
        **({"streaming": True} if running.plan.catalogue.contracts[name].streaming else {}),
        **({"forced": True} if name in running.forced else {}),
        **_version(running.plan, name),
    }


def _latency(seen: ServiceSnapshot, entry: ContractPlan) -> dict[str, Any]:
    """The latency of the rows of the last minute, by event time; None if there were none."""
    found = seen.latencies.get(entry.vertex)
    return {
        "latency_s": None if found is None else found.mean_s,
        "longest_latency_s": None if found is None else found.longest_s,
    }


def _version(plan: Plan, contract: str) -> dict[str, Any]:
    """The version of a contract that goes on although what the project's files ask for is refused."""
    one = next((one for one in plan.goes_on if one.contract == contract), None)
    if one is None:
        return {}
    running = "earlier version" if plan.runs_earlier(contract) else "over capacity"
    why = one.because
    refused = {"reason": why.reason, "detail": why.detail, "smallest_staleness": why.smallest_staleness_s}
    return {"running": running, "refused": refused}


def _described(seen: ServiceSnapshot, running: Running, entry: ContractPlan) -> dict[str, Any]:
    """What the last look found, and what is known before it runs."""
    looked, name = seen.looked, entry.contract
    numbers = None if looked is None else looked.contracts.get(name)
    return {
        "id": name,
        "lag_s": None if numbers is None else numbers.lag_s,
        "freshness_s": _find_promise(running, entry, numbers),
        "violations": _earlier(seen, name).episodes if numbers is None else numbers.violations,
        "cost_h": entry.money * 3600.0 if numbers is None or numbers.cost_h is None else numbers.cost_h,
        "measured_at": None if looked is None else looked.measured_at,
        "next_push_s": None,
        "view": name_of_view(entry.view),
        "site": entry.site,
        "last_push_s": None,
        "prediction_error": None,
    }


def _earlier(seen: ServiceSnapshot, contract: str) -> Record:
    """What became of the promise until the service ended last."""
    return seen.records.get(contract, Record())


def _find_promise(running: Running, entry: ContractPlan, numbers: ContractNumbers | None) -> float:
    """Seconds: by the promise that the numbers were taken for."""
    if numbers is not None and numbers.freshness_s is not None:
        return numbers.freshness_s
    return running.forced.get(entry.contract, entry.freshness_s)


def _state(
    seen: ServiceSnapshot, pushing: PushState, entry: ContractPlan, described: Mapping[str, Any], state: State
) -> tuple[str, str | None]:
    """What is worst comes first."""
    name, loading = entry.contract, seen.loading
    if state in (State.STOPPED, State.FAILED):
        return "stopped", "the service is not running"
    unloaded, failing = seen.unloaded.get(name), pushing.why_failing(name)
    if unloaded is not None:
        return "failing", unloaded.splitlines()[0]
    if name in seen.damaged:
        return "failing", seen.damaged[name]
    if name in pushing.halted:
        return "failing", pushing.halted[name]
    if failing is not None:
        return "failing", failing.splitlines()[0]
    delivery = seen.troubles.get(DELIVERY + name)
    if delivery is not None:
        return "failing", delivery.what
    differs = _why_different(seen, pushing.running, name)
    if differs is not None:
        return "failing", differs
    lag_s, freshness_s = described["lag_s"], described["freshness_s"]
    if lag_s is None or state is State.LOADING or name not in seen.loaded:
        what = "it has" if name not in seen.copies else f"{seen.copies[name].where} has"
        return "loading", f"{what} no rows yet" if loading is None or loading.is_done else loading.phase
    unsound = seen.unsound.get(name)
    if unsound is not None:
        return "loading" if unsound.is_mending else "failing", unsound.reason
    if lag_s <= freshness_s:
        return "kept", None
    subject = f"its copy in {seen.copies[name].where}" if name in seen.copies else "it"
    behind = f"{subject} is {format_seconds(round(lag_s, 1))} behind; the promise is {format_seconds(freshness_s)}"
    return "late", _why_late(seen, pushing.running, entry, behind)


def _why_different(seen: ServiceSnapshot, running: Running, contract: str) -> str | None:
    """What a check found that makes the rows of a view wrong; None if it found nothing."""
    watched = next(one for one in running.watched if one.contract == contract)
    keys = (VIEW_DIFFERS + contract, *(SOURCE_DIFFERS + source for source in sorted(watched.sources)))
    return next((trouble.what for key in keys if (trouble := seen.troubles.get(key)) is not None), None)


def _why_late(seen: ServiceSnapshot, running: Running, entry: ContractPlan, behind: str) -> str:
    """How far behind it is, and what holds it up, as far as somebody has told."""
    watched = next(one for one in running.watched if one.contract == entry.contract)
    cause = find_cause(seen.troubles.get, watched.sources, watched.databases, seen.absence, watched.links)
    cause = cause or find_slow_link(watched.links, seen.queues)
    if cause is None and entry.contract in seen.copies:
        cause = say_writing(seen.copies[entry.contract], seen.now_s)
    return behind if cause is None else f"{behind}: {cause}"
