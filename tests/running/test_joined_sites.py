"""Sites that join from elsewhere, with no folder in common: views that need rows of both, and who is refused."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.running.joined_sites import JoinedSites, joined_sites
from tests.running.running_project import RunningProject, load, until
from tests.shifted_clock import shifted_clock

pytestmark = pytest.mark.timeout(1200)
"""On a machine that does much else, each command takes seconds."""

STAYS = "at: eu, stays: {sites: [eu], aggregates: anywhere},"


def declare(project: RunningProject, *contracts: str) -> None:
    """Rows of posts are in the EU alone: what is counted in the US is compared with its query in the EU."""
    project.declare(*contracts)
    file = project.folder / "headrace.yml"
    file.write_text(file.read_text().replace("posts: {kind: table, at: eu,", f"posts: {{kind: table, {STAYS}"))
    assert STAYS in file.read_text()


@pytest.fixture
def joined(project: RunningProject, tmp_path: Path) -> Iterator[JoinedSites]:
    declare(project, "named", "counts", "by_pid")
    with joined_sites(project, tmp_path) as made:
        yield made


def test_views_are_kept_by_sites_that_join_from_elsewhere(joined: JoinedSites) -> None:
    project = joined.project
    assert {one["state"] for one in joined.status().values()} == {"not joined"}
    before, later = project.document("status"), project.document("status")
    assert {one["id"]: (one["state"], one["reason"]) for one in before["contracts"]} == {
        "named": ("stopped", 'site "eu" has not joined yet'),
        "by_pid": ("stopped", 'site "eu" has not joined yet'),
        "counts": ("stopped", 'site "us" has not joined yet'),
    }
    assert before["troubles"] == later["troubles"] and len(later["troubles"]) == 2
    assert "site eu: has not joined yet" in project.headrace("status")
    assert "waiting for us, eu to join" in (project.folder / ".headrace" / "up.log").read_text()
    joined.start("us", host="127.0.0.1")
    joined.start("eu", host="127.0.0.2")
    joined.until_running("us", "eu")
    joined.until_equal("eu", "named")
    joined.until_equal("us", "counts")
    for number in range(1000, 1010):
        project.change_something(number)
    joined.until_equal("eu", "named")
    joined.until_equal("us", "counts")
    found = project.document("status")
    assert {one["id"]: one["site"] for one in found["contracts"]} == {"named": "eu", "counts": "us", "by_pid": "eu"}
    assert joined.status()["eu"]["address"].startswith("https://127.0.0.2:")
    assert {one["id"] for one in joined.audit()} == {"named", "counts", "by_pid"}
    assert not list((project.folder / ".headrace" / "sites").rglob("ledger.db")), "nothing of a site is here"

    with load(project, 2000):
        compared = joined.recomputed(project.folder, status=0)
    assert compared.keys() == {"named", "counts", "by_pid"}
    assert len({one["t"] for one in compared.values()}) == 1, "it is one moment"
    told = project.events()
    assert [one["kind"] for one in told].count("started") == 2 and told[-1]["at"] >= told[0]["at"]
    assert {"compared", "plan applied"} <= {one["kind"] for one in told}
    named = project.events("--contract=by_pid")
    assert named and all("by_pid" in one["about"]["contracts"] for one in named) and len(named) < len(told)

    os.kill(project.process()["pid"], signal.SIGKILL)
    joined.stop("eu")
    joined.start("eu")
    project.change_something(1100)
    joined.until_equal("eu", "named")
    assert "going on with what this site was told last" in joined.said("eu")

    joined.up()
    declare(project, "named", "counts", "by_body")
    applied = project.document("apply")
    assert applied["applied"] and not applied["failing"]
    project.change_something(1101)
    joined.until_equal("eu", "by_body")
    joined.until_equal("eu", "named")


@pytest.mark.long
def test_a_clock_that_is_off_is_told_and_hides_no_wrong_row(joined: JoinedSites) -> None:
    project = joined.project
    assert {one["reason"] for one in joined.recomputed(project.folder, status=3).values()} == {
        'site "eu" has not joined yet',
        'site "us" has not joined yet',
    }
    with shifted_clock() as clock:
        clock.set(2.0)
        joined.start("us")
        joined.start("eu", clock=clock)
        joined.until_running("us", "eu")
        joined.until_equal("eu", "named")
        joined.until_equal("us", "counts")
        told = [one["what"] for one in project.document("status")["troubles"]]
        assert any('the clock of site "eu" is 2 s ahead of' in one for one in told), told
        assert 1.5 < joined.status()["eu"]["clock_ahead_s"] < 2.5
        with load(project, 2000):
            assert all(one["equal"] for one in joined.recomputed(project.folder, status=0).values())
        clock.set(-2.0)
        project.change_something(3000)
        joined.until_equal("eu", "named")
        until(lambda: joined.status()["eu"]["clock_ahead_s"] < -1.5, "the jump is seen")

        at_home = joined.recomputed(joined.folder("eu"), status=3)
        assert at_home["by_pid"]["equal"]
        assert 'it reads source "users" of site "us"' in at_home["named"]["reason"]
        joined.agents["us"].send_signal(signal.SIGSTOP)
        try:
            left_out = joined.recomputed(project.folder, status=3)
        finally:
            joined.agents["us"].send_signal(signal.SIGCONT)
        assert left_out["by_pid"]["equal"], "it needs nothing from the site that stands still"
        assert all('site "us" does not answer' in left_out[name]["reason"] for name in ("named", "counts"))
        with joined.following() as followed:
            until(lambda: "compared" in followed(), "what happened is told")
            joined.stop("eu")
            joined.lose_row("eu", "by_pid")
            left_out = joined.recomputed(project.folder, status=3)
            assert all('site "eu" does not answer' in one["reason"] for one in left_out.values()), left_out
            until(lambda: "site silent" in followed(), "that nobody tells of the EU is told")
            joined.start("eu", clock=clock)
            until(lambda: joined.runs_now("eu"), "it runs again")
            until(lambda: "site answers" in followed() and followed().count("started") == 3, "it goes on from there")
        wrong = joined.recomputed(project.folder, status=1)
        assert {name: (one["missing"], one["extra"]) for name, one in wrong.items()} == {
            "named": (0, 0),
            "counts": (0, 0),
            "by_pid": (1, 0),
        }
        joined.stop("eu")  # while there is a clock


@pytest.mark.long
def test_sites_are_replaced_one_by_one_under_load_as_for_an_upgrade(joined: JoinedSites) -> None:
    project = joined.project
    joined.start("us")
    joined.start("eu")
    joined.until_running("us", "eu")
    with load(project, 2000):
        for site in ("us", "eu"):
            joined.stop(site)
            joined.start(site)
            joined.until_running("us", "eu")
        project.headrace("down")
        joined.up()
        joined.until_running("us", "eu")
        compared = joined.recomputed(project.folder, status=0)
    assert {name: one["equal"] for name, one in compared.items()} == dict.fromkeys(("named", "counts", "by_pid"), True)
    joined.until_equal("eu", "named")
    joined.until_equal("us", "counts")
    until(lambda: {one["state"] for one in project.document("status")["contracts"]} == {"kept"}, "all are kept")
    assert "loaded" not in {one["kind"] for one in project.events()}, "nothing is loaded anew"


def test_only_one_folder_runs_a_site_and_a_forgotten_one_gets_nothing(joined: JoinedSites) -> None:
    project = joined.project
    used = joined.invite("eu")
    joined.start("us")
    joined.start("eu")
    joined.until_running("us", "eu")
    joined.until_equal("eu", "named")
    eu, here = joined.folder("eu"), [str(project.folder)]

    # The same folder, a copy of it, another folder with a token, and a token that was used.
    said = joined.headrace("agent", "--site", "eu", "--folder", str(eu), status=2)
    assert f'site "eu" in "{eu}" is already running' in said
    copied = joined.copy("eu")
    said = joined.headrace("agent", "--site", "eu", "--folder", str(copied), status=2)
    assert "is a copy of" in said and "--replace" in said
    said = joined.refused_to_join("eu", joined.invite("eu"))
    assert 'site "eu" is run by another folder' in said
    said = joined.refused_to_join("us", joined.invite("eu"))
    assert 'the token is for site "eu"' in said
    said = joined.refused_to_join("eu", {**used, "token": "x" + used["token"]})
    assert "the token is unknown" in said
    said = joined.refused_to_join("eu", {**used, "token": used["token"][:-4] + "0000"})
    assert "not the coordinator that the token is of" in said

    # What a site may ask others for.
    us, foreign = joined.ask("eu", "us"), joined.ask("us", "eu")
    copies = json.loads(us("GET", "/v1/reach").body)
    assert copies
    copy = next(iter(copies))
    words = {"copy": copy, "after": 0, "until": 0, "deadline": 0}
    assert us("GET", "/v1/changes", words).status in (200, 410)
    assert foreign("GET", "/v1/changes", words).status == 403, "it is eu's own copy"
    assert foreign("GET", "/v1/changes", {**words, "copy": "nobody knows it"}).status == 425
    own = joined.ask("us", "us")
    assert own("GET", "/v1/changes", words).status == 403, "the plan does not give it to us"
    assert own("GET", "/v1/snapshot", {"copy": copy, "at": 0, "from": 0}).status == 403
    assert us("GET", "/v1/report").status == 403 and us("PUT", "/v1/slice").status == 403
    assert us("POST", "/v1/comparison").status == 403 and us("GET", "/v1/events").status == 403
    assert us("GET", "/v1/compared-rows", {"comparison": "x", "of": "source users", "from": 0}).status == 410

    assert 'site "eu" answers' in joined.headrace("sites", "forget", "eu", *here, status=2)
    joined.stop("eu")
    joined.headrace("sites", "forget", "eu", *here)
    until(lambda: us("GET", "/v1/reach").status == 403, "us is told of it")
    assert us("GET", "/v1/changes", words).status == 403
    assert set(joined.status()) == {"us"}
    until(lambda: not project.document("status")["contracts"], "all read sources of eu, or are there", within_s=30)
    said = joined.headrace("agent", "--site", "eu", "--folder", str(eu), status=2)
    assert 'site "eu" was forgotten' in said
