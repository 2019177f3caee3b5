"""Copies of another site are asked for in the order of their deadlines."""

from __future__ import annotations

from headrace.model.wish import CopyWish
from headrace.site.wanted_copies import WantedCopies


def make_wanted(**deadlines: int) -> WantedCopies:
    wanted = WantedCopies()
    for copy, deadline in deadlines.items():
        assert wanted.want(copy, CopyWish(10, deadline))
    return wanted


def take_all(wanted: WantedCopies) -> list[str]:
    return [wanted.take() for _ in range(len(wanted.wishes)) if wanted.is_any_waiting]


def test_the_earliest_deadline_is_first() -> None:
    assert take_all(make_wanted(b=20, a=30, c=10)) == ["c", "b", "a"]


def test_an_earlier_deadline_counts_also_for_a_time_that_is_wanted_already() -> None:
    wanted = make_wanted(a=30, b=20)
    assert not wanted.want("a", CopyWish(5, 10))
    assert wanted.wishes["a"] == CopyWish(10, 10) and take_all(wanted) == ["a", "b"]
    assert not wanted.is_any_waiting


def test_a_copy_of_which_some_came_keeps_its_place_and_others_wait() -> None:
    wanted = make_wanted(a=10, b=20)
    assert wanted.take() == "a"
    assert not wanted.want("a", CopyWish(15, 5)), "somebody brings it"
    wanted.put_back("a")
    assert take_all(wanted) == ["a", "b"]
    for copy in ("a", "b"):
        wanted.put_back(copy, 30 if copy == "a" else None)
    assert not wanted.want("a", CopyWish(20, 1)), "it did not come, whatever its deadline is"
    assert take_all(wanted) == ["b", "a"]


def test_a_copy_that_is_there_is_not_asked_for_again() -> None:
    wanted = make_wanted(a=10)
    wanted.finish(wanted.take())
    wanted.put_back("a")
    assert not wanted.wishes and not wanted.is_any_waiting
