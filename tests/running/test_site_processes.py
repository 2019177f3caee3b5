"""Each site as a process of its own: views that need rows of both, through kills of any of the processes."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headrace.run.capture.spool import SPOOL
from headrace.site.folder import Folder
from headrace.site.process import running_process
from headrace.site.site_folders import site_folder
from tests.running.running_project import RunningProject, until

SPARK = 'engine: {kind: spark, master: "local[1]", memory: 600 MB}'
"""Of a site whose project has none."""


@pytest.fixture
def apart(project: RunningProject) -> Iterator[RunningProject]:
    project.declare("named", "counts", "by_pid")
    project.document("up", "--detach", "--engine=local", "--sites=processes")
    try:
        yield project
    finally:
        project.headrace("down")


def sites(project: RunningProject) -> dict[str, dict[str, Any]]:
    return {one["id"]: one for one in project.document("status")["sites"]}


def pid_of(project: RunningProject, site: str) -> int:
    process = running_process(site_folder(Folder(project.folder), site))
    assert process is not None
    return process.pid


def opened_by(pid: int) -> set[str]:
    found = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.add(str(link.readlink()))
        except OSError:
            continue
    return found


def test_views_of_two_sites_are_kept_by_a_process_for_each(apart: RunningProject) -> None:
    found = sites(apart)
    assert {one["state"] for one in found.values()} == {"running"}
    assert len({one["pid"] for one in found.values()}) == 2
    apart.until_equal("named", "counts")
    for number in range(1000, 1010):
        apart.change_something(number)
    apart.until_equal("named", "counts")
    apart.change_something(1010)
    compared = apart.document("audit", "--recompute")["recompute"]
    assert [(one["contract"], one["equal"]) for one in compared] == [(n, True) for n in ("by_pid", "counts", "named")]
    subjects = {one["name"] for one in apart.document("status")["checks"]["subjects"]}
    assert subjects == {"users", "posts", "named", "counts", "by_pid"}, "each site checks its own in the background"
    contracts = {one["id"]: one["site"] for one in apart.document("status")["contracts"]}
    assert contracts == {"named": "eu", "counts": "us", "by_pid": "eu"}
    check_reads_at_one_time(apart)
    for site, one in found.items():
        others = [str(site_folder(Folder(apart.folder), other).root) for other in found if other != site]
        assert not [file for file in opened_by(one["pid"]) if file.startswith(tuple(others))], site


def check_reads_at_one_time(apart: RunningProject) -> None:
    """Views of different sites at one time are those of the same transactions, whatever came since."""
    apart.until_equal("named", "counts")
    named, counts = (apart.document("show", view) for view in ("named", "counts"))
    at = min(named["as_of"], counts["as_of"])
    apart.change_something(1020)
    apart.until_equal("named", "counts")
    rows = [apart.document("show", view, f"--at={at}") for view in ("named", "counts")]
    assert [one["as_of"] for one in rows] == [at, at]
    assert sum(n for _, n, _ in rows[1]["rows"]) == len(rows[0]["rows"]), "posts with a user, in both"
    assert "are known up to" in apart.headrace("show", "named", "--at=2999-01-01", status=2)
    assert "not at 1999-01-01T00:00:00.000000Z any more" in apart.headrace(
        "show", "counts", "--at=1999-01-01", status=2
    )


@pytest.mark.parametrize("site", ["eu", pytest.param("us", marks=pytest.mark.long)])
def test_nothing_is_lost_when_a_site_is_killed(apart: RunningProject, site: str) -> None:
    apart.until_equal("named", "counts")
    killed = pid_of(apart, site)
    os.kill(killed, signal.SIGKILL)
    apart.change_something(1200)
    until(lambda: sites(apart)[site]["pid"] not in (None, killed), "it was started again")
    apart.change_something(1201)
    apart.until_equal("named", "counts")


def test_a_site_that_stands_still_delays_only_those_who_need_its_rows(apart: RunningProject) -> None:
    apart.until_equal("named", "counts")
    held = pid_of(apart, "us")
    os.kill(held, signal.SIGSTOP)
    try:
        until(lambda: contract(apart, "named")["state"] == "late", "named is late, because users do not come")
        until(lambda: 'site "us" has not answered' in contract(apart, "named")["reason"], "the reason is told")
        before = contract(apart, "by_pid")["violations"]
        apart.change_something(1250)
        until(lambda: [1250] in [row[:1] for row in apart.document("show", "by_pid")["rows"]], "by_pid goes on")
        assert contract(apart, "by_pid")["state"] == "kept"
        assert contract(apart, "by_pid")["violations"] == before
        links = {(one["from"], one["to"]): one["state"] for one in apart.document("status")["links"]}
        assert links["us", "eu"] == "cut"
        assert "us to eu: cut off from us since" in apart.headrace("status")
    finally:
        os.kill(held, signal.SIGCONT)
    apart.change_something(1251)
    apart.until_equal("named", "counts")
    until(lambda: contract(apart, "named")["state"] == "kept", "named is kept again")


def contract(project: RunningProject, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in project.document("status")["contracts"] if one["id"] == name)
    return found


def test_sites_go_on_without_the_process_that_coordinates_them(apart: RunningProject) -> None:
    before = {site: pid_of(apart, site) for site in ("us", "eu")}
    os.kill(apart.process()["pid"], signal.SIGKILL)
    apart.change_something(1300)
    apart.until_equal("named", "counts")
    apart.document("up", "--detach", "--engine=local", "--sites=processes")
    assert {site: pid_of(apart, site) for site in ("us", "eu")} == before, "those that run are found"
    apart.change_something(1301)
    apart.until_equal("named", "counts")


def test_another_plan_is_applied_at_all_sites(apart: RunningProject) -> None:
    apart.declare("named", "counts", "by_body")
    applied = apart.document("apply")
    assert applied["applied"] and not applied["failing"]
    apart.change_something(1400)
    apart.until_equal("named", "counts", "by_body")
    assert {one["id"] for one in apart.document("status")["contracts"]} == {"named", "counts", "by_body"}


def test_sites_end_although_nobody_coordinates_them(apart: RunningProject) -> None:
    os.kill(apart.process()["pid"], signal.SIGKILL)
    apart.headrace("down")
    assert [running_process(site_folder(Folder(apart.folder), site)) for site in ("us", "eu")] == [None, None]


def test_a_bad_row_of_another_site_is_named_and_the_view_resumes(apart: RunningProject) -> None:
    (apart.folder / "views" / "risky.sql").write_text("SELECT uid, 100 / (length(name) - 3) AS x FROM users")
    apart.declare("named", "counts", more="  risky: {view: risky, at: eu, freshness: 4 s}\n")
    assert apart.document("apply")["applied"]
    before = len(apart.document("show", "risky")["rows"])
    apart.us.execute("INSERT INTO users VALUES (5000, 'abc', 'c1')")
    until(lambda: contract(apart, "risky")["state"] == "failing", "it is failing")
    told = [contract(apart, "risky")["reason"], *(one["what"] for one in apart.document("status")["troubles"])]
    assert any("division by zero" in one.lower() or "divide by zero" in one.lower() for one in told), told
    apart.us.execute("UPDATE users SET name = 'abcd' WHERE uid = 5000")
    until(lambda: len(apart.document("show", "risky")["rows"]) == before + 1, "it resumes")
    until(lambda: contract(apart, "risky")["state"] == "kept", "it is kept again")
    apart.until_equal("named", "counts")


def test_state_of_one_way_is_not_taken_for_that_of_the_other(apart: RunningProject) -> None:
    apart.headrace("down")
    assert "have run as processes" in apart.headrace("up", "--engine=local", status=2)
    apart.document("up", "--detach", "--engine=local", "--sites=processes")


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def go_on(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_views_are_right_after_kills_and_standstills_under_load(apart: RunningProject) -> None:
    chance, number = random.Random(7), 2000
    for _ in range(12):
        site = chance.choice(["us", "eu"])
        process = running_process(site_folder(Folder(apart.folder), site))
        victims = [] if process is None else [process.pid, *children_of(process.pid)]
        coordinator = running_process(Folder(apart.folder))
        victims += [] if coordinator is None else [coordinator.pid]
        victim = chance.choice(victims)
        if chance.random() < 0.3:
            os.kill(victim, signal.SIGSTOP)
            threading.Timer(8.0, partial(go_on, victim)).start()
        else:
            os.kill(victim, signal.SIGKILL)
        for _ in range(20):
            number += 1
            apart.change_something(number)
            time.sleep(0.2)
        if running_process(Folder(apart.folder)) is None:
            apart.document("up", "--detach", "--engine=local", "--sites=processes")
    time.sleep(9.0)
    apart.until_equal("named", "counts")
    compared = apart.document("audit", "--recompute")["recompute"]
    assert all(one["equal"] for one in compared) and len(compared) == 3, compared


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_site_with_spark_works_with_sites_without_through_kills(project: RunningProject) -> None:
    project.declare("named", "counts", "by_pid", more="engine: {kind: local}\n")
    file = project.folder / "headrace.yml"
    file.write_text(file.read_text().replace("us: {cpu: 0.34 $/core-hour}", f"us: {{cpu: 0.34 $/core-hour, {SPARK}}}"))
    project.document("up", "--detach", "--sites=processes")
    try:
        project.until_equal("named", "counts")
        java = {site: find_java(pid_of(project, site)) for site in ("us", "eu")}
        assert len(java["us"]) == 1 and not java["eu"], java
        command = Path(f"/proc/{java['us'][0]}/cmdline").read_text().split("\0")
        assert f"-Xmx{600_000_000 // 1024}k" in command, command
        for number in range(3000, 3003):
            killed = pid_of(project, "us")
            victims = [killed, *find_java(killed)] if number != 3001 else find_java(killed)
            for pid in victims:
                os.kill(pid, signal.SIGKILL)
            for step in range(10):
                project.change_something(number + 100 * step)
            if number != 3001:
                until(lambda killed=killed: sites(project)["us"]["pid"] not in (None, killed), "it was started again")  # type: ignore[misc]
                until(lambda pid=victims[1]: not Path(f"/proc/{pid}").exists(), "its Java is gone")  # type: ignore[misc]
            project.until_equal("named", "counts")
        until(lambda: sites(project)["us"]["state"] == "running", "it runs")
        until(lambda: len(find_java(pid_of(project, "us"))) == 1, "it has one Java again")
        compared = project.document("audit", "--recompute")["recompute"]
        assert {one["contract"] for one in compared if one["equal"]} == {"named", "counts", "by_pid"}, compared
    finally:
        project.headrace("down")
    assert not [pid for pids in java.values() for pid in pids if Path(f"/proc/{pid}").exists()]


def find_java(pid: int) -> list[int]:
    """The Java processes that a process, or one below it, has started."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # ended meanwhile
            for child in map(int, (task / "children").read_text().split()):
                is_java = Path(f"/proc/{child}/comm").read_text() == "java\n"
                found += [child] if is_java else find_java(child)
    return found


@pytest.mark.long
def test_a_site_that_is_told_to_end_first_gives_others_what_they_lack(project: RunningProject) -> None:
    """Nothing of this would be pushed for minutes."""
    project.declare("named", "counts")
    file = project.folder / "headrace.yml"
    file.write_text(file.read_text().replace("freshness: 4 s", "freshness: 20 min"))
    project.document("up", "--detach", "--engine=local", "--sites=processes")
    try:
        for number, site in enumerate(("us", "eu")):
            project.change_something(4000 + number)
            known = time.time_ns() // 1000 + 6_000_000  # sites hear of each other every two seconds
            until(lambda t=known: all(captured_upto(project, one) > t for one in ("us", "eu")), "all know it")  # type: ignore[misc]
            os.kill(pid_of(project, site), signal.SIGTERM)
            project.until_equal("named", "counts")
    finally:
        project.headrace("down")


def captured_upto(project: RunningProject, site: str) -> int:
    with closing(site_folder(Folder(project.folder), site).ledger()) as ledger:
        return min(t for name, t in ledger.times().items() if name.startswith(SPOOL))
