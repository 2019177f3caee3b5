"""What runs on one machine runs on a cluster: work items and evaluation, on a master with two workers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.connect.files import FileStore
from headrace.declare.sql import read_query
from headrace.meaning.evaluate import evaluate
from headrace.testing import SCHEMA
from tests.live.log_tables import write_tables
from tests.live.small_tables import TABLES
from tests.live.standalone_cluster import cluster

QUERY = "SELECT s.k, count(*) AS c, sum(r.n) AS n FROM r JOIN s ON r.k = s.k GROUP BY s.k"

SCRIPT = """
import json, sys
from pathlib import Path
from headrace.connect.files import FileStore
from headrace.connect.spark.evaluate import SparkEvaluator, SourceTable
from headrace.connect.spark.items import SparkRunner, warm_up
from headrace.connect.spark.properties import Profile, SparkSettings
from headrace.connect.spark.session import start_session
from headrace.declare.sql import read_query
from headrace.testing import SCHEMA
from tests.connect.spark.item_work import Job, perform

folder, master, query = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
here = dict.fromkeys(("spark.driver.host", "spark.driver.bindAddress"), "127.0.0.1")
properties = {**here, "spark.executor.memory": "512m"}
settings = SparkSettings(folder / "scratch", master=master, profile=Profile.CLUSTER, properties=properties)
session = start_session(settings)
warm_up(session)
jobs = [Job(str(n), n) for n in range(8)] + [Job("bad", "fail")]
outcomes = SparkRunner(session, perform).run(jobs)
died = SparkRunner(session, perform).run([Job("good", 1), Job("crash", "crash")])
tables = {name: SourceTable(**table) for name, table in json.loads(sys.argv[4]).items()}
found = SparkEvaluator(session, FileStore(folder / "store")).rows(read_query(query, SCHEMA), tables)
answer = {
    "values": [outcome.value for outcome in outcomes],
    "failed": [outcome.name for outcome in outcomes if outcome.error],
    "died": [outcome.retryable for outcome in died],
    "rows": found.to_pylist(),
}
print(json.dumps(answer))
session.stop()
"""


@pytest.mark.long
@pytest.mark.timeout(900)
def test_items_and_queries_run_on_a_cluster_of_two_workers(tmp_path: Path):
    tables = write_tables(FileStore(tmp_path / "store"), TABLES)
    described = {
        name: {"site": t.site, "files": t.files, "upto": t.upto, "columns": dict(t.columns)}
        for name, t in tables.items()
    }
    with cluster(tmp_path) as (master, work_folders):
        command = [sys.executable, "-c", SCRIPT, str(tmp_path), master, QUERY, json.dumps(described)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=Path(__file__).parents[2])
        took_part = [any(folder.glob("app-*")) for folder in work_folders]
    assert ran.returncode == 0, ran.stderr[-4000:]
    answer = json.loads(ran.stdout)
    assert took_part == [True, True]
    assert answer["values"] == [*(2 * n for n in range(8)), None]
    assert answer["failed"] == ["bad"]
    assert answer["died"] == [True, True]
    expected = sorted(evaluate(read_query(QUERY, SCHEMA), TABLES).rows(), key=repr)
    assert sorted((tuple(row.values()) for row in answer["rows"]), key=repr) == expected
