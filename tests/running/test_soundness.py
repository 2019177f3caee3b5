"""Contracts whose sources are stopped or read again are not kept, however small their lags are."""

from __future__ import annotations

from headrace.site.auditor import WatchedContract
from headrace.site.sources.soundness import SourceStates, Unsound, find_unsound

CONTRACT = WatchedContract("fresh", "v", 10.0, 0.0, ("main",), frozenset(("orders", "users")))


def unsound(reached: int | None = 100, copied: int = 100, **states: dict[str, object]) -> Unsound | None:
    known = {"stopped": {}, "obsolete": {}, "missed": {}, "whole": {"orders": 50, "users": 100}, **states}
    times = {} if reached is None else {"v": reached}
    return find_unsound([CONTRACT], times, {"fresh": copied}, SourceStates(**known)).get("fresh")  # type: ignore[arg-type]


def test_a_view_of_sources_that_were_read_before_is_sound():
    assert unsound() is None
    assert unsound(reached=None) is None
    assert unsound(stopped={"other": "gone"}, missed={"other": 1}) is None


def test_a_view_is_sound_again_once_it_has_what_was_read_again():
    reading = unsound(missed={"users": 90}, obsolete={"users": "its table was created again"})
    assert reading == Unsound('source "users" is being read again: its table was created again', True)
    behind = unsound(whole={"users": 101})
    assert behind is not None and behind.is_mending and '"users"' in behind.reason
    copying = unsound(reached=101, whole={"users": 101})
    assert copying is not None and "the copy does not have all of it" in copying.reason
    assert unsound(reached=101, copied=101, whole={"users": 101}) is None


def test_a_source_that_is_stopped_is_named_first():
    found = unsound(stopped={"users": "it is gone"}, missed={"orders": 90})
    assert found == Unsound('source "users" is stopped: it is gone', False)
