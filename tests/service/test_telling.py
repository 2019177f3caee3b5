"""What `up` says about troubles."""

from __future__ import annotations

from headrace.app.telling import AGAIN_AFTER_S, TroubleLines
from headrace.model.trouble import Trouble

REFUSED = Trouble("capture of us: no", 1.0, "GRANT x;")


def test_a_trouble_is_told_when_it_begins_when_its_words_change_and_when_it_is_over() -> None:
    lines = TroubleLines()
    assert list(lines.next_lines({"us": REFUSED}, 0.0, False)) == ["trouble: capture of us: no", "  hint: GRANT x;"]
    assert list(lines.next_lines({"us": REFUSED}, AGAIN_AFTER_S, False)) == []
    other = Trouble("capture of us: never", 1.0, "GRANT y;")
    assert list(lines.next_lines({"us": other}, 1.0, False)) == ["trouble: capture of us: never", "  hint: GRANT y;"]
    assert list(lines.next_lines({}, 2.0, False)) == ["over: capture of us: never"]
    assert list(lines.next_lines({}, 3.0, False)) == []


def test_whoever_waits_for_views_to_be_loaded_is_told_again_every_minute() -> None:
    lines = TroubleLines()
    assert len(list(lines.next_lines({"us": REFUSED}, 0.0, True))) == 2
    assert list(lines.next_lines({"us": REFUSED}, AGAIN_AFTER_S - 1, True)) == []
    assert len(list(lines.next_lines({"us": REFUSED}, AGAIN_AFTER_S, True))) == 2
    assert list(lines.next_lines({"us": REFUSED}, AGAIN_AFTER_S + 1, True)) == []
