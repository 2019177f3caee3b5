"""Contracts that are not loaded: events tell when that begins and ends."""

from __future__ import annotations

from headrace.site.journal import Journal
from headrace.site.unloaded import UNKNOWN, Unloaded


def test_a_contract_that_is_left_out_is_told_once_until_it_is_loaded() -> None:
    journal = Journal()
    unloaded = Unloaded(journal)
    asked = ["named", "counts"]
    unloaded.start({"named": "source users is not read yet"}, asked)
    unloaded.start({"named": "source users is not read yet"}, asked)
    unloaded.note("named", "source users cannot be read: it is away")
    unloaded.note("counts", "d:counts|counts@us~b600ec is not there\nand more")
    unloaded.forget("named")
    unloaded.start({}, asked)
    with journal.committing() as told:
        assert [(one.kind, *one.about["contracts"]) for one in told] == [
            ("left out", "named"),
            ("left out", "counts"),
            ("loaded", "named"),
            ("loaded", "counts"),
        ]
        assert told[1].reason == "changes of counts at us is not there"


def test_a_contract_may_be_left_out_without_a_reason() -> None:
    journal = Journal()
    unloaded = Unloaded(journal)
    unloaded.note("named", "")
    with journal.committing() as told:
        assert [(one.kind, one.reason) for one in told] == [("left out", UNKNOWN)]
    assert unloaded.why == {"named": UNKNOWN}


def test_a_contract_that_is_withdrawn_is_not_told_to_be_loaded() -> None:
    journal = Journal()
    unloaded = Unloaded(journal)
    unloaded.start({"named": "it is away", "counts": "it is away"}, ["named", "counts"])
    unloaded.start({}, ["counts"])
    with journal.committing() as told:
        assert [(one.kind, *one.about["contracts"]) for one in told[2:]] == [("loaded", "counts")]


def test_what_could_not_be_committed_goes_on_waiting_in_its_order() -> None:
    journal = Journal()
    unloaded = Unloaded(journal)
    unloaded.note("a", "x")
    try:
        with journal.committing():
            unloaded.note("b", "x")
            raise OSError("the disk is full")
    except OSError:
        pass
    with journal.committing() as told:
        assert [one.about["contracts"] for one in told] == [("a",), ("b",)]
    with journal.committing() as told:
        assert told == ()
