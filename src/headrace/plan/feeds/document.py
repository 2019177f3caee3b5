"""Instances of either kind, as JSON: read, decided, answered."""

from __future__ import annotations

from enum import StrEnum
from typing import assert_never

import numpy as np

from headrace.plan.exact_fields import DocumentFields
from headrace.plan.exact_json import read_json
from headrace.plan.feeds.amounts import MOST_DIGITS
from headrace.plan.feeds.answer import summary
from headrace.plan.feeds.composite import decide_composite
from headrace.plan.feeds.composite_document import NamedComposite, read_composite
from headrace.plan.feeds.cover_search import EFFORT
from headrace.plan.feeds.decide import decide
from headrace.plan.feeds.feeds_document import NamedFeeds, read_feeds
from headrace.plan.feeds.instance import FeedsDecision
from headrace.plan.feeds.latency import LatencyMethod

Named = NamedFeeds | NamedComposite


class InstanceKind(StrEnum):
    FEEDS = "feeds"
    COMPOSITE = "composite"


def read_instance(text: str, file: str) -> Named:
    """Raises InputError with all mistakes."""
    document = read_json(text, file)
    fields = DocumentFields(text, file, MOST_DIGITS)
    members = fields.members(document, (), "an instance")
    if isinstance(document, dict) and "kind" not in members:
        fields.wrong((), 'the instance has no "kind"', 'it is "feeds" or "composite"')
    kind = fields.choice(members.get("kind", "feeds"), ("kind",), "the kind of an instance", InstanceKind)
    fields.end()
    return read_feeds(fields, document) if kind is InstanceKind.FEEDS else read_composite(fields, document)


def decide_instance(named: Named, method: LatencyMethod = LatencyMethod.EXACT, effort: int = EFFORT) -> FeedsDecision:
    """Decides an instance as it was read. Networks are always decided exactly."""
    match named:
        case NamedFeeds(feeds, latency):
            return decide(feeds, latency, method, effort)
        case NamedComposite(composite):
            return decide_composite(composite)
        case _:
            assert_never(named)


def answer(named: Named, decision: FeedsDecision, seconds: float) -> dict[str, object]:
    """The answer document; `seconds` is what deciding took."""
    return {**summary(decision, seconds), "push": named.pairs(np.flatnonzero(decision.ahead))}
