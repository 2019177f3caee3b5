"""Which feeds of a plan are kept: what their logs are, where their stores are, and by which rules pages are made."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.connect.feed_targets import find_target
from headrace.declare.variables import fill, project_environment
from headrace.model.catalogue import Feed
from headrace.model.feed_names import name_newest, name_pairs, name_stored
from headrace.model.plan import ContractPlan, Plan
from headrace.model.types import INTEGERS
from headrace.run.compile.columns import serving_log, view_outputs
from headrace.run.feeds.logs import FeedLog, FeedLogs
from headrace.run.feeds.older import OlderEvents, find_older
from headrace.run.feeds.page import PageRules
from headrace.run.feeds.rank import rank_by
from headrace.run.ports import FeedTarget
from headrace.run.program import Program

STORE_LAYOUT = 2
"""Changes when stores hold what they did not hold before: those of an earlier version are filled anew."""
API_BODY = "body"
"""The column that holds what people post, as JSON."""


@dataclass(frozen=True, slots=True)
class KeptFeed:
    """`project` is whose the store is; `address` is None for the PostgreSQL that Headrace brings. `meaning` changes
    when what the store holds does.

    `older` reads events that the store does not keep, None if nothing keeps them.
    """

    feed: Feed
    project: str
    reading: FeedLogs
    meaning: str
    address: str | None
    older: OlderEvents | None = None

    def find_target(self, own_dsn: Callable[[], str]) -> FeedTarget:
        address = own_dsn() if self.address is None else self.address
        return find_target(self.feed.store, address, self.feed.name, self.project, self.meaning)

    @property
    def rules(self) -> PageRules:
        feed, rank = self.feed, self.feed.rank
        outputs = {output.name: output.expr.type for output in self.reading.newest.outputs}
        own = (feed.events.producer, feed.events.time, feed.events.id)
        return PageRules(
            limit=feed.limit,
            per_producer=feed.per_producer,
            more_than=None if feed.diversity is None else feed.diversity.more_than,
            within_s=0.0 if feed.diversity is None else feed.diversity.within_s,
            pool=None if rank is None else rank.pool,
            rank=None if rank is None else rank_by(rank.expression, outputs, own, self.reading.functions),
        )

    @property
    def has_whole_ids(self) -> bool:
        """Whether ids are numbers, whose texts are filled up in the store."""
        types = {output.name: output.expr.type for output in self.reading.newest.outputs}
        return self.feed.events.id is not None and types[self.feed.events.id] in INTEGERS


def find_feeds(plan: Plan, program: Program, project: Path, environment: Mapping[str, str]) -> Iterator[KeptFeed]:
    """The feeds whose views are all kept. Raises `InputError` if a variable of an address is not set."""
    kept = {entry.contract: entry for entry in plan.contracts}
    for feed in plan.catalogue.feeds.values():
        names = (name_newest(feed.name), name_pairs(feed.name), name_stored(feed.name))
        if all(name in kept for name in names):
            newest, pairs, stored = (_find_log(plan, program, kept[name]) for name in names)
            body = API_BODY if feed.events.is_api else None
            events = feed.events
            reading = FeedLogs(newest, pairs, stored, events.producer, events.time, events.id, body, program.functions)
            given = project_environment(environment, project)
            address = None if feed.address is None else fill(feed.address, given, feed.declared_at)
            meaning, older = _fingerprint(plan, feed, names), find_older(program, reading)
            yield KeptFeed(feed, plan.store_owner, reading, meaning, address, older)


def _find_log(plan: Plan, program: Program, entry: ContractPlan) -> FeedLog:
    log = serving_log(program, entry)
    return FeedLog(log, tuple(program.logs[log].columns), view_outputs(plan, program, entry))


def _fingerprint(plan: Plan, feed: Feed, names: tuple[str, ...]) -> str:
    views = {plan.catalogue.contracts[name].view for name in names}
    meanings = sorted(one.block.fingerprint for one in plan.blocks if one.block.id in views)
    events = (feed.events.producer, feed.events.time, feed.events.id, feed.events.is_api)
    return hashlib.sha256(json.dumps([STORE_LAYOUT, meanings, events]).encode()).hexdigest()[:16]
