"""What a site says of rows that have to stay there: outside, a text that may name a key or a value becomes a hash.

Rows of a source with `stays` may be at some sites alone, and whoever coordinates is not one of them. So what a site
tells about such a source, its database, or a contract whose view reads it, goes out without reasons: a hash stands for
them, by which one sees whether two texts are the same. The hash is made with a secret of the site's, since short keys
could otherwise be guessed. At the site itself everything is said in full.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from headrace.coordinate.compare.moment import query_of
from headrace.coordinate.compare.sources import sources_of
from headrace.model.events import Event, TroubleBegan, TroubleOver, UnknownEvent
from headrace.model.feed_names import feed_of
from headrace.model.plan import Plan
from headrace.model.plan_events import ApplyFailed
from headrace.model.source_clock import clock_of
from headrace.model.trouble import Trouble, TroubleKind
from headrace.run.check.rota import CheckKind

HASH_DIGITS = 12


@dataclass(frozen=True, slots=True)
class GuardedNames:
    """Names, by what they are names of, of which texts may hold rows that have to stay at a site."""

    site: str
    names: Mapping[str, frozenset[str]]

    @property
    def is_empty(self) -> bool:
        return not self.names["sources"]

    def concern(self, about: Mapping[str, tuple[str, ...]]) -> bool:
        return any(self.names.get(what, frozenset()) & set(names) for what, names in about.items())


NOTHING_GUARDED = GuardedNames("", dict.fromkeys(("sources", "databases", "contracts", "feeds"), frozenset()))


def find_guarded(plan: Plan) -> GuardedNames:
    """What the part of a site says of its own sources and contracts."""
    catalogue = plan.catalogue
    bound = {name: one for name, one in catalogue.sources.items() if one.stays is not None}
    reading = [one for one in plan.contracts if bound.keys() & sources_of(query_of(catalogue, one.view))]
    feeds = (feed_of(one.contract, catalogue.feeds) for one in reading)
    names = {
        "sources": frozenset(bound),
        "databases": frozenset(clock_of(one) for one in bound.values() if one.origin is not None),
        "contracts": frozenset(one.contract for one in reading),
        "feeds": frozenset(feed for feed in feeds if feed is not None),
    }
    return GuardedNames(plan.site or "", names)


def hide_text(text: str, site: str, secret: bytes) -> str:
    digest = hmac.new(secret, text.encode(), "sha256").hexdigest()[:HASH_DIGITS]
    return f'what is wrong is told at site "{site}" alone, where its rows have to stay (hash {digest})'


def guard_event(event: Event, guarded: GuardedNames, secret: bytes) -> Event:
    """An event as it is told outside the site."""
    if guarded.is_empty:
        return event
    if isinstance(event, UnknownEvent):
        return replace(event, fields={}, reason=None)
    if not isinstance(event, ApplyFailed) and not guarded.concern(event.about):
        return event
    if event.reason is not None:
        event = replace(event, reason=hide_text(event.reason, guarded.site, secret))
    if isinstance(event, TroubleBegan | TroubleOver):
        event = replace(event, what=f"{event.named}: {hide_text(event.what, guarded.site, secret)}")
    return event


def guard_status(
    status: Mapping[str, Any] | None, troubles: Mapping[str, Trouble], guarded: GuardedNames, secret: bytes
) -> Mapping[str, Any] | None:
    """A site's status as it is told outside. `troubles` are those of the site by key: a status does not name them."""
    if status is None or guarded.is_empty:
        return status
    found = deepcopy(dict(status))
    hidden = {
        one.what: hide_text(one.what, guarded.site, secret) for key, one in troubles.items() if _concerns(key, guarded)
    }
    for one in found["contracts"]:
        if one["id"] in guarded.names["contracts"] and one["state"] == "failing":
            one["reason"] = hide_text(one["reason"], guarded.site, secret)
        elif one.get("reason") is not None:  # it may quote a trouble as the cause
            one["reason"] = _hide_parts(one["reason"], hidden)
    for one in found.get("checks", {}).get("subjects", ()):
        known = guarded.names["contracts" if one["kind"] == CheckKind.VIEW else "sources"]
        if one["name"] in known and "reason" in one:
            one["reason"] = hide_text(one["reason"], guarded.site, secret)
    for one in found.get("feeds", ()):
        if one["id"] in guarded.names["feeds"]:  # who was shed is named by a column of such a source
            one["shed"] = [hide_text(name, guarded.site, secret) for name in one["shed"]]
    for trouble in found["troubles"]:
        trouble["what"] = hidden.get(trouble["what"], trouble["what"])
    return found


def _hide_parts(text: str, hidden: Mapping[str, str]) -> str:
    for part, told in sorted(hidden.items(), key=lambda one: -len(one[0])):
        text = text.replace(part, told)
    return text


def guard_failing(failing: Mapping[str, str], guarded: GuardedNames, secret: bytes) -> dict[str, str]:
    """Why contracts are not loaded, by contract, as it is told outside."""
    hidden = guarded.names["contracts"]
    return {name: hide_text(why, guarded.site, secret) if name in hidden else why for name, why in failing.items()}


def _concerns(key: str, guarded: GuardedNames) -> bool:
    kind = next((one for one in TroubleKind if key.startswith(one)), None)
    if kind is None or kind.about is None:
        return False
    return guarded.concern({kind.about: (key.removeprefix(kind),)})
