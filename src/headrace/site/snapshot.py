"""Takes all that `status` shows of a service once: what is built from a snapshot is of one plan and one moment.

No turn is needed for that, so status answers also while something hangs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.model.trouble import Trouble
from headrace.observe.audit import Record
from headrace.observe.shown import ContractReadings
from headrace.run.push.simulated_links import Ends, LinkQueue
from headrace.site.deliver.progress import CopyProgress
from headrace.site.engine.late_runner import Absence
from headrace.site.feeds.pages import FeedTold
from headrace.site.latencies import EventLatency
from headrace.site.link_states import LinkState
from headrace.site.loading import Loading
from headrace.site.push_state import PushCounts, PushState
from headrace.site.running import Running
from headrace.site.scrub import ScrubProgress
from headrace.site.sources.soundness import Unsound, find_unsound, read_source_states

if TYPE_CHECKING:
    from headrace.site.service import Service


@dataclass(frozen=True, slots=True)
class LoadingSnapshot:
    """What is wanted to run, and how far it was."""

    wanted: Running
    phase: str
    error: str | None
    is_done: bool


@dataclass(frozen=True, slots=True)
class ServiceSnapshot:
    """A service at `now` (microseconds).

    `pushing` is None before anything runs. `starts` are the times of the next pushes, by contract. `unloaded` says why
    contracts have no rows, `damaged` what is wrong with a file that they need, `unsound` that their sources are wrong
    or incomplete. `looked` is what the last look found, `records` what became of promises until then. Contracts that
    are `loaded` have a view that can be read. `last_push_s` is by vertex. `sent` are bytes by link, (from, to);
    `simulated` if links are, and `queues` are what is on its way over them. `copies` are how far the copies of
    contracts are; `now_s` is on the clock that nobody sets. `states` are the links from other sites, if these run
    apart, `waiting` the bytes that are kept for them.
    """

    now: int
    pushing: PushState | None
    starts: Mapping[str, int]
    counts: PushCounts
    loading: LoadingSnapshot | None
    unloaded: Mapping[str, str]
    damaged: Mapping[str, str]
    unsound: Mapping[str, Unsound]
    troubles: Mapping[str, Trouble]
    files: ScrubProgress
    looked: ContractReadings | None
    records: Mapping[str, Record]
    last_push_s: Mapping[str, float]
    sent: Mapping[tuple[str, str], int]
    simulated: bool
    slots: tuple[dict[str, Any], ...]
    absence: Absence | None
    error: str | None
    loaded: frozenset[str] = frozenset()
    copies: Mapping[str, CopyProgress] = field(default_factory=dict)
    feeds: tuple[FeedTold, ...] = ()
    upkeep_s: float = 0.0
    now_s: float = 0.0
    queues: Mapping[Ends, LinkQueue] = field(default_factory=dict)
    states: Mapping[Ends, LinkState] = field(default_factory=dict)
    waiting: Mapping[Ends, int] = field(default_factory=dict)
    latencies: Mapping[str, EventLatency] = field(default_factory=dict)
    """By vertex that contracts read."""


def take_snapshot(service: Service) -> ServiceSnapshot:
    pushing, loading = service.rounds.state, service.loading
    now, times = service.clock(), service.ledger.times()
    watched = () if pushing is None else pushing.running.watched
    states = service.find_link_states()
    starts = {} if pushing is None else service.starts.find(pushing, now, times, service.auditor.lags_of(times))
    return ServiceSnapshot(
        now=now,
        pushing=pushing,
        starts=starts,
        counts=service.rounds.counts,
        loading=None if loading is None else _look_at(loading),
        unloaded=service.unloaded.why,
        damaged=service.repairs.concerned,
        unsound=find_unsound(watched, times, service.deliveries.reached(), read_source_states(service.ledger)),
        troubles=service.troubles.all(),
        files=service.scrub.progress,
        looked=service.auditor.looked,
        records=service.auditor.records.copy(),
        last_push_s=service.accounts.last_s.copy(),
        sent=service.accounts.sent.copy(),
        simulated=service.links_take_time,
        queues=service.look_at_links(states),
        states=states,
        waiting=service.count_waiting(),
        latencies=service.latencies.find(now),
        slots=tuple(service.slots.found),
        absence=service.absence(),
        error=find_error(service),
        loaded=frozenset() if pushing is None else _find_loaded(pushing.running, times),
        copies=service.deliveries.progress,
        feeds=service.feed_pages.told(),
        upkeep_s=service.accounts.upkeep_s,
        now_s=time.monotonic(),
    )


def _find_loaded(running: Running, times: Mapping[str, int]) -> frozenset[str]:
    return frozenset(one.contract for one in running.watched if one.vertex in times)


def _look_at(loading: Loading) -> LoadingSnapshot:
    is_done = loading.done.is_set()  # first: what is done has its last phase, and its error if it failed
    return LoadingSnapshot(loading.wanted, loading.phase, loading.error, is_done)


def find_error(service: Service) -> str | None:
    """Why the service ended by itself, or the plan that was asked for last does not run."""
    if service.failure is not None:
        return str(service.failure) or type(service.failure).__name__
    return None if service.loading is None else service.loading.error
