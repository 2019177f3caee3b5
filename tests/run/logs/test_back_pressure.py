"""Sources wait before others are cut off for whom there is no room, and only those of which others lack much."""

from __future__ import annotations

from pathlib import Path

from headrace.meaning.zset import ZSet
from headrace.run.capture.spool import spool_log
from headrace.run.logs.back_pressure import Untaken, choose_held, find_untaken
from headrace.run.push.exports import Exports
from tests.run.test_crashes import VIEWS
from tests.run.test_sites import apart

R, S = frozenset({"r"}), frozenset({"s"})


def test_sources_wait_from_four_fifths_of_the_room_until_there_is_more_again():
    def hold(before: frozenset[str], size: int, kept: int = 0) -> frozenset[str]:
        return choose_held(before, [Untaken("eu", size, 0, R)], kept, 100)

    assert hold(frozenset(), 79) == frozenset()
    assert hold(frozenset(), 80) == R
    assert hold(R, 61) == R, "it does not go on and stop all the time"
    assert hold(R, 59) == frozenset()
    assert choose_held(R, [], 90, 100) == frozenset(), "who lacked it does not answer any more, or is not in the plan"
    assert hold(frozenset(), 20, kept=85) == R, "others keep what somebody here needs, and the room is the same"
    assert hold(frozenset(), 5, kept=85) == frozenset(), "waiting for others would make no room"
    assert hold(R, 6, kept=85) == R and hold(R, 4, kept=85) == frozenset()


def test_a_source_of_which_others_lack_little_goes_on():
    assert choose_held(frozenset(), [Untaken("eu", 95, 0, R), Untaken("asia", 5, 0, S)], 0, 100) == R
    assert choose_held(frozenset(), [Untaken("eu", 50, 0, R), Untaken("asia", 40, 0, S)], 0, 100) == R | S


def test_what_is_kept_for_a_site_that_answers_is_counted_until_it_has_taken_it(tmp_path: Path):
    """Also what is captured and not pushed yet; and of what several copies read, once what the last of them lacks."""
    world = apart(VIEWS, "m2", tmp_path)
    world.capture({})
    world.load()
    origin = next(site for site, one in world.worlds.items() if spool_log("s") in one.ledger.times())
    one = world.worlds[origin]
    assert one.program.exports

    def lack(*answering: str) -> int:
        return sum(part.bytes for part in find_untaken(one.program, one.ledger.logs(), answering))

    def take() -> None:
        for copy in one.program.exports.values():
            world.bring(copy.site, copy.name, world.now)
            Exports(one.engine).read_changes(copy.name, world.now)  # which says that it has the rest

    take()
    assert lack("m1", "m2", "m3") == 0
    world.capture({"s": ZSet.of([(1, 1, None, "a", None)])})
    assert lack("m1") > 0 == lack("m2", "m3"), "nothing waits for a site that does not answer"
    found = {part.sources for part in find_untaken(one.program, one.ledger.logs(), ["m1"]) if part.bytes}
    assert found == {S}
    for name in one.program.exports.values():
        world.push(origin, list(name.task.reads), world.now)
    assert lack("m1") > 0, "it is pushed, and not sent"
    take()
    assert lack("m1") == 0
