"""A site whose status cannot be read is as one that has said nothing: all others are seen, and moved, as before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.coordinate.agent_reports import AgentReport, AwaitedSites, merge_reports
from headrace.coordinate.site_statuses import find_sites_status, is_site_status
from headrace.model.joining import JoinedAgent
from headrace.model.options import SitesMode
from headrace.site.folder import Folder
from headrace.site.site_folders import note_sites, site_folder

COUNTS = dict.fromkeys(("pushes", "pushed_rows", "push_seconds", "upkeep_seconds"), 0)
STATUS: dict[str, Any] = {
    **{name: [] for name in ("contracts", "troubles", "slots", "feeds", "templates", "moves", "links")},
    "files": {"count": 3, "bytes": 5, "without_checksums": 0, "checked_within_s": 1.0},
    "checks": {},
    "service": {"state": "stopped", "pid": 7, "written": 1.0, "error": None, "engine": {"state": "stopped"}, **COUNTS},
}
RUBBISH = [
    "",
    "not JSON",
    "[]",
    "17",
    '{"service": 3, "contracts": []}',
    '{"service": {}, "contracts": []}',
    json.dumps({**STATUS, "service": {**STATUS["service"], "state": "running", "written": "never"}}),
    json.dumps({name: one for name, one in STATUS.items() if name != "links"}),
    json.dumps({**STATUS, "contracts": 5}),
    json.dumps({**STATUS, "contracts": [5]}),
    json.dumps({**STATUS, "contracts": [{"id": "counts"}]}),
    json.dumps({**STATUS, "links": [{"from": "us"}]}),
    json.dumps({**STATUS, "checks": {"pass_s": 1.0}}),
    json.dumps({**STATUS, "files": {**STATUS["files"], "bytes": "many"}}),
]


@pytest.mark.parametrize("rubbish", RUBBISH)
def test_rubbish_in_one_status_hides_no_other_site(tmp_path: Path, rubbish: str) -> None:
    folder = Folder(tmp_path)
    folder.prepare()
    note_sites(folder, ("us", "eu"), SitesMode.PROCESSES)
    for site, text in {"us": json.dumps(STATUS), "eu": rubbish}.items():
        site_folder(folder, site).prepare()
        (site_folder(folder, site).root / "status.json").write_text(text)
    found = find_sites_status(folder, {"state": "running", "pid": 1})
    assert [(one["id"], one["state"]) for one in found["sites"]] == [("us", "stopped"), ("eu", "starting")]
    assert found["files"]["count"] == 3 and found["service"]["phase"] == "waiting for eu"


def test_a_site_elsewhere_that_says_something_else_hides_no_other_one() -> None:
    agents = {site: JoinedAgent("instance", "10.0.0.2:7433", "1.0") for site in ("us", "eu")}
    reports = {
        "us": AgentReport({"pid": 1, "status": STATUS}, 9.0),
        "eu": AgentReport({"pid": 2, "status": {"x": 1}}, 9.0),
    }
    found = merge_reports(AwaitedSites(("us", "eu"), agents, 1.0), reports, {}, 10.0)
    assert [(one["id"], one["state"]) for one in found["sites"]] == [("us", "stopped"), ("eu", "starting")]


def test_what_a_site_says_is_its_status() -> None:
    assert is_site_status(STATUS)
