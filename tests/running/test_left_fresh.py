"""A site that ends says how long promises hold without it."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from headrace.run.schedule.next_push import SECOND
from headrace.site.folder import Folder
from headrace.site.left_fresh import LeftFresh, find_left, keep_left, read_left
from tests.run.test_crashes import VIEWS
from tests.run.test_sites import apart


def test_the_promise_that_is_broken_first_without_a_site_is_one_that_needs_it(tmp_path: Path) -> None:
    """Of views at other sites it counts what these have been given; of its own, what they have."""
    sites = apart(VIEWS, "m2", tmp_path)
    sender = next(world for world in sites.worlds.values() if world.program.exports)
    plan, program, now = sender.plan, sender.program, 1_000 * SECOND
    given = dict.fromkeys(program.exports, now - 4 * SECOND)
    fresh = {one.contract: one.freshness_s for one in plan.elsewhere}
    assert fresh, "views elsewhere need this site"
    found = find_left(plan, program, {}, given, now)
    assert found is not None and fresh[found.contract] == found.freshness_s == min(fresh.values())
    assert (found.age_s, found.at) == (4.0, 1_000.0)
    assert find_left(plan, program, {}, {}, now) is None, "nobody has asked for anything"
    own = replace(plan, contracts=(replace(plan.elsewhere[0], contract="own", freshness_s=7.0),))
    found = find_left(own, program, {own.contracts[0].vertex: now - 6 * SECOND}, given, now)
    assert found is not None and (found.contract, found.left_s) == ("own", 1.0)
    assert "hold for 1 s without it" in found.say() and '"own" (promised 7 s) is broken first' in found.say()
    assert "was late already" in replace(found, age_s=9.0).say()


def test_what_a_site_has_noted_is_told_once_it_has_ended_and_not_for_long(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.prepare()
    assert read_left(folder) is None
    left = LeftFresh("wall", 10.0, 1.5, time.time())
    keep_left(folder, left)
    assert read_left(folder) == left
    keep_left(folder, replace(left, at=time.time() - 3600.0))
    assert read_left(folder) is None
    keep_left(folder, None)
    assert read_left(folder) is None
