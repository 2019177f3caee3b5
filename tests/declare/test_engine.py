"""What a project says about its engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.declare.read import read_project
from headrace.model.catalogue import Catalogue
from headrace.model.errors import InputError, Severity
from headrace.model.options import DeclaredEngine, RunEngine
from tests.declare.projects import write_project


def read(folder: Path, engine: str, site: str = "{}") -> Catalogue:
    write_project(folder, f"project: p\nsites: {{us: {site}}}\n{engine}")
    return read_project(folder, {})


def test_a_project_that_says_nothing_runs_spark_as_the_machine_allows(tmp_path: Path):
    assert read(tmp_path, "").engine == DeclaredEngine(RunEngine.SPARK, "local[*]", None, None, {})


def test_everything_about_an_engine_can_be_said(tmp_path: Path):
    properties = '{"spark.sql.shuffle.partitions": 4, "spark.sql.adaptive.enabled": true}'
    text = f'engine: {{kind: spark, master: "spark://here:7077", cores: 3, memory: 4 GB, properties: {properties}}}'
    found = {"spark.sql.shuffle.partitions": "4", "spark.sql.adaptive.enabled": "true"}
    assert read(tmp_path, text).engine == DeclaredEngine(RunEngine.SPARK, "spark://here:7077", 3, 4e9, found)


@pytest.mark.parametrize(
    ("engine", "what", "hint"),
    [
        ("{kind: flink}", 'cannot be "flink"', "write spark or local"),
        ("{memory: 4}", '"4" has no unit', "4 GB"),
        ("{memory: 300 MB}", '"300 MB" is too little: Spark needs 512 MB', "4 GB"),
        ("{cores: 0}", '"0" is less than 1', "1 or more"),
        ("{cores: 1.5}", '"1.5" is not a whole number', "1 or more"),
        ("{master: yarn}", '"yarn" is not a master', "spark://HOST:PORT"),
        ('{master: "local[2]", cores: 3}', "both say how many cores", "keep one"),
        ("{kind: local, memory: 1 GB}", "`memory` is for Spark, and the kind is local", "remove it"),
        ("{heap: 4 GB}", 'has no field "heap"', "kind, master, cores, memory, properties"),
        ("{properties: {partitions: 4}}", '"partitions" is not a Spark property', "begin with"),
        ('{properties: {"spark.driver.memory": 4g}}', '"spark.driver.memory" is set by Headrace', "memory: 4 GB"),
        ('{properties: {"spark.sql.ansi.enabled": false}}', '"spark.sql.ansi.enabled" is set by Headrace', "answers"),
        ('{properties: {"spark.authenticate.secret": x}}', '"spark.authenticate.secret" is a secret', "${NAME}"),
        ('{properties: {"spark.jars": [a, b]}}', 'a list is not a value of "spark.jars"', "a text or a number"),
    ],
)
@pytest.mark.parametrize("of_site", [False, True])
def test_a_mistake_is_named_with_what_to_write(tmp_path: Path, engine: str, what: str, hint: str, of_site: bool):
    with pytest.raises(InputError) as raised:
        read(tmp_path, "", f"{{engine: {engine}}}") if of_site else read(tmp_path, f"engine: {engine}")
    (problem,) = raised.value.problems
    assert what in problem.message
    assert ('of site "us"' in problem.message) is of_site
    assert problem.hint is not None and hint in problem.hint
    assert problem.where is not None and problem.where.line is not None


def test_a_site_may_have_an_engine_of_its_own(tmp_path: Path):
    found = read(tmp_path, "", "{engine: {kind: local, cores: 1}}")
    assert found.sites["us"].engine == DeclaredEngine(RunEngine.LOCAL, cores=1)
    assert found.problems == ()


def test_a_property_that_opens_spark_to_others_is_a_warning(tmp_path: Path):
    engine = '{properties: {"spark.ui.enabled": true, "spark.driver.host": 127.0.0.1}}'
    for found in (read(tmp_path, f"engine: {engine}"), read(tmp_path, "", f"{{engine: {engine}}}")):
        (problem,) = found.problems
        assert problem.severity is Severity.WARNING
        assert problem.message.startswith('property "spark.ui.enabled" weakens a default: ')


def test_a_cluster_that_takes_work_from_everybody_is_a_warning(tmp_path: Path):
    (problem,) = read(tmp_path, 'engine: {master: "spark://here:7077"}').problems
    assert problem.severity is Severity.WARNING and "takes work from everybody" in problem.message
    secret = '{"spark.authenticate": true, "spark.authenticate.secret": "${SPARK_SECRET}"}'
    found = read(tmp_path, f'engine: {{master: "spark://here:7077", properties: {secret}}}')
    assert [one.message for one in found.problems] == ['variable "SPARK_SECRET" is not set']
