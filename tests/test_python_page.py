"""Runs the blocks of docs/python.md, one after another, as one program: on a real database where they need one."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

import headrace
from headrace.doors.cli import main

PAGE = Path(__file__).parents[1] / "docs" / "python.md"
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
RUNS = "## A project that runs"
TABLE = """CREATE TABLE orders (id bigint PRIMARY KEY, country text, amount double precision);
INSERT INTO orders SELECT n, 'c' || n % 3, n FROM generate_series(1, 90) AS n"""
LIGHT = """
import sys, headrace
project = headrace.load("shop")
assert project.plan().contracts
heavy = [name for name in ("psycopg", "pyspark", "pandas") if name in sys.modules]
assert not heavy, heavy
"""


def blocks(text: str) -> list[str]:
    return BLOCK.findall(text)


def test_the_page_does_what_it_says(
    tmp_path: Path, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHOP_DSN", postgres_dsn)
    planning, running = PAGE.read_text(encoding="utf-8").split(RUNS)
    names: dict[str, object] = {}
    for block in blocks(planning):
        exec(block, names)
    assert capsys.readouterr().out == "fresh_sales: sales at us, at most 4 s behind\n"
    with psycopg.connect(postgres_dsn, autocommit=True) as session:
        session.execute(TABLE.encode())
        table = {"dsn": "${SHOP_DSN}", "table": "public.orders"}
        headrace.Project("bare").site("us").source("orders", at="us", key="id", postgres=table).write(tmp_path / "bare")
        columns = headrace.load("bare", connect=True).catalogue.sources["orders"].columns or ()
        assert [column.name for column in columns] == ["id", "country", "amount"]
        try:
            assert main.run(["up", "shop", "--detach", "--engine=local"]) == 0
            first = headrace.read("sales", "shop")
            assert sorted(first.to_pylist(), key=str) == [
                {"country": f"c{n}", "orders": 30, "amount": float(sum(range(n or 3, 91, 3)))} for n in range(3)
            ]
            session.execute("INSERT INTO orders VALUES (91, 'c1', 9)")
            change = next(headrace.changes("sales", "shop", follow=True))
            assert change.deleted.column("orders").to_pylist() == [30]
            assert change.inserted.column("orders").to_pylist() == [31]
            assert list(headrace.changes("sales", "shop", after=change.position)) == []
            session.execute("INSERT INTO orders VALUES (92, 'c2', 9)")
            again = next(headrace.changes("sales", "shop", after=change.position, follow=True))
            assert again.position > change.position and again.inserted.column("country").to_pylist() == ["c2"]
            capsys.readouterr()
            for block in blocks(running):
                exec(block, names)
        finally:
            main.run(["down", "shop"])
    said = capsys.readouterr().out
    assert "fresh_sales " in said and "1 rows went, 1 came" in said and "False" in said
    assert 'no contract keeps a view "sale" - did you mean "sales"?' in said


def test_planning_from_python_loads_nothing_heavy(tmp_path: Path) -> None:
    planning = "\n".join(blocks(PAGE.read_text(encoding="utf-8").split(RUNS)[0])[:1])
    program = planning + LIGHT
    ended = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_names_are_listed() -> None:
    assert set(headrace.__all__) <= set(dir(headrace))
    for name in headrace.__all__:
        assert getattr(headrace, name) is not None
    with pytest.raises(AttributeError, match='has no attribute "nothing"'):
        headrace.nothing  # type: ignore[attr-defined]  # noqa: B018 - mypy complains if this is not a mistake
    assert (Path(headrace.__file__).parent / "py.typed").exists()


def use_names(project: headrace.LoadedProject) -> headrace.Plan:
    """Only for the type checker."""
    for change in headrace.changes("v", after=3, follow=True):
        position: int = change.position
        print(position)
    headrace.Project("x").write("y")
    return headrace.load("shop", connect=True).plan(headrace.PlanOptions())
