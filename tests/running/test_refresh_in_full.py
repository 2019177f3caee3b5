"""Contracts that ask for `refresh: full`, from the project file to the running service, on real databases."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter

import pytest

from headrace.connect.processes import birth_of
from tests.running.running_project import RunningProject, load, recomputed, until
from tests.running.test_running_project import replayed

RANKED = """SELECT *, rank() OVER (PARTITION BY uid ORDER BY pid DESC) AS place,
    regr_count(uid, pid) OVER (PARTITION BY uid ORDER BY pid ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS seen
    FROM posts"""
"""Only Spark evaluates `regr_count`, which counts rows here."""
SHARES = """WITH placed AS (SELECT * FROM ranked WHERE place <= 3)
    SELECT u.country, p.place, count(*) AS n, grouping_id() AS g FROM users u JOIN placed p ON u.uid = p.uid
    GROUP BY GROUPING SETS ((u.country, p.place), (p.place))"""
FULL = """  ranked: {view: ranked, at: eu, freshness: 6 s, refresh: full,
    deliver: {postgres: {dsn: "${EU_DSN}", table: ranked_copy}}}
  shares: {view: shares, at: us, freshness: 6 s, refresh: full}
"""
ELSEWHERE = "  ranked_us: {view: ranked, at: us, freshness: 8 s, refresh: full}\n"


@pytest.fixture
def project(project: RunningProject) -> RunningProject:
    for name, sql in (("ranked", RANKED), ("shares", SHARES)):
        (project.folder / "views" / f"{name}.sql").write_text(sql)
    return project


def ranked(project: RunningProject) -> list[tuple[object, ...]]:
    """What PostgreSQL answers, with the last column as a number that may have digits."""
    return sorted((*row[:-1], float(row[-1])) for row in project.eu.execute(RANKED.encode()))


def until_ranked(project: RunningProject) -> None:
    def is_equal() -> bool:
        rows, expected = project.rows("ranked"), ranked(project)
        return [row[:-1] for row in rows] == [row[:-1] for row in expected] and all(
            row[-1] == pytest.approx(other[-1]) for row, other in zip(rows, expected, strict=True)
        )

    until(is_equal, "ranks are as PostgreSQL has them", within_s=180)


def test_maintained_sql_is_recomputed_without_spark(project: RunningProject) -> None:
    project.declare("named", more="  counts: {view: counts, at: us, freshness: 4 s, refresh: full}\n")
    assert "recompute counts in full from" in project.headrace("plan")
    project.up()
    seen = project.document("show", "counts")
    for number in range(1000, 1010):
        project.change_something(number)
    project.until_equal("named", "counts")
    lines = project.headrace("changes", "counts", f"--from={seen['as_of']}").splitlines()
    assert replayed(seen["rows"], [json.loads(line) for line in lines]) == Counter(project.expected("counts"))
    assert all(one["equal"] for one in recomputed(project))
    project.declare("named", "counts")
    project.document("apply")
    project.change_something(1011)
    project.until_equal("counts")


def test_what_only_spark_can_evaluate_is_not_run_without_it(project: RunningProject) -> None:
    project.declare("named", more=FULL)
    said = project.headrace("up", "--engine=local", status=2)
    assert 'contract "ranked" needs Spark' in said
    assert "hint: run the project without `--engine local`" in said
    project.declare("named")
    project.up()
    project.declare("named", more=FULL)
    assert 'contract "ranked" needs Spark' in project.headrace("apply", status=2)
    project.until_equal("named")


@pytest.mark.long
def test_ranks_are_kept_on_spark_under_load_and_through_a_death(project: RunningProject) -> None:
    project.declare("named", more=FULL)
    project.up("spark")
    until_ranked(project)
    project.declare("named", more=FULL + ELSEWHERE)
    project.document("apply")
    seen = project.document("show", "ranked")
    with load(project, 4000):
        compared = {one["contract"]: one["equal"] for one in recomputed(project)}
        assert compared == dict.fromkeys(("named", "ranked", "shares", "ranked_us"), True)
        pid = project.process()["pid"]
        os.kill(pid, signal.SIGKILL)
        until(lambda: birth_of(pid) is None, "it is gone")
        project.up("spark")
    until_ranked(project)
    project.until_equal("named")
    lines = project.headrace("changes", "ranked", f"--from={seen['as_of']}").splitlines()
    now = Counter(tuple(row) for row in project.document("show", "ranked")["rows"])
    assert replayed(seen["rows"], [json.loads(line) for line in lines]) == now
    copied = "SELECT pid, uid, body, place FROM ranked_copy"
    expected = [row[:-1] for row in ranked(project)]
    until(lambda: sorted(project.eu.execute(copied.encode())) == expected, "they are delivered")
    assert all(one["equal"] for one in recomputed(project))
