"""plan, why, whatif and check-plan, as a person or a program calls them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from headrace.app.planning import plan_document, plan_project
from headrace.doors.cli.main import run
from headrace.model.plan import PlanOptions
from headrace.model.plan_modes import WideArea
from headrace.site.folder import Folder
from tests.golden import check_golden
from tests.running.loaded import write_existing

ROOT = Path(__file__).parents[2]
CITY = str(ROOT / "examples" / "city")
GOLDEN = ROOT / "tests" / "golden" / "commands"


@pytest.fixture
def hasty_city(tmp_path: Path) -> str:
    """The sample project with a promise that nobody can keep."""
    for path in Path(CITY).rglob("*"):
        if path.is_file():
            copy = tmp_path / path.relative_to(CITY)
            copy.parent.mkdir(exist_ok=True)
            copy.write_text(path.read_text().replace("freshness: 30 s", "freshness: 0.5 s"))
    return str(tmp_path)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("plan", ["plan", CITY]),
        ("why-contract", ["why", "nearby", CITY]),
        ("why-view", ["why", "top_talkers", CITY]),
        ("whatif", ["whatif", "nearby", CITY, "--freshness", "5s", "--rate", "tweets=20x"]),
    ],
)
def test_what_people_read_fits_a_terminal(name: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 0
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    check_golden(GOLDEN / f"{name}.txt", printed)


def test_a_refusal_says_why_and_what_could_be_promised(hasty_city: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", hasty_city]) == 1
    check_golden(GOLDEN / "refused.txt", capsys.readouterr().out)
    assert run(["plan", hasty_city, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    (rejected,) = document["rejected"]
    assert rejected["contract"] == "nearby"
    offer = rejected["smallest_staleness"]
    assert run(["whatif", "nearby", hasty_city, "--freshness", f"{offer!r} s"]) == 0
    assert run(["whatif", "nearby", hasty_city, "--freshness", f"{offer * 0.999!r} s"]) == 1


def test_a_plan_document_passes_its_own_check_and_a_changed_one_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", CITY, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    right, wrong = tmp_path / "right.json", tmp_path / "wrong.json"
    right.write_text(json.dumps(document))
    document["totals"]["rescost"] *= 1.01
    wrong.write_text(json.dumps(document))
    assert run(["check-plan", str(right), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"ok": True, "problems": []}
    assert run(["check-plan", str(wrong), "--json"]) == 1
    assert "rescost" in json.loads(capsys.readouterr().out)["problems"][0]["where"]


@pytest.mark.parametrize("mode", WideArea)
@pytest.mark.parametrize("prefer", ["bytes", "latency"])
def test_every_wide_area_mode_makes_a_plan_that_passes_the_check(
    mode: WideArea, prefer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", CITY, "--wide-area", mode, "--prefer", prefer, "--json"]) == 0
    made = tmp_path / "plan.json"
    made.write_text(capsys.readouterr().out)
    assert run(["check-plan", str(made)]) == 0


@pytest.fixture
def running_city(tmp_path: Path) -> Path:
    """The sample project, with its plan saved as the service saves what runs."""
    shutil.copytree(CITY, tmp_path / "city")
    plan = plan_project(tmp_path / "city", {}, PlanOptions())
    folder = Folder(tmp_path / "city")
    folder.prepare()
    folder.save_running(plan, plan_document(plan))
    write_existing(folder, plan)
    return tmp_path / "city"


def test_nothing_is_said_of_a_plan_that_runs_when_none_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", CITY]) == 0
    assert "compared with the running plan" not in capsys.readouterr().out


def test_a_plan_says_what_it_changes_against_what_runs(running_city: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", str(running_city)]) == 0
    assert "nothing changes" in capsys.readouterr().out
    project = running_city / "headrace.yml"
    project.write_text(
        project.read_text().replace("  nearby:", "  soon: {view: nearby_tweets, at: us, freshness: 60 s}\n  nearby:")
    )
    assert run(["plan", str(running_city)]) == 0
    printed = capsys.readouterr().out
    changed = printed[printed.index("compared with the running plan") :]
    assert "load " in changed
    assert "as they are" in changed
    assert max(map(len, printed.splitlines())) <= 80


def test_on_running_contracts_keep_their_vertices(running_city: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = json.loads((running_city / ".headrace" / "plan.json").read_text())
    assert run(["plan", str(running_city), "--on-running", "--json"]) == 0
    after = json.loads(capsys.readouterr().out)
    assert {vertex["id"] for vertex in after["vertices"]} == {vertex["id"] for vertex in before["vertices"]}


@pytest.mark.parametrize(
    ("file", "content", "why"),
    [
        ("running.json", "{", "is not JSON"),
        ("running.json", '{"format": "headrace/7", "written_by": "9.9"}', "Headrace 9.9 wrote it"),
        ("forced.json", '{"nearby": 3}', "does not say what forced contracts were promised"),
    ],
)
@pytest.mark.parametrize("words", [["plan"], ["plan", "--on-running"], ["plan", "--on-running", "--json"]])
def test_state_of_what_runs_that_cannot_be_read_is_said_to_be_broken(
    words: list[str], file: str, content: str, why: str, running_city: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (running_city / ".headrace" / file).write_text(content)
    assert run([*words, str(running_city)]) == 2
    printed = capsys.readouterr()
    said = json.loads(printed.out)["errors"][0]["message"] if "--json" in words else printed.err
    assert file in said and why in said
    assert run(["plan", str(running_city), "--json"]) == 0


def test_the_plan_of_headrace_0_1_is_named_and_not_read(running_city: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (running_city / ".headrace" / "running.json").rename(running_city / ".headrace" / "running.plan")
    assert run(["plan", str(running_city)]) == 2
    said = capsys.readouterr().err
    assert "running.plan" in said and "Headrace 0.1" in said and "`headrace up`" in said


@pytest.mark.parametrize(
    "words",
    [
        ["check-plan", str(ROOT / "README.md")],
        ["why", "nerby", CITY],
        ["whatif", "nearby", CITY, "--freshness", "soon"],
        ["whatif", "nearby", CITY, "--link", "us>mars=1 Mbps"],
        ["whatif", "nearby", CITY, "--rate", "tweets"],
        ["bench", "nothing"],
    ],
)
def test_wrong_use_ends_with_2_and_says_what_to_do(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 2
    assert "hint: " in capsys.readouterr().err


def test_what_follows_the_name_of_a_benchmark_goes_to_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(["bench", "search", "--help"])
    assert "headrace bench search" in capsys.readouterr().out
