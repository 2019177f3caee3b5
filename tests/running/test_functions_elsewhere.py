"""Functions of a project are found in its folder, wherever Headrace is started, and those of another are not taken."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import headrace
from headrace.declare.sql import read_query
from headrace.meaning.zset import ZSet
from headrace.model.catalogue import PostgresTable, PythonFunction
from headrace.model.errors import Location
from headrace.model.plan import PlanOptions
from headrace.model.types import BIGINT
from headrace.plan.canonical.blocks import blocks_of
from headrace.plan.make import plan_views
from headrace.site.folder import Folder
from headrace.testing.worlds import RunningWorld
from tests.plan.written import catalogue, contract, mesh, site
from tests.run.test_engine import SITES, SOURCES, check

SCALED = PythonFunction("scaled", "shapes:scaled", (BIGINT,), BIGINT, 1, Location("headrace.yml"))
SHAPES = "from sizes import FACTOR\n\n\ndef scaled(x):\n    return x * FACTOR + 1\n"


def ran_project(folder: Path, factor: int) -> RunningWorld:
    """What a service leaves behind: a view `v` that calls a function, loaded and pushed once."""
    folder.mkdir()
    for name, text in (
        ("headrace.yml", "project: x\n"),
        ("shapes.py", SHAPES),
        ("sizes.py", f"FACTOR = {factor}\n"),
    ):
        (folder / name).write_text(text)
    origin = PostgresTable("postgresql://nowhere", "s")
    sources = {name: replace(source, origin=origin) for name, source in SOURCES.items()}
    meaning = read_query("SELECT k, scaled(n) AS size FROM s", sources, functions={"scaled": SCALED})
    project = catalogue([site(one) for one in SITES], mesh(SITES), sources.values(), [contract("c", "v", "m1", 60)])
    project = replace(project, functions={"scaled": SCALED}, directory=str(folder))
    plan = plan_views(project, {"v": blocks_of("v", meaning)}, PlanOptions())
    home = Folder(folder)
    home.prepare()
    world = RunningWorld(plan, {"v": meaning}, home.root, python={"scaled@1": lambda x: x * factor + 1})
    world.capture({"s": ZSet.of([(1, 10, None, None, None)])})
    world.engine.load()
    world.capture({"s": ZSet.of([(2, 20, None, None, None)])})
    check(world.engine.push(list(world.program.tasks), world.now))
    assert world.wrong() == []
    # As `up` was told of the folder; whoever reads the plan later is somewhere else.
    home.save_running(replace(plan, catalogue=replace(project, directory=".")), {})
    return world


def said(elsewhere: Path, *words: str, status: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "headrace", *words], cwd=elsewhere, capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder with a module of the same name, which is nobody's."""
    found = tmp_path / "elsewhere"
    found.mkdir()
    (found / "shapes.py").write_text("raise RuntimeError('this is not the module of the project')\n")
    return found


def test_views_with_functions_are_shown_from_anywhere(tmp_path: Path, elsewhere: Path) -> None:
    ran_project(tmp_path / "double", 2)
    for place in (str(tmp_path / "double"), "../double"):
        assert sorted(json.loads(said(elsewhere, "show", "v", place, "--json"))["rows"]) == [[1, 21], [2, 41]]
    changes = [json.loads(line)["row"] for line in said(elsewhere, "changes", "v", "../double").splitlines()]
    assert changes == [{"k": 2, "size": 41}]
    audit = json.loads(said(elsewhere, "audit", "../double", "--json", status=1))
    assert [one["id"] for one in audit["contracts"]] == ["c"], "it is late: nothing runs"


def test_projects_with_modules_of_one_name_do_not_get_in_each_others_way(tmp_path: Path) -> None:
    double, triple = ran_project(tmp_path / "double", 2), ran_project(tmp_path / "triple", 3)
    for _ in range(2):
        for world, name, factor in ((double, "double", 2), (triple, "triple", 3)):
            world.capture({"s": ZSet.of([(world.now, 30, None, None, None)])})
            check(world.engine.push(list(world.program.tasks), world.now))
            assert world.wrong() == []
            sizes = headrace.read("v", tmp_path / name)["size"].to_pylist()
            assert set(sizes) == {number * factor + 1 for number in (10, 20, 30)}
