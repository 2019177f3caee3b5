"""Events as JSON: the document that people and programs read, and the shorter text that the ledger keeps.

What is kept are the fields of an event's class, without those that have their default value. A reader ignores fields
that it does not know, so a field with a default may be added; any other change of a class needs another VERSION. What a
reader does not know at all becomes an `UnknownEvent`, and the rest stays readable.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from math import isfinite
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from headrace.model.events import Event, TroubleBegan, TroubleOver, UnknownEvent
from headrace.model.push_events import Use
from headrace.model.trouble import TroubleKind

VERSION = 1
VERSION_FIELD = "version"
"""Left out of texts of the first version."""


@dataclass(frozen=True, slots=True)
class EventsAsked:
    """Which events to read: those after a number, of one contract or all, routine ones too, and at most so many.

    The first of these, or the `latest`; either way the oldest comes first.
    """

    after: int = 0
    limit: int = 50
    contract: str | None = None
    routine: bool = False
    latest: bool = False


@dataclass(frozen=True, slots=True)
class NumberedEvent:
    """Numbers grow in the order of commits: a reader that has read up to one misses nothing before it."""

    number: int
    event: Event


def event_document(event: Event) -> dict[str, Any]:
    """`at` is in seconds since 1970."""
    return {
        "at": event.at / 1e6,
        "kind": event.kind,
        "about": {what: list(names) for what, names in event.about.items()},
        "text": event.text,
        "reason": event.reason,
        "numbers": {name: value if isfinite(value) else None for name, value in event.numbers.items()},
    }


def write_event(event: Event) -> str:
    """What the ledger keeps beside time and kind; ASCII."""
    if isinstance(event, UnknownEvent):
        return json.dumps(event.fields, separators=(",", ":"))
    version = {} if VERSION == 1 else {VERSION_FIELD: VERSION}
    # Numbers that are not finite are kept as well: telling of a commit must not make it fail.
    return json.dumps({**version, **_fields_to_keep(event)}, separators=(",", ":"))


def _fields_to_keep(noun: Any) -> dict[str, Any]:
    return {
        one.name: _plain(value)
        for one in fields(noun)
        if one.name != "at" and (value := getattr(noun, one.name)) != _default_of(one)
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    return _without_last_zeros(value) if isinstance(value, Use) else value


def _without_last_zeros(use: Use) -> tuple[float, ...]:
    """What is missing at the end is read as its default, zero."""
    return use[: max((place for place, amount in enumerate(use, start=1) if amount), default=0)]


def _default_of(one: Any) -> Any:
    return one.default_factory() if one.default_factory is not MISSING else one.default


def read_event(at: int, kind: str, text: str) -> Event:
    """Any text: what is not known, or not as expected, becomes an `UnknownEvent`."""
    found, reader = _read_fields(text), _readers().get(kind)
    if reader is not None and found.get(VERSION_FIELD, 1) == VERSION:
        try:
            event: Event = reader.validate_python({**found, "at": at})
            return event
        except ValidationError:
            pass
    return UnknownEvent(at, kind, found)


def _read_fields(text: str) -> dict[str, Any]:
    """Reads no fields of a text that is damaged: one event that cannot be read must not hide the others."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


@cache
def _readers() -> Mapping[str, TypeAdapter[Any]]:
    """The readers by kind. Each kind of trouble has two."""
    named = {one.name: TypeAdapter(one) for one in get_args(Event) if hasattr(one, "name")}
    began, over = TypeAdapter(TroubleBegan), TypeAdapter(TroubleOver)
    return {**named, **{one.begins: began for one in TroubleKind}, **{one.ends: over for one in TroubleKind}}


ROUTINE = tuple(sorted(one.name for one in get_args(Event) if one.is_routine))
"""Kinds of which there are many."""
