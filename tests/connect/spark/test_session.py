from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.connect.spark.properties import (
    Profile,
    SparkSettings,
    fill_properties,
    for_command_line,
    spark_properties,
)
from headrace.declare.engine import EXPOSING, REFUSED, REFUSED_BEGINNINGS
from headrace.model.errors import ConnectError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_answers_do_not_depend_on_the_machine():
    properties = spark_properties(SparkSettings(Path("scratch")))
    assert properties["spark.sql.ansi.enabled"] == "true"
    assert properties["spark.sql.ansi.doubleQuotedIdentifiers"] == "true"
    assert properties["spark.sql.session.timeZone"] == "UTC"


def test_a_local_session_listens_on_loopback_only():
    properties = spark_properties(SparkSettings(Path("scratch")))
    assert properties["spark.driver.host"] == properties["spark.driver.bindAddress"] == "127.0.0.1"
    assert properties["spark.ui.enabled"] == "false"


def test_a_local_session_answers_those_only_who_know_its_secret():
    assert spark_properties(SparkSettings(Path("scratch")))["spark.authenticate"] == "true"


def test_secrets_come_from_the_environment_and_are_not_on_the_command_line():
    written = {"spark.authenticate.secret": "${SPARK_SECRET}", "spark.sql.shuffle.partitions": "4"}
    filled = fill_properties(written, {"SPARK_SECRET": "hunter2"})
    assert filled == {"spark.authenticate.secret": "hunter2", "spark.sql.shuffle.partitions": "4"}
    assert for_command_line(filled) == [("spark.sql.shuffle.partitions", "4")]
    with pytest.raises(ConnectError, match='variable "SPARK_SECRET" is not set'):
        fill_properties(written, {})


def test_a_session_authenticates_with_a_secret_that_nobody_wrote(spark: SparkSession):
    settings = dict(spark.sparkContext.getConf().getAll())
    assert settings["spark.authenticate"] == "true" and "spark.authenticate.secret" not in settings


def test_a_cluster_can_reach_the_driver():
    properties = spark_properties(SparkSettings(Path("scratch"), master="spark://elsewhere:7077"))
    assert "spark.driver.bindAddress" not in properties


def test_properties_of_the_user_win():
    settings = SparkSettings(Path("scratch"), properties={"spark.sql.shuffle.partitions": "64"})
    assert spark_properties(settings)["spark.sql.shuffle.partitions"] == "64"


def test_a_java_without_memory_ends_whatever_options_a_project_adds():
    added = {"spark.driver.extraJavaOptions": "-Xss2m -XX:-ExitOnOutOfMemoryError"}
    for properties in ({}, added):
        found = spark_properties(SparkSettings(Path("scratch"), properties=properties))
        assert found["spark.driver.extraJavaOptions"].endswith(" -XX:+ExitOnOutOfMemoryError")
        assert found["spark.executor.extraJavaOptions"] == "-XX:+ExitOnOutOfMemoryError"
    assert found["spark.driver.extraJavaOptions"].startswith("-Xss2m ")


def test_every_property_that_we_set_may_be_written_freely_or_is_guarded():
    free = {
        "spark.sql.shuffle.partitions",
        "spark.default.parallelism",
        "spark.sql.adaptive.enabled",
        "spark.python.worker.reuse",
        "spark.ui.showConsoleProgress",
        "spark.driver.extraJavaOptions",
        "spark.executor.extraJavaOptions",
    }
    guarded = {*REFUSED, *EXPOSING}
    ours = spark_properties(SparkSettings(Path("scratch")))
    beginnings = tuple(REFUSED_BEGINNINGS)
    assert {name for name in ours if name not in guarded and not name.startswith(beginnings)} == free
    assert all(ours[name] == default for name, (default, _) in EXPOSING.items())


def test_only_a_cluster_plans_stages_again():
    local, cluster = (
        spark_properties(SparkSettings(Path("scratch"), profile=profile))
        for profile in (Profile.LOCAL, Profile.CLUSTER)
    )
    assert (local["spark.sql.adaptive.enabled"], cluster["spark.sql.adaptive.enabled"]) == ("false", "true")


def test_workers_find_modules_where_this_process_does():
    import headrace

    found = spark_properties(SparkSettings(Path("scratch")))["spark.executorEnv.PYTHONPATH"].split(os.pathsep)
    assert str(Path(headrace.__file__).parents[1]) in found


def test_only_a_short_lived_session_compiles_quickly_instead_of_well():
    quick = spark_properties(SparkSettings(Path("scratch"), short_lived=True))
    lasting = spark_properties(SparkSettings(Path("scratch")))
    assert "-XX:TieredStopAtLevel=1" in quick["spark.driver.extraJavaOptions"]
    assert "-XX:TieredStopAtLevel=1" not in lasting["spark.driver.extraJavaOptions"]


def test_a_query_is_answered_under_ansi_rules_in_utc(spark: SparkSession):
    from pyspark.errors import ArithmeticException

    rows = spark.sql("SELECT id % 2 AS k, sum(id) AS s FROM range(10) GROUP BY k ORDER BY k").toArrow().to_pylist()
    assert rows == [{"k": 0, "s": 20}, {"k": 1, "s": 25}]
    assert spark.sql("SELECT CAST(TIMESTAMP '1970-01-01 00:00:00' AS BIGINT)").collect()[0][0] == 0
    with pytest.raises(ArithmeticException):
        spark.sql("SELECT 1 / 0").collect()


def test_python_functions_run_on_the_same_python(spark: SparkSession):
    from pyspark.sql.functions import udf

    where = udf(lambda _: sys.executable, "string")
    assert spark.range(1).select(where("id")).collect()[0][0] == sys.executable


def test_a_failing_query_prints_nothing(spark: SparkSession, capfd: pytest.CaptureFixture[str]):
    from pyspark.errors import ArithmeticException

    with pytest.raises(ArithmeticException):
        spark.sql("SELECT 1 / 0").collect()
    assert capfd.readouterr() == ("", "")


SCRIPT = """
import sys
from pathlib import Path
from headrace.connect.spark.properties import SparkSettings
from headrace.connect.spark.session import start_session
session = start_session(SparkSettings(Path(sys.argv[1]), memory=sys.argv[2], short_lived=True))
print(session.range(5).toArrow().num_rows)
"""


@pytest.mark.long
@pytest.mark.live
def test_a_machine_without_java_runs_spark_on_the_packaged_one(tmp_path: Path):
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in ("bash", "sh", "dirname", "ps", "tr", "cat"):
        found = Path("/bin", name)
        (commands / name).symlink_to(found if found.exists() else Path("/usr/bin", name))
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("JAVA", "SPARK", "PYSPARK"))
    }
    environment["PATH"] = str(commands)
    scratch = tmp_path / "with a space"
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(scratch), "1g"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
    )
    assert (ran.returncode, ran.stdout) == (0, "5\n"), ran.stderr
    assert {file.name for file in tmp_path.iterdir()} == {"bin", "with a space"}


@pytest.mark.live
def test_a_spark_that_does_not_start_is_reported_with_its_java_and_its_log(tmp_path: Path):
    ran = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path), "1k"], capture_output=True, text=True)
    assert ran.returncode != 0
    assert "ConnectError: Spark did not start on Java" in ran.stderr
