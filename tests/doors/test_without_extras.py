"""Without any extra, everything that decides works; commands that run projects say which extra they need."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path

import pytest

from headrace.doors.cli.extras import MODULES, RUN_PROJECTS
from tests.declare.projects import write_project

ROOT = Path(__file__).parents[2]
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CITY = str(ROOT / "examples" / "city")

Ask = Callable[..., tuple[int, str, str]]


def plain(requirement: str) -> str:
    """The name of what is required, as indexes spell it."""
    found = re.match(r"[\w.-]+", requirement)
    assert found is not None, requirement
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def installed_for(requirements: Iterable[str]) -> dict[str, metadata.Distribution]:
    """All that is installed because of some requirements."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [plain(requirement) for requirement in requirements]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # for other systems or Pythons
        waiting += [plain(one) for one in found[name].requires or () if "extra ==" not in one]
    return found


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Runs a command where nothing but what pyproject.toml declares is installed."""
    packages = tmp_path_factory.mktemp("packages")
    for distribution in installed_for(DECLARED["dependencies"]).values():
        for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            (packages / top).symlink_to(Path(str(distribution.locate_file(top))))
    own = metadata.distribution("headrace")
    described = next(file.parts[0] for file in own.files or () if file.name == "METADATA")
    (packages / described).symlink_to(Path(str(own.locate_file(described))))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(packages), str(ROOT / "src")])}

    def ask(*words: str) -> tuple[int, str, str]:
        command = [sys.executable, "-S", "-m", "headrace", *words]
        ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
        return ran.returncode, ran.stdout, ran.stderr

    return ask


PLACE = {"kind": "single", "cu": 1, "cd": 1, "pairs": [["alice", "bob", 1, 360]]}


def test_a_project_is_written_checked_planned_and_explained(light: Ask, tmp_path: Path) -> None:
    shop = str(tmp_path / "shop")
    for words in (
        ["init", shop],
        ["check", shop],
        ["plan", shop],
        ["plan", CITY, "--wide-area", "sana"],
        ["why", "sales", shop],
        ["whatif", "sales", shop, "--freshness", "5s"],
        ["--version"],
        ["up", "--help"],
    ):
        status, said, complaints = light(*words)
        assert (status, complaints) == (0, ""), words
        assert said, words
    document = tmp_path / "plan.json"
    document.write_text(light("plan", shop, "--json")[1])
    assert light("check-plan", str(document))[0] == 0


FEEDS = {
    "kind": "feeds", "H": 3, "L": 1, "model": "rpc", "producers": {"slow": 1, "fast": 9},
    "consumers": {"c": {"rate": 6, "follows": ["slow", "fast"]}},
}  # fmt: skip


def test_views_are_placed_and_feeds_decided(light: Ask, tmp_path: Path) -> None:
    file = tmp_path / "feeds.json"
    file.write_text(json.dumps(FEEDS))
    status, said, complaints = light("feeds", "decide", str(file), "--json")
    assert (status, complaints) == (0, "") and json.loads(said)["push"] == [["c", "slow"]]
    graph = tmp_path / "place.json"
    graph.write_text(json.dumps(PLACE))
    status, said, complaints = light("place", str(graph), "--json")
    assert (status, complaints) == (0, "") and json.loads(said)["cost"] == 2


@pytest.mark.parametrize("command", sorted(RUN_PROJECTS))
def test_commands_that_run_projects_name_the_extra(command: str, light: Ask) -> None:
    names = [] if command in ("demo",) else ["v", CITY] if command in ("show", "changes") else [CITY]
    status, said, complaints = light(command, *names, "--json")
    (error,) = json.loads(said)["errors"]
    assert (status, complaints, error["hint"]) == (2, "", "pip install 'headrace[spark]'")
    assert f"`headrace {command}` needs packages that are not installed: cryptography" in error["message"]


ASKING = """
project: p
sites: {us: {}}
sources: {users: {kind: table, at: us, key: [uid], postgres: {dsn: "${DSN}", table: users}}}
contracts: {all: {view: all, at: us, freshness: 60 s}}
"""
"""Only the database knows the columns."""


def test_options_that_reach_out_name_the_extra(light: Ask, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("a,b,rate_ab,rate_ba\nalice,bob,1,360\n")
    asking = str(write_project(tmp_path, ASKING, all="SELECT * FROM users"))
    place = ["place", str(pairs), "--engine", "spark"]
    for words in (["check", asking, "--connect"], ["plan", asking], place, ["status", asking]):
        status, said, complaints = light(*words)
        assert (status, said) == (2, ""), words
        assert "not installed" in complaints and "hint: pip install 'headrace[spark]'" in complaints


@pytest.mark.parametrize("extra", DECLARED["optional-dependencies"])
def test_every_module_of_an_extra_is_known(extra: str) -> None:
    modules: dict[str, set[str]] = {}
    for module, distributions in metadata.packages_distributions().items():
        for distribution in distributions:
            modules.setdefault(plain(distribution), set()).add(module)
    for requirement in DECLARED["optional-dependencies"][extra]:
        found = modules.get(plain(requirement))  # None for programs that are no modules
        assert found is None or found & set(MODULES[extra]), f"name the module of {requirement}"


def test_a_project_with_a_template_is_planned_without_the_packages_of_its_database(light: Ask) -> None:
    status, said, wrong = light("plan", str(ROOT / "examples" / "friends"), "--json")
    assert status == 0, wrong
    (template,) = json.loads(said)["templates"]
    assert template["pairs"] > 0 and "psycopg" in json.dumps(template)
