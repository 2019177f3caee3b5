"""Projects with feeds, templates and views in full, whose sites run apart: what can run does, the rest is named."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.app.apart import refuse_moved_posts
from headrace.app.forgotten_sites import leave_out_sites
from headrace.app.preparing import AskSources, Prepared, prepare
from headrace.app.project import planned_catalogue, sample_project
from headrace.connect.postgres.sample import SampleDatabases
from headrace.coordinate.host import Applied
from headrace.doors.documents import applied_document
from headrace.model.errors import UsageError
from headrace.model.options import ApplyWishes, SitesMode
from tests.running.running_project import until

SMALL = """
project: small
sites: {us: {cpu: 0.34 $/core-hour}, eu: {cpu: 0.34 $/core-hour}}
links: [{between: [us, eu], bandwidth: 100 Mbps, latency: 10 ms}]
sources:
  users:
    {kind: table, at: us, key: [uid], rows: 100, rate: 1 /s, columns: {uid: bigint, name: {type: string, width: 8}}}
contracts:
  kept: {view: named, at: eu, freshness: 4 s}
  whole: {view: named, at: eu, freshness: 40 s, refresh: full}
  either: {view: named, at: us, freshness: 40 s, refresh: auto}
"""

KEPT = {"wall", "nearby", "busy", "visitors", "visitors_eu", "pictures", "talkers"}
FEED = {"home/newest", "home/pairs", "home/stored"}


def prepare_apart(folder: Path, sites: SitesMode = SitesMode.PROCESSES) -> Prepared:
    return prepare(folder, {}, ApplyWishes(), AskSources.DECLARED, sites)


def sample(name: str) -> Path:
    found = sample_project(name)
    assert found is not None
    return found


def refused(prepared: Prepared) -> dict[str, str]:
    return {one.contract: one.detail for one in prepared.rejected}


@pytest.mark.parametrize("sites", [SitesMode.PROCESSES, SitesMode.AGENTS])
def test_a_feed_is_planned_as_inside_one_process(sites: SitesMode) -> None:
    inside, apart = prepare_apart(sample("apps"), SitesMode.INSIDE), prepare_apart(sample("apps"), sites)
    assert [(one.feed, one.reason) for one in apart.plan.feeds] == [("home", None)]
    assert apart.plan.contracts == inside.plan.contracts and apart.left_out == ()
    assert {one.contract for one in apart.plan.contracts} == KEPT | FEED
    assert refused(apart).keys() == {"adverts"}, "as it is inside one process"


def test_what_needs_rows_of_a_template_is_refused_by_name(tmp_path: Path) -> None:
    project = tmp_path / "friends"
    shutil.copytree(sample("friends"), project, ignore=shutil.ignore_patterns(".headrace"))
    file = project / "headrace.yml"
    (project / "views" / "near.sql").write_text(
        "SELECT CAST(a AS string) AS a, CAST(b AS string) AS b FROM nearby_friends"
    )
    follows = "{view: near, consumer: a, producer: b}"
    feed = f"feeds:\n  seen: {{at: core, events: api, follows: {follows}}}\n"
    file.write_text(f"{file.read_text()}\n{feed}")
    apart = prepare_apart(project)
    document = applied_document(Applied(apart, done=False))
    assert [one["message"] for one in document["left_out"]] == [
        'template "nearby" is left out: templates run with `--sites inside` alone',
        'feed "seen" is left out: it has rows of template "nearby"',
    ]
    assert all("--sites inside" in one["hint"] for one in document["left_out"])
    assert apart.plan.feeds == ()


def test_a_contract_for_rows_of_a_template_is_refused_by_name() -> None:
    apart = prepare_apart(sample("friends"))
    assert [one.message for one in apart.left_out] == [
        'template "nearby" is left out: templates run with `--sites inside` alone'
    ]
    assert apart.plan.contracts == () and apart.plan.templates == ()
    assert "rows of template" in refused(apart)["nearby"] and "`--sites inside` alone" in refused(apart)["nearby"]


def test_a_view_in_full_is_planned_as_inside_one_process(tmp_path: Path) -> None:
    (tmp_path / "views").mkdir()
    (tmp_path / "views" / "named.sql").write_text("SELECT name, count(*) AS n FROM users GROUP BY name")
    (tmp_path / "headrace.yml").write_text(SMALL)
    inside, apart = prepare_apart(tmp_path, SitesMode.INSIDE), prepare_apart(tmp_path)
    assert {one.contract for one in apart.plan.contracts} == {"kept", "whole", "either"}
    assert refused(apart) == {} and apart.left_out == ()
    assert any(edge.is_recomputed for edge in apart.plan.graph.edges.values())
    assert apart.plan.contracts == inside.plan.contracts and apart.plan.graph == inside.plan.graph


SOCIAL = """
project: social
sites: {us: {}, eu: {}, asia: {}}
links: [{between: [us, eu], bandwidth: 100 Mbps, latency: 10 ms}]
sources:
  notes: {kind: table, at: eu, key: nid, columns: {nid: bigint, author: string, at: timestamp}, rows: 100, rate: 1}
feeds:
  home: {at: us, events: {source: notes, producer: author, time: at}, follows: api, reads: 1 /s}
  wall: {at: us, events: api, follows: api, reads: 1 /s}
"""


def test_feeds_of_a_lost_site_and_of_its_sources_end(tmp_path: Path) -> None:
    (tmp_path / "headrace.yml").write_text(SOCIAL)
    declared = planned_catalogue(tmp_path, {})
    left = {site: set(leave_out_sites(declared, {site}).feeds) for site in ("us", "eu", "asia")}
    assert left == {"us": set(), "eu": {"wall"}, "asia": {"home", "wall"}}


def test_a_feed_is_not_moved_away_from_what_people_posted(tmp_path: Path) -> None:
    file = tmp_path / "headrace.yml"
    file.write_text(SOCIAL)
    before = prepare_apart(tmp_path).plan
    refuse_moved_posts(None, before)
    refuse_moved_posts(before, before)
    for name, what in (("home", "follows"), ("wall", "events")):
        file.write_text(SOCIAL.replace(f"{name}: {{at: us", f"{name}: {{at: eu"))
        with pytest.raises(UsageError, match=f'feed "{name}" cannot be moved to site "eu": its {what} are'):
            refuse_moved_posts(before, prepare_apart(tmp_path).plan)


@pytest.mark.long
@pytest.mark.live
@pytest.mark.timeout(900)
def test_the_sample_apps_run_with_a_process_for_each_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "apps"
    shutil.copytree(sample("apps"), project, ignore=shutil.ignore_patterns(".headrace"))
    databases = SampleDatabases(tmp_path / "postgres", project / "databases")
    for name, value in databases.start().items():
        monkeypatch.setenv(name, value)

    def run(*words: str, status: int = 0) -> str:
        command = [sys.executable, "-P", "-m", "headrace", *words]
        ended = subprocess.run(command, text=True, capture_output=True, timeout=400, check=False)
        assert ended.returncode == status, f"{words}: {ended.stdout}{ended.stderr}"
        return ended.stdout

    try:
        said = run("up", str(project), "--sites=processes", "--engine=local", "--detach")
        assert "left out" not in said
        found = json.loads(run("status", str(project), "--json"))
        assert {one["id"] for one in found["sites"]} == {"us", "eu", "asia"}
        assert len({one["pid"] for one in found["sites"]}) == 3
        load = databases.start_load()
        until(lambda: load.rows > 50, "the apps have written")
        load.stop()
        compared = json.loads(run("audit", str(project), "--recompute", "--json"))["recompute"]
        assert {one["contract"] for one in compared if one["equal"]} == KEPT | FEED
    finally:
        run("down", str(project))
        databases.stop()
