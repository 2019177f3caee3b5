"""Events: their documents, what the ledger keeps of them, and texts of other versions."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, get_args

import pytest

from headrace.model.event_wire import ROUTINE, event_document, read_event, write_event
from headrace.model.events import (
    ContractKeptAgain,
    ContractLate,
    Event,
    ServiceRecovered,
    TroubleBegan,
    TroubleOver,
    UnknownEvent,
)
from headrace.model.plan_events import ContractsMoved, PlanApplied, SourcesReread, ViewsCompared
from headrace.model.push_events import ChangesCaptured, DatasetsPushed, Use
from headrace.model.trouble import TroubleKind

AT = 1_700_000_000_250_000


def sample(kind: type[Any]) -> Any:
    """An event with a value in each field."""
    values = {
        "str": "named",
        "int": 3,
        "float": 0.5,
        "str | None": "because",
        "float | None": 1.5,
        "tuple[str, ...]": ("a", "b"),
        "Mapping[str, Use]": {"a": Use(1.5, 2.0, 0.25, 7.0), "b": Use(), "c": Use(0.0, 1.0)},
        "Mapping[str, int]": {"users": 2, "posts": 1},
        "TroubleKind": TroubleKind.CAPTURE,
        "Mapping[str, object]": {"x": [1, "y"]},
    }
    return kind(**{one.name: AT if one.name == "at" else values[str(one.type)] for one in fields(kind)})


EVENTS = [sample(kind) for kind in get_args(Event) if kind is not UnknownEvent]


@pytest.mark.parametrize("event", EVENTS, ids=lambda one: type(one).__name__)
def test_what_is_kept_of_an_event_is_read_as_the_same_event(event: Event) -> None:
    text = write_event(event)
    assert read_event(AT, event.kind, text) == event
    with_more = json.dumps({**json.loads(text), "added_later": 1})
    assert read_event(AT, event.kind, with_more) == event


@pytest.mark.parametrize("event", EVENTS, ids=lambda one: type(one).__name__)
def test_a_document_has_six_fields_and_every_number_a_unit_in_its_name_or_is_a_count(event: Event) -> None:
    document = event_document(event)
    assert list(document) == ["at", "kind", "about", "text", "reason", "numbers"]
    assert document["at"] == 1_700_000_000.25
    assert json.loads(json.dumps(document)) == document
    counts = {"pushes", "pieces", "rows", "kept", "equal", "different", "not_compared"}
    counts |= {"started", "ended", "pairs", "ahead", "shed", "to_devices", "to_cloud", "on_devices", "moves"}
    money = {"migration", "cost", "loss", "moving"}
    ratios = {"ratio", "bound"}
    assert all(name.endswith(("_s", "_h", "_bytes")) or name in counts | money | ratios for name in document["numbers"])
    assert set(document["about"]) <= {"contracts", "sources", "databases", "feeds", "devices", "templates"}


def test_every_kind_belongs_to_one_class() -> None:
    named = [one.kind for one in EVENTS if not isinstance(one, TroubleBegan | TroubleOver)]
    troubles = [kind for one in TroubleKind for kind in (one.begins, one.ends)]
    assert len({*named, *troubles}) == len(named) + len(troubles)
    assert ROUTINE == ("captured", "kept up", "pushed", "stored")


def test_what_a_reader_does_not_know_stays_readable() -> None:
    of_another_kind = read_event(AT, "danced", '{"with":"eu"}')
    assert of_another_kind == UnknownEvent(AT, "danced", {"with": "eu"})
    assert event_document(of_another_kind)["text"] == "another version of Headrace wrote this event"
    assert write_event(of_another_kind) == '{"with":"eu"}'
    assert isinstance(read_event(AT, "late", '{"version":2,"contract":"x"}'), UnknownEvent)
    assert isinstance(read_event(AT, "late", '{"contract":3}'), UnknownEvent)
    assert read_event(AT, "late", '{"contract":') == read_event(AT, "late", "7") == UnknownEvent(AT, "late", {})


def test_a_push_is_kept_in_few_bytes() -> None:
    pushed = DatasetsPushed(AT, 12, 120, 4000, 0.21, ("named",), {"named": Use(0.1, cost=1.9e-05)})
    assert write_event(pushed) == (
        '{"pushes":12,"rows":120,"written_bytes":4000,"took_s":0.21,"contracts":["named"],'
        '"used":{"named":[0.1,0.0,1.9e-05]}}'
    )


def test_a_number_without_bounds_fails_no_commit_and_spoils_no_document() -> None:
    pushed = DatasetsPushed(AT, 1, took_s=float("inf"), used={"named": Use(float("nan"), cost=1.0)})
    kept = read_event(AT, "pushed", write_event(pushed))
    assert isinstance(kept, DatasetsPushed) and kept.took_s == float("inf")
    numbers = json.loads(json.dumps(event_document(pushed), allow_nan=False))["numbers"]
    assert numbers["took_s"] is None and numbers["core_s"] is None and numbers["cost"] == 1.0


def test_events_are_told_in_plain_sentences() -> None:
    told = [
        DatasetsPushed(AT, 12, 1, 4000, 0.21, ("counts", "named")),
        ChangesCaptured(AT, "eu_dsn", {"posts": 2, "likes": 1}),
        ContractLate(AT, "named", 4.31, 4.0, reason="the database eu_dsn does not answer"),
        ContractKeptAgain(AT, "named", 1.0, 4.0, 12.34),
        ServiceRecovered(AT, 77, 3.2),
        PlanApplied(AT, 2, ("named",), ("old",), 3.0),
        ContractsMoved(AT, ("named",), 0.12, 0.003, reason="rate of posts is 2 times what was planned"),
        ContractsMoved(AT, ("named",), -0.12, 0.003, ("named",)),
        SourcesReread(AT, ("posts",)),
        SourcesReread(AT, ("likes", "posts")),
        ViewsCompared(AT, 3, 1, 0, ("named",)),
    ]
    assert [one.text for one in told] == [
        "pushed 12 datasets, with counts, named: 1 row in 210 ms",
        "captured 1 row of likes, 2 rows of posts",
        'contract "named" is late: 4.3 s behind; the promise is 4 s',
        'contract "named" is kept again after 12.3 s: 1 s behind',
        "the last run (process 77) ended unexpectedly, 3.2 s ago; the service continues from its last commit",
        "now running a plan for 2 contracts; new: named; withdrawn: old",
        "moved named to a cheaper plan: saves 0.12 $/h, moving cost 0.003 $",
        "moved named to another plan: costs 0.12 $/h more, moving cost 0.003 $; can be kept again: named",
        "reading posts again, and recomputing what depends on it",
        "reading likes, posts again, and recomputing what depends on them",
        "views were compared with their queries: 3 equal, 1 differ: named",
    ]
