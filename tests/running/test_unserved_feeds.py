"""A site that was given its first feed while it ran has no feed servers, and that is told."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from headrace.app.running import UpSettings
from headrace.app.site_processes import Coordinator
from headrace.connect.ledger.holder import this_holder
from headrace.model.errors import UsageError
from headrace.model.options import ApplyWishes, SitesMode
from headrace.site.feeds.servers import FeedServerSettings
from headrace.site.folder import Folder
from headrace.site.process import SERVICE, this_process, write_process
from headrace.site.site_folders import note_sites, site_folder
from tests.running.test_apart import SOCIAL, prepare_apart
from tests.running.test_site_status_files import STATUS

SERVER = {"pid": 7, "port": 8080, "state": "running", "restarts": 0, "streams": 0}


def coordinate(project: Path, servers: FeedServerSettings | None) -> Coordinator:
    """Sites us and eu run; feeds are at us."""
    (project / "headrace.yml").write_text(SOCIAL)
    folder, plan = Folder(project), prepare_apart(project).plan
    folder.prepare()
    note_sites(folder, ("us", "eu"), SitesMode.PROCESSES)
    for site in ("us", "eu"):
        here = site_folder(folder, site)
        here.prepare()
        ledger = here.ledger()
        write_process(here, this_process(ledger.acquire(SERVICE, this_holder(), 600.0), 1, "token", here))
        ledger.close()
        say(folder, site, [])
    return Coordinator(folder, {}, UpSettings(0, None, feed_servers=servers, sites=SitesMode.PROCESSES), plan)


def say(folder: Folder, site: str, servers: list[dict[str, object]]) -> None:
    about = {**STATUS["service"], "state": "running", "pid": os.getpid(), "written": time.time() + 60}
    status = {**STATUS, "service": {**about, "feed_servers": servers}}
    site_folder(folder, site).write_json("status.json", status)


def troubles(host: Coordinator) -> list[str]:
    return [one["what"] for one in host.status()["troubles"]]


def test_a_site_that_keeps_feeds_without_feed_servers_is_named(tmp_path: Path) -> None:
    host = coordinate(tmp_path, FeedServerSettings(2))
    (told,) = host.status()["troubles"]
    assert told["what"].startswith('site "us" keeps feeds and has no feed servers')
    assert f"end process {os.getpid()}" in told["hint"]
    assert host.status()["troubles"] == [told], "since it was seen first"
    say(host.folder, "us", [SERVER])
    assert troubles(host) == []


def test_whoever_asked_for_no_feed_servers_lacks_none(tmp_path: Path) -> None:
    assert troubles(coordinate(tmp_path, None)) == []


def test_feeds_at_a_second_site_are_refused_if_they_were_to_share_a_port(tmp_path: Path) -> None:
    host = coordinate(tmp_path, FeedServerSettings(2, port=8080))
    (tmp_path / "headrace.yml").write_text(SOCIAL + "  more: {at: eu, events: api, follows: api, reads: 1 /s}\n")
    with pytest.raises(UsageError, match="feeds are kept at eu, us, whose feed servers cannot share port 8080"):
        host.apply(ApplyWishes(dry_run=True))
