"""What coordinators of earlier versions have sent to sites, kept as it was: every later version takes it.

`tests/golden/sites/slice-1.json` is the first that was ever sent, and is never rewritten.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.app.joined_agent import JoinedSite
from headrace.connect.wire.client import WireReply
from headrace.site.folder import Folder
from headrace.site.kept_stays import remember_stays
from headrace.site.membership import Membership, read_neighbours
from headrace.site.site_folders import read_part
from tests.connect.wire.wire_world import WireWorld

RECORDED = Path(__file__).parents[1] / "golden" / "sites" / "slice-1.json"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[WireWorld]:
    found = WireWorld(tmp_path / "wire")
    yield found
    found.close()


@pytest.fixture
def site(world: WireWorld, tmp_path: Path) -> JoinedSite:
    folder = Folder(tmp_path / "agent")
    folder.prepare()
    return JoinedSite(folder, Membership("eu", "hospital", "127.0.0.1:1", "127.0.0.1", 2), world.identity("eu"))


def recorded(**changed: Any) -> dict[str, Any]:
    return {**json.loads(RECORDED.read_text()), **changed}


def test_a_recorded_part_is_taken_and_kept(world: WireWorld, site: JoinedSite) -> None:
    with world.serving(site.answer, site.identity) as where:
        client = world.client("eu", where, world.identity(None))
        assert json.loads(client.ask("GET", "/v1/report", 5.0).body)["told"] == 0
        for _ in range(2):  # safe to repeat
            reply = client.ask("PUT", "/v1/slice", 5.0, body=recorded())
            assert (reply.status, json.loads(reply.body)) == (200, {"number": 3})
        report = json.loads(client.ask("GET", "/v1/report", 5.0).body)
        assert (report["told"], report["runs"], report["coordinator_epoch"]) == (3, None, 7)
    part, told = read_part(site.folder), read_neighbours(site.folder)
    assert part is not None and part.plan.site == "eu" and set(part.plan.catalogue.sources) == {"patients", "visits"}
    assert told.addresses == {"us": "10.0.0.1:7433"} and told.denied == ("gone",)


def test_what_a_site_does_not_know_is_refused_and_what_it_has_stays(world: WireWorld, site: JoinedSite) -> None:
    with world.serving(site.answer, site.identity) as where:
        client = world.client("eu", where, world.identity(None))
        assert client.ask("PUT", "/v1/slice", 5.0, body=recorded()).status == 200
        for status, sent in (
            (426, recorded(format=2)),
            (426, recorded(part={**recorded()["part"], "number": 4, "plan": '{"format": "headrace/99"}'})),
            (409, recorded(coordinator_epoch=6)),
            (422, {"format": 1}),
        ):
            assert client.ask("PUT", "/v1/slice", 5.0, body=sent).status == status
        later = recorded(coordinator_epoch=8, part={**recorded()["part"], "number": 4})
        assert client.ask("PUT", "/v1/slice", 5.0, body=later).status == 200
        assert client.ask("PUT", "/v1/slice", 5.0, body=recorded()).status == 409, "an old coordinator"
    part = read_part(site.folder)
    assert part is not None and part.number == 4


def test_of_two_coordinators_with_one_epoch_the_first_is_heard(world: WireWorld, site: JoinedSite) -> None:
    """Somebody has copied the project's folder, and started both."""
    first, copy = ({"coordinator_run": f"on us1, run {one}"} for one in "ab")
    with world.serving(site.answer, site.identity) as where:
        client = world.client("eu", where, world.identity(None))

        def tell(**changed: Any) -> WireReply:
            return client.ask("PUT", "/v1/slice", 5.0, body=recorded(**changed))

        assert [tell(**first).status, tell(**copy).status, tell(**first).status] == [200, 409, 200]
        assert tell(**copy).reason == "another coordinator (on us1, run a) has told this site what to run since"
        assert tell().status == 200, "one of an earlier version does not say it"
        assert tell(**copy, coordinator_epoch=8).status == 200, "it was started once more"
        assert tell(**first).status == 409
    assert read_neighbours(site.folder).coordinator_run == copy["coordinator_run"]


def test_only_the_coordinator_says_what_a_site_runs_and_who_is_denied_gets_nothing(
    world: WireWorld, site: JoinedSite
) -> None:
    with world.serving(site.answer, site.identity) as where:
        us = world.client("eu", where, world.identity("us"))
        assert us.ask("PUT", "/v1/slice", 5.0, body=recorded()).status == 403
        assert us.ask("GET", "/v1/ping", 5.0).status == 200
        instance = (us.identity.folder / "instance").read_text()
        coordinator = world.client("eu", where, world.identity(None))
        assert coordinator.ask("PUT", "/v1/slice", 5.0, body=recorded(denied=[instance])).status == 200
        assert us.ask("GET", "/v1/ping", 5.0).status == 403


def test_where_rows_may_be_is_learnt_once_and_changed_at_the_site_alone(world: WireWorld, site: JoinedSite) -> None:
    with world.serving(site.answer, site.identity) as where:
        client = world.client("eu", where, world.identity(None))
        assert client.ask("PUT", "/v1/slice", 5.0, body=recorded()).status == 200
    part = read_part(site.folder)
    assert part is not None
    learnt = remember_stays(site.folder, part.plan)
    assert learnt["patients"] is not None and learnt["patients"].sites == ("eu",)
    file = site.folder.root / "stays.json"
    file.write_text(json.dumps({"patients": {"sites": ["eu", "us"]}}))
    changed = remember_stays(site.folder, part.plan)["patients"]
    assert changed is not None and changed.sites == ("eu", "us")
