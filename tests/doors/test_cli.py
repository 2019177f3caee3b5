"""The command as people and programs call it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from headrace.declare.starter import FILES
from headrace.doors.cli import main
from headrace.doors.cli.options import Json
from headrace.doors.cli.output import Exit, table, wrap
from headrace.model.errors import ConnectError, InputError, Problem, UsageError
from tests.declare.projects import write_project

BROKEN = "project: p\nsites: {us: {cpu: 3 MB}}\n"


def headrace(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headrace", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload, no-any-return]


def test_init_writes_a_project_that_check_accepts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["init", str(tmp_path / "new")]) == Exit.DONE
    assert {str(p.relative_to(tmp_path / "new")) for p in (tmp_path / "new").rglob("*") if p.is_file()} == set(FILES)
    assert main.run(["check", str(tmp_path / "new")]) == Exit.DONE
    assert "no mistakes" in capsys.readouterr().out


def test_init_twice_does_no_harm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main.run(["init", str(tmp_path)])
    view = tmp_path / "views" / "sales_by_country.sql"
    view.write_text("SELECT 1 AS mine")
    capsys.readouterr()
    assert main.run(["init", str(tmp_path), "--json"]) == Exit.DONE
    assert json.loads(capsys.readouterr().out) == {"directory": str(tmp_path), "written": [], "kept": list(FILES)}
    assert view.read_text() == "SELECT 1 AS mine"


def test_init_adds_nothing_to_another_project(tmp_path: Path) -> None:
    write_project(tmp_path, "project: mine\n")
    assert main.run(["init", str(tmp_path)]) == Exit.DONE
    assert list((tmp_path / "views").iterdir()) == []


def test_init_where_nothing_can_be_written_is_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main.run(["init", str(tmp_path / "file" / "x")]) == Exit.WRONG_USE
    assert "no project can be written" in capsys.readouterr().err


def test_check_tells_all_mistakes_and_says_no(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["check", str(write_project(tmp_path, BROKEN))]) == Exit.NO
    out, err = capsys.readouterr()
    assert 'error: cpu of site "us"' in out
    assert out.endswith("1 mistake\n")
    assert err == ""


def test_check_as_json_is_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["check", "--json", str(write_project(tmp_path, BROKEN))]) == Exit.NO
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is False
    assert document["errors"] == [
        {
            "message": 'cpu of site "us": "3 MB" is a size, not a price per core and hour',
            "file": str(tmp_path / "headrace.yml"),
            "line": 2,
            "column": 19,
            "hint": 'write a price per core and hour such as "0.34 $/core-hour"',
        }
    ]


def test_check_as_json_says_what_became_of_each_view(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main.run(["init", str(tmp_path)])
    capsys.readouterr()
    assert main.run(["check", "--json", str(tmp_path)]) == Exit.DONE
    document = json.loads(capsys.readouterr().out)
    (view,) = document["views"]
    assert (document["ok"], document["project"], document["errors"]) == (True, "shop", [])
    assert (view["name"], view["reads"], view["refused"]) == ("sales_by_country", ["orders", "customers"], None)
    assert view["columns"] == [
        {"name": "country", "type": "string"},
        {"name": "orders", "type": "bigint"},
        {"name": "total", "type": "bigint"},
    ]
    assert len(view["fingerprint"]) == 16
    assert [contract["staleness"] for contract in document["contracts"]] == [30]


REFUSED = """
    project: p
    sites: {us: {}}
    sources: {t: {kind: table, at: us, key: id, columns: {id: bigint, n: bigint}}}
    contracts: {c: {view: v, at: us, freshness: 1 h, refresh: REFRESH}}
"""
RUNNING = "SELECT id, try_sum(n) OVER (ORDER BY id) AS total FROM t"


def test_sql_that_is_not_maintained_is_a_mistake_by_the_name_of_its_operator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_project(tmp_path, REFUSED.replace("REFRESH", "incremental"), v=RUNNING)
    assert main.run(["check", "--json", str(tmp_path)]) == Exit.NO
    document = json.loads(capsys.readouterr().out)
    (view,) = document["views"]
    assert view["refused"]["operator"]
    assert view["refused"]["line"] == 1
    assert [error["message"] for error in document["errors"]] == [view["refused"]["message"]]


def test_sql_that_is_not_maintained_is_a_note_where_its_contract_asks_for_recomputing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_project(tmp_path, REFUSED.replace("REFRESH", "full"), v=RUNNING)
    assert main.run(["check", str(tmp_path)]) == Exit.DONE
    assert 'note: view "v" is recomputed at every push' in capsys.readouterr().out


def test_recomputing_is_asked_for_once_also_for_what_a_view_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_project(tmp_path, REFUSED.replace("REFRESH", "full"), v="SELECT id FROM running", running=RUNNING)
    assert main.run(["check", str(tmp_path)]) == Exit.DONE
    assert capsys.readouterr().out.count("is recomputed at every push") == 2


def test_no_project_is_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["check", str(tmp_path)]) == Exit.WRONG_USE
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: no project in")
    assert main.run(["check", str(tmp_path), "--json"]) == Exit.WRONG_USE
    (error,) = json.loads(capsys.readouterr().out)["errors"]
    assert set(error) == {"message", "file", "line", "column", "hint"}


@pytest.mark.parametrize("arguments", [["chek"], ["check", "--jsn"], ["init"], ["check", "a", "b"], ["--nonsense"]])
def test_wrong_use_is_told_in_one_line_with_a_hint(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(arguments) == Exit.WRONG_USE
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert "hint: headrace" in err
    assert main.run([*arguments, "--json"]) == Exit.WRONG_USE
    assert json.loads(capsys.readouterr().out)["errors"]


def failing(error: BaseException) -> typer.Typer:
    """A command that fails."""
    commands = typer.Typer()

    @commands.command()
    def fail(json: Json = False) -> int:
        raise error

    return commands


def test_our_own_fault_has_a_traceback_and_ends_with_70(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--json"], failing(ZeroDivisionError("oh"))) == Exit.OUR_FAULT
    out, err = capsys.readouterr()
    assert "Traceback" in err
    assert "this is a bug in headrace" in err
    assert "ZeroDivisionError: oh" in json.loads(out)["errors"][0]["message"]


def test_an_interrupt_ends_quietly(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--json"], failing(KeyboardInterrupt())) == Exit.INTERRUPTED
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "error",
    [InputError([Problem("wrong", None, "mend it")]), UsageError("wrong", "mend it"), ConnectError("wrong", "mend it")],
)
def test_mistakes_of_the_user_have_no_traceback(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--json"], failing(error)) == Exit.WRONG_USE
    expected = {"message": "wrong", "file": None, "line": None, "column": None, "hint": "mend it"}
    assert json.loads(capsys.readouterr().out) == {"errors": [expected]}


def test_a_closed_pipe_is_no_fault(tmp_path: Path) -> None:
    write_project(tmp_path, BROKEN)
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "headrace", "check", str(tmp_path)]
    ended = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (Exit.BROKEN_PIPE, "")


def test_there_is_no_colour_in_a_pipe(tmp_path: Path) -> None:
    ended = headrace("check", str(write_project(tmp_path, BROKEN)))
    assert "\033" not in ended.stdout
    assert ended.returncode == Exit.NO


HEAVY = ("pyspark", "nicegui", "pandas", "scipy", "numpy", "sqlglot", "psycopg", "ruamel", "rich")


def test_help_is_quick_because_it_imports_little() -> None:
    code = f"""
import sys
from headrace.doors.cli.main import run
assert run(["--help"]) == 0
print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stderr == "[]\n"
    assert "check" in ran.stdout


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--version"]) == Exit.DONE
    assert capsys.readouterr().out.startswith("headrace ")


def test_tables_fit_eighty_columns() -> None:
    short = [["us", "2 cores", "a " * 60], ["a-longer-name", "3", "b"]]
    long = [["n" * 63, "m" * 30, "facts " * 20], ["x", "y", "z"]]
    for lines in (table(short), table(long), wrap("word " * 50, "  start  ")):
        assert max(map(len, lines)) <= 80
    assert table(short)[0].startswith("  us             2 cores  a a")
    assert table(short)[1].startswith(" " * 26 + "a a")
