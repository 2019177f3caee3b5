"""Views that are refreshed in full, of sites that are processes of their own: through kills of a site and of whoever
coordinates.
"""

from __future__ import annotations

import os
import signal

import pytest

from headrace.model.plan import Plan
from headrace.site.folder import Folder
from tests.running.running_project import RunningProject, until
from tests.running.test_site_processes import pid_of, sites

UP = ("--detach", "--engine=local", "--sites=processes")
PER_NAME = "SELECT country, count(*) AS n FROM users GROUP BY country ORDER BY country"
FULL = """  named: {view: named, at: eu, freshness: 4 s, refresh: full,
    deliver: {postgres: {dsn: "${EU_DSN}", table: named_copy}}}
  counts: {view: counts, at: us, freshness: 4 s, refresh: full}
  countries: {view: countries, at: eu, freshness: 4 s, refresh: full}
"""


def countries(project: RunningProject) -> list[tuple[object, ...]]:
    return sorted(project.us.execute(PER_NAME.encode()))


def until_equal(project: RunningProject) -> None:
    project.until_equal("named", "counts")
    until(lambda: project.rows("countries") == countries(project), "countries are as their query")


def test_views_in_full_are_kept_where_sites_run_apart(project: RunningProject) -> None:
    (project.folder / "views" / "countries.sql").write_text(PER_NAME)
    (project.folder / "views" / "spark.sql").write_text("SELECT pid, regr_count(uid, pid) OVER () AS seen FROM posts")
    project.declare("by_pid", more=FULL)
    planned = project.headrace("plan")
    assert "recompute named in full from" in planned and "recompute countries in full from" in planned
    project.document("up", *UP)
    try:
        until_equal(project)
        killed = pid_of(project, "us")
        os.kill(killed, signal.SIGKILL)
        project.change_something(1000)
        until(lambda: sites(project)["us"]["pid"] not in (None, killed), "it was started again")
        until_equal(project)
        os.kill(project.process()["pid"], signal.SIGKILL)
        project.change_something(1002)
        until_equal(project)
        project.document("up", *UP)
        copied = "SELECT name, pid, body FROM named_copy"
        until(lambda: sorted(project.eu.execute(copied.encode())) == project.expected("named"), "it is delivered")

        project.declare("by_pid", more=FULL + "  spark: {view: spark, at: eu, freshness: 1 min, refresh: full}\n")
        assert 'site "eu" needs Spark: only it can evaluate view "spark"' in project.headrace("apply", status=2)
        compared = {one["contract"]: one["equal"] for one in project.document("audit", "--recompute")["recompute"]}
        assert compared == dict.fromkeys(("by_pid", "named", "counts", "countries"), True)
    finally:
        project.headrace("down")


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_view_in_full_is_right_wherever_a_plan_has_it_computed(project: RunningProject) -> None:
    """Each site that computes it has pushes of its own times: a copy does not go on from those of another."""
    (project.folder / "views" / "countries.sql").write_text(PER_NAME)
    full = "  countries: {view: countries, at: eu, freshness: 4 s, refresh: full}\n"
    project.declare("by_pid", more=full)
    file = project.folder / "headrace.yml"
    cheap = file.read_text()
    dear = cheap.replace("us: {cpu: 0.34 $/core-hour}", "us: {cpu: 3400 $/core-hour}")
    project.document("up", *UP)
    try:
        number = 2000
        for text, site in ((cheap, "us"), (dear, "eu"), (cheap, "us")):
            file.write_text(text)
            assert project.document("apply", "--replan")["applied"]
            planned = read_plan(project)
            edges = (
                planned.graph.vertices[name].site for name, one in planned.graph.edges.items() if one.is_recomputed
            )
            assert list(edges) == [site]
            for _ in range(3):
                number += 1
                project.change_something(number)
                until(lambda: project.rows("countries") == countries(project), f"countries are right, made in {site}")
        compared = {one["contract"]: one["equal"] for one in project.document("audit", "--recompute")["recompute"]}
        assert compared == {"by_pid": True, "countries": True}
    finally:
        project.headrace("down")


def read_plan(project: RunningProject) -> Plan:
    plan = Folder(project.folder).running()
    assert plan is not None
    return plan
