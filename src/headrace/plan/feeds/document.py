"""The instance that `headrace feeds decide` reads, and the answer it gives, as JSON."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from headrace.plan.feeds.composite_document import NamedComposite, read_composite
from headrace.plan.feeds.feeds_document import NamedFeeds, read_feeds
from headrace.plan.feeds.fields import Fields
from headrace.plan.feeds.instance import Decision
from headrace.plan.feeds.json_text import read_json
from headrace.plan.feeds.numbers import as_json, as_json_bound

Named = NamedFeeds | NamedComposite


class Kind(StrEnum):
    FEEDS = "feeds"
    COMPOSITE = "composite"


def read_instance(text: str, file: str) -> Named:
    """Raises InputError with all mistakes."""
    document = read_json(text, file)
    fields = Fields(text, file)
    members = fields.members(document, (), "an instance")
    if isinstance(document, dict) and "kind" not in members:
        fields.wrong((), 'the instance has no "kind"', 'it is "feeds" or "composite"')
    kind = fields.choice(members.get("kind", "feeds"), ("kind",), "the kind of an instance", Kind)
    fields.end()
    return read_feeds(fields, document) if kind is Kind.FEEDS else read_composite(fields, document)


def answer(named: Named, decision: Decision, seconds: float) -> dict[str, object]:
    """The answer document; `seconds` is what deciding took."""
    stored = np.flatnonzero(decision.ahead).tolist()
    return {**summary(decision, seconds), "push": [named.pair(number) for number in stored]}


def summary(decision: Decision, seconds: float) -> dict[str, object]:
    """The numbers of a decision."""
    return {
        "cost": as_json(decision.cost),
        "push_all_cost": as_json(decision.all_ahead_cost),
        "pull_all_cost": as_json(decision.all_on_read_cost),
        "lower_bound": as_json(decision.cost) if decision.optimal else as_json_bound(decision.lower_bound),
        "optimal": decision.optimal,
        "seconds": round(seconds, 6),
    }
