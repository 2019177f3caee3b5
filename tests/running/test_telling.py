"""What commands say while people wait for them."""

from __future__ import annotations

from headrace.coordinate.telling import AGAIN_AFTER_S, GIVE_UP_AFTER_S, GOES_ON, Progress, TroubleLines, WaitLines
from headrace.model.trouble import Trouble

REFUSED = Trouble("capture of us: no", 1.0, "GRANT x;")


def test_a_trouble_is_told_when_it_begins_when_its_words_change_and_when_it_is_over() -> None:
    lines = TroubleLines()
    assert list(lines.next_lines({"us": REFUSED}, 0.0, False)) == ["trouble: capture of us: no", "  hint: GRANT x;"]
    assert list(lines.next_lines({"us": REFUSED}, AGAIN_AFTER_S, False)) == []
    other = Trouble("capture of us: never", 1.0, "GRANT y;")
    assert list(lines.next_lines({"us": other}, 1.0, False)) == ["trouble: capture of us: never", "  hint: GRANT y;"]
    assert list(lines.next_lines({}, 2.0, False)) == ["resolved: capture of us: never"]
    assert list(lines.next_lines({}, 3.0, False)) == []


def test_a_trouble_is_not_told_again_because_it_lasts_longer_or_more_waits() -> None:
    """A site that is away for an hour is told of once, not 3,600 times."""
    lines = TroubleLines()

    def tell(what: str) -> int:
        return len(list(lines.next_lines({"site": Trouble(what, 1.0, "start it")}, 1.0, False)))

    assert tell('site "us" has not answered for 5 s; 1.5 kB wait for it') == 2
    assert tell('site "us" has not answered for 6.5 s; 20 MB wait for it') == 0
    assert tell('site "us" has not answered for 3 min; 20 MB wait for it') == 0
    assert tell('site "us" has not answered for 3 min: the row id = 17 is in the way') == 2
    assert tell('site "us" has not answered for 4 min: the row id = 18 is in the way') == 2


def test_whoever_waits_for_views_to_be_loaded_is_told_again_every_minute() -> None:
    lines = TroubleLines()
    assert len(list(lines.next_lines({"us": REFUSED}, 0.0, True))) == 2
    assert list(lines.next_lines({"us": REFUSED}, AGAIN_AFTER_S - 1, True)) == []
    assert len(list(lines.next_lines({"us": REFUSED}, AGAIN_AFTER_S, True))) == 2
    assert list(lines.next_lines({"us": REFUSED}, AGAIN_AFTER_S + 1, True)) == []


def test_whoever_waits_for_the_service_hears_what_it_does_and_after_a_minute_what_is_wrong() -> None:
    lines = WaitLines()
    assert list(lines.next_lines("reading a", [REFUSED], 2.0)) == ["reading a (2 s)"]
    assert list(lines.next_lines("reading a", [REFUSED], 30.0)) == []
    assert list(lines.next_lines("reading b", [REFUSED], 40.0)) == ["reading b (40 s)"]
    again = ["reading b (100 s)", "trouble: capture of us: no", "  hint: GRANT x;", GOES_ON]
    assert list(lines.next_lines("reading b", [REFUSED], 40.0 + AGAIN_AFTER_S)) == again
    assert list(lines.next_lines("reading b", [], 41.0 + AGAIN_AFTER_S)) == []


def test_it_is_worth_waiting_while_something_moves_on_or_nothing_is_wrong() -> None:
    progress = Progress()
    assert not progress.is_stuck("reading a", [], 0.0)
    assert not progress.is_stuck("reading a", [], 2 * GIVE_UP_AFTER_S)
    assert not progress.is_stuck("reading a", [REFUSED], 3 * GIVE_UP_AFTER_S - 1)
    assert not progress.is_stuck("reading b", [REFUSED], 3 * GIVE_UP_AFTER_S)
    assert not progress.is_stuck("reading b", [REFUSED], 4 * GIVE_UP_AFTER_S - 1)
    assert progress.is_stuck("reading b", [REFUSED], 4 * GIVE_UP_AFTER_S)
    assert not progress.is_stuck("reading b", [], 4 * GIVE_UP_AFTER_S)
