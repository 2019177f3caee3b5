"""The store of a feed that is removed or moved is dropped, through a crash in between; nothing else is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headrace.app.preparing import Applied, prepare
from headrace.connect.postgres.feed_target import PostgresFeedTarget
from headrace.coordinate.perform import apply_plan
from headrace.doors.documents import applied_document
from headrace.model.event_wire import EventsAsked
from headrace.model.events import Event
from headrace.model.notes import KeptFeedStore, read_notes
from headrace.model.options import ApplyWishes
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform
from headrace.site.folder import Folder
from headrace.site.service import Service
from headrace.site.troubles import WITHDRAWAL
from tests.running.running_project import until

PROJECT = """
project: social
sites: {{us: {{}}}}
feeds:
  wall: {{events: api, follows: api, store: {{postgres: {{dsn: "${{WALL}}"}}}}}}
{more}
"""
HOME = '  home: {{events: api, follows: api, store: {{postgres: {{dsn: "${{{variable}}}"}}}}}}'


class Project:
    def __init__(self, folder: Path, dsn: str) -> None:
        self.folder, self.dsn = Folder(folder), dsn
        self.environment = {"WALL": dsn, "HOME_DSN": dsn, "AWAY": "host=127.0.0.1 port=1 dbname=x"}

    def write(self, variable: str | None) -> None:
        more = "" if variable is None else HOME.format(variable=variable)
        (self.folder.project / "headrace.yml").write_text(PROJECT.format(more=more))

    @contextmanager
    def running(self) -> Iterator[Service]:
        service = Service(self.folder, self.environment, HereRunner(perform), in_processes=False)
        service.open()
        try:
            self.apply(service)
            yield service
        finally:
            service.close()

    def apply(self, service: Service) -> None:
        loading = apply_plan(service, prepare(self.folder.project, self.environment, ApplyWishes()).plan)
        assert loading.done.wait(60) and loading.error is None

    @property
    def tables(self) -> set[str]:
        asked = "SELECT tablename FROM pg_tables WHERE schemaname = 'headrace_feeds' AND tablename <> 'feeds'"
        with psycopg.connect(self.dsn) as session:
            return {row[0].rpartition("_")[0] for row in session.execute(asked)}


@pytest.fixture
def project(tmp_path: Path, postgres_dsn: str) -> Project:
    with closing(PostgresFeedTarget(postgres_dsn, "others", "another project", "m").open_store(1)) as others:
        others.take_over()
    return Project(tmp_path, postgres_dsn)


def troubles_of(service: Service) -> list[str]:
    return [one.what for key, one in service.troubles.all().items() if key.startswith(WITHDRAWAL)]


def test_the_store_of_a_removed_feed_is_dropped_and_no_other(project: Project) -> None:
    project.write("HOME_DSN")
    with project.running() as service:
        until(lambda: project.tables == {"home", "wall", "others"}, "stores are made")
        project.write(None)
        project.apply(service)
        until(lambda: project.tables == {"wall", "others"}, "what was removed is dropped")
        until(lambda: [one.feed for one in read_notes(service.ledger, KeptFeedStore).values()] == ["wall"], "forgotten")


def test_a_store_that_could_not_be_dropped_is_told_of_and_dropped_by_the_next_service(
    project: Project, monkeypatch: Any
) -> None:
    project.write("HOME_DSN")
    with project.running() as service:
        until(lambda: project.tables == {"home", "wall", "others"}, "stores are made")
        project.environment["HOME_DSN"] = project.environment["AWAY"]
        service.environment = project.environment
        project.write(None)
        project.apply(service)
        until(lambda: any('feed "home"' in what for what in troubles_of(service)), "it says that it cannot be reached")
        assert project.tables == {"home", "wall", "others"}
    project.environment["HOME_DSN"] = project.dsn
    with project.running():
        until(lambda: project.tables == {"wall", "others"}, "the next service drops it")


def test_a_store_that_moved_to_the_projects_own_is_dropped_where_it_was(project: Project) -> None:
    project.write("HOME_DSN")
    with project.running() as service:
        until(lambda: project.tables == {"home", "wall", "others"}, "stores are made")
        project.write(None)
        file = project.folder.project / "headrace.yml"
        file.write_text(f"{file.read_text()}  home: {{events: api, follows: api}}\n")
        project.apply(service)
        until(lambda: project.tables == {"wall", "others"}, "the old one is gone")
        own = Project(project.folder.project, service.feeds.find_own_dsn())
        until(lambda: own.tables == {"home"}, "it is kept at the new place")


def test_a_store_with_another_address_is_left_since_it_may_be_the_same_place(project: Project) -> None:
    """Whom people have muted is nowhere else."""
    project.write("HOME_DSN")
    with project.running() as service:
        until(lambda: project.tables == {"home", "wall", "others"}, "stores are made")
        with closing(PostgresFeedTarget(project.dsn, "home", "social", "m").open_reader()) as reader:
            reader.hide("anna", "bob", "mute")
            project.environment["NEW"] = f"{project.dsn} connect_timeout=9"
            service.environment = project.environment
            project.write("NEW")
            project.apply(service)
            until(lambda: len(read_notes(service.ledger, KeptFeedStore)) == 2, "the earlier address is forgotten")
            found = service.feeds.find("home")
            assert found is not None and found[0].address == project.environment["NEW"]
            assert project.tables == {"home", "wall", "others"}
            assert reader.read_hidden("anna") == [("bob", "mute")]
        until(lambda: left_of(service) != [], "an event tells of it")
        (left,) = left_of(service)
        assert left.text == 'the earlier postgres store of feed "home" in ${HOME_DSN} is left as it is'
        assert left.reason is not None and "drop tables headrace_feeds.home_*" in left.reason


def left_of(service: Service) -> list[Event]:
    return [one.event for one in service.ledger.events(EventsAsked(limit=1000)) if one.event.kind == "store left"]


def test_a_running_feed_whose_new_terms_are_refused_goes_on_as_it_was(project: Project) -> None:
    """What people have posted to it is nowhere else."""
    project.write("HOME_DSN")
    with project.running() as service:
        file = project.folder.project / "headrace.yml"
        file.write_text(file.read_text().replace("follows: api", "follows: api, freshness: 10 ms"))
        prepared = prepare(project.folder.project, project.environment, ApplyWishes())
        refused = [(one.feed, one.goes_on) for one in prepared.plan.feeds if one.reason is not None]
        assert sorted(refused) == [("home", True), ("wall", True)]
        assert {one.contract for one in prepared.plan.contracts} >= {"home/stored", "wall/stored"}
        assert applied_document(Applied(prepared, done=False))["refused_feeds"][0]["stays"]
        assert prepared.change is not None and prepared.change.is_nothing and service.is_running


def test_what_a_removed_feed_had_in_the_projects_own_store_is_dropped(project: Project) -> None:
    file = project.folder.project / "headrace.yml"
    project.write(None)
    with_home = f"{file.read_text()}  home: {{events: api, follows: api}}\n"
    file.write_text(with_home)
    with project.running() as service:
        own = Project(project.folder.project, service.feeds.find_own_dsn())
        until(lambda: own.tables == {"home"}, "its store is made")
        project.write(None)
        project.apply(service)
        until(lambda: own.tables == set(), "it is dropped")
