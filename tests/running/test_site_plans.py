"""Sites as processes go over to another plan one by one: what is old stays until nobody reads it any more."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from headrace.site.folder import Folder
from headrace.site.reading import open_reader
from headrace.site.site_folders import site_folder
from tests.running.running_project import RunningProject, until
from tests.running.test_site_processes import contract, pid_of


@pytest.fixture
def apart(project: RunningProject) -> Iterator[RunningProject]:
    project.declare("named", "counts", "by_pid")
    project.document("up", "--detach", "--engine=local", "--sites=processes")
    try:
        yield project
    finally:
        project.headrace("down")


@contextmanager
def standing_still(*pids: int) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def copies_given(project: RunningProject, giver: str, reader: str) -> list[str]:
    """What a site knows that another one has of it."""
    with closing(site_folder(Folder(project.folder), giver).ledger()) as ledger:
        return sorted(name for name, log in ledger.logs().items() if log.site == reader)


def rows_at(project: RunningProject, site: str, view: str) -> list[tuple[object, ...]]:
    """The rows of a view as a site has them, whatever plan it runs."""
    reader = open_reader(site_folder(Folder(project.folder), site))
    try:
        return sorted(tuple(row.values()) for row in reader.rows(view).rows.to_pylist())
    finally:
        reader.ledger.close()


def told_to_load_again(project: RunningProject, site: str) -> list[str]:
    said = (site_folder(Folder(project.folder), site).root / "service.log").read_text().splitlines()
    return [line for line in said if "to be loaded again" in line]


@pytest.mark.long
def test_a_site_that_is_cut_off_keeps_its_plan_and_what_it_reads_is_kept_for_it(apart: RunningProject) -> None:
    apart.until_equal("named", "counts")
    given = copies_given(apart, "us", "eu")
    assert given, "eu reads rows of us"
    with standing_still(pid_of(apart, "eu")):
        apart.declare("by_pid", more="  some_users: {view: some_users, at: us, freshness: 4 s}\n")
        began = time.monotonic()
        applied = apart.document("apply")
        assert time.monotonic() - began < 30.0, "nobody waits for a site that does not answer"
        assert applied["applied"]
        assert 'site "eu" does not answer' in applied["failing"]["by_pid"]
        until(lambda: contract(apart, "some_users")["state"] == "kept", "the contract of a site that answers is kept")
        until(lambda: any('"eu" does not answer' in one["what"] for one in troubles(apart)), "it is told")
        apart.change_something(1500)
        assert copies_given(apart, "us", "eu") == given, "what the cut-off site reads is kept for it"
        held = apart.process()["pid"]
        os.kill(held, signal.SIGSTOP)
    try:  # eu is back, and nobody tells it of the other plan yet
        apart.change_something(1501)
        until(lambda: rows_at(apart, "eu", "named") == apart.expected("named"), "the earlier plan goes on at eu")
    finally:
        os.kill(held, signal.SIGCONT)
    until(lambda: not copies_given(apart, "us", "eu"), "what nobody reads any more goes")
    assert {one["id"] for one in apart.document("status")["contracts"]} == {"by_pid", "some_users"}
    assert told_to_load_again(apart, "eu") == [] and told_to_load_again(apart, "us") == []
    until(lambda: troubles(apart) == [], "all is well")


def troubles(project: RunningProject) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = project.document("status")["troubles"]
    return found


@pytest.mark.long
def test_new_contracts_do_not_wait_for_those_that_need_a_site_which_does_not_answer(apart: RunningProject) -> None:
    apart.until_equal("named", "counts")
    with standing_still(pid_of(apart, "us")):
        until(lambda: contract(apart, "named")["state"] == "late", "it is known that us does not answer")
        (apart.folder / "views" / "bodies.sql").write_text("SELECT body, count(*) AS n FROM posts GROUP BY body")
        more = "  bodies: {view: bodies, at: eu, freshness: 10 s}\n"
        apart.declare("named", "counts", "by_pid", "by_body", more=more)
        began = time.monotonic()
        assert apart.document("apply")["applied"]
        assert time.monotonic() - began < 45.0
        until(lambda: contract(apart, "bodies")["state"] == "kept", "what needs nothing of us is kept")
        assert rows_at(apart, "eu", "named"), "what ran goes on"
    apart.change_something(1600)
    apart.until_equal("named", "counts", "by_body")


@pytest.mark.long
def test_a_contract_that_cannot_be_made_in_the_new_way_yet_goes_on_in_the_old_one(apart: RunningProject) -> None:
    """Countries are counted in the US, until whole users are in the EU as well and can be counted there."""
    views = apart.folder / "views"
    (views / "countries.sql").write_text("SELECT country, count(*) AS n FROM users GROUP BY country")
    (views / "all_users.sql").write_text("SELECT uid, name, country FROM users")
    (views / "bodies.sql").write_text("SELECT body, count(*) AS n FROM posts GROUP BY body")
    countries = "  countries: {view: countries, at: eu, freshness: 10 s}\n"
    apart.declare("by_pid", more=countries)
    assert not apart.document("apply")["failing"]
    until(lambda: contract(apart, "countries")["state"] == "kept", "it is made of what us has counted")
    counted = rows_at(apart, "eu", "countries")
    with standing_still(pid_of(apart, "us")):
        others = ["  all_users: {view: all_users, at: eu, freshness: 10 s}\n"]
        others += ["  bodies: {view: bodies, at: eu, freshness: 10 s}\n"]
        apart.declare("by_pid", more="".join((countries, *others)))
        applied = apart.document("apply", "--replan")
        assert any(step["do"] == "rewire" for step in applied["steps"]), "or nothing is made in another way"
        assert 'site "us" does not answer' in applied["held"]["countries"], applied
        until(lambda: contract(apart, "bodies")["state"] == "kept", "what needs nothing of us is kept")
        assert rows_at(apart, "eu", "countries") == counted, "what ran goes on"
        told = [one["what"] for one in troubles(apart)]
        assert any('"countries" goes on as it was made before' in one for one in told), told
        os.kill(pid_of(apart, "eu"), signal.SIGKILL)
        until(lambda: contract(apart, "bodies")["state"] == "kept", "it is started again")
        assert rows_at(apart, "eu", "countries") == counted, "also after a restart"
    apart.us.execute("UPDATE users SET country = 'elsewhere' WHERE uid < 5")
    until(lambda: ("elsewhere", 5) in rows_at(apart, "eu", "countries"), "it is kept again")
    until(lambda: troubles(apart) == [], "it has gone over")
    until(lambda: len(rows_at(apart, "eu", "all_users")) == 20, "what is new is loaded")
    assert told_to_load_again(apart, "eu") == []
