"""Functions declared in Python are called wherever a view needs them: in filters, joins, groups and on reading."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.declare.sql import read_query
from headrace.meaning.python_functions import FunctionAt, surroundings_of
from headrace.meaning.zset import ZSet
from headrace.model.catalogue import PythonFunction
from headrace.model.errors import Location, UsageError
from headrace.model.plan import PlanOptions
from headrace.model.types import DOUBLE
from headrace.plan.canonical.blocks import blocks_of
from headrace.plan.make import plan_views
from headrace.testing.worlds import RunningWorld
from tests.plan.written import catalogue, contract, mesh, site
from tests.run.test_engine import SITES, SOURCES, check

ROOT = PythonFunction("root", "math:sqrt", (DOUBLE,), DOUBLE, 1, Location("headrace.yml"))
VIEWS = {
    "computed": "SELECT r.id, root(abs(r.k)) AS y FROM r",
    "filtered": "SELECT r.id, s.label FROM r JOIN s ON r.k = s.k WHERE root(abs(r.n)) < 1.2",
    "grouped": "SELECT root(abs(r.k)) AS y, count(*) AS c FROM r GROUP BY root(abs(r.k))",
    "joined": "SELECT r.id, t.name FROM r LEFT JOIN t ON root(abs(r.k)) = t.x",
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_with_functions_are_maintained(name, tmp_path):
    meaning = read_query(VIEWS[name], SOURCES, functions={"root": ROOT})
    project = catalogue([site(one) for one in SITES], mesh(SITES), SOURCES.values(), [contract("c", "v", "m1", 60)])
    project = replace(project, functions={"root": ROOT})
    plan = plan_views(project, {"v": blocks_of("v", meaning)}, PlanOptions())
    world = RunningWorld(plan, {"v": meaning}, tmp_path, python={"root@1": math.sqrt})
    row = (1, 1, 1, 1.0, None, "a", None, None, True)
    world.capture({"r": ZSet([(row, 2), ((2, -4, 3_000_000_000, None, None, "b", None, None, None), 1)])})
    world.engine.load()
    assert world.wrong() == []
    world.capture(
        {"s": ZSet([((1, 1, None, "x", None), 1)]), "t": ZSet([((1, 1.0, "n", None, True), 1)]), "r": ZSet([(row, -1)])}
    )
    check(world.engine.push(list(world.program.tasks), world.now))
    assert world.wrong() == []


def test_a_function_that_is_not_there_is_named():
    with pytest.raises(UsageError, match='"root" is not at "math:rot"'):
        surroundings_of((FunctionAt("root@1", "math:rot"),))


def test_a_function_of_another_version_is_loaded_from_its_file_again(tmp_path: Path) -> None:
    (tmp_path / "headrace.yml").write_text("")
    answers = []
    for version, answer in (
        ("1", "111"),
        ("2", "22222"),
    ):  # of other lengths: Python tells files of a second apart by them
        (tmp_path / "answers_by_version.py").write_text(f"def answer():\n    return {answer}\n")
        found = surroundings_of((FunctionAt(f"answer@{version}", "answers_by_version:answer", str(tmp_path)),))
        answers.append(found.python[f"answer@{version}"])
    assert [answer() for answer in answers] == [111, 22222]
