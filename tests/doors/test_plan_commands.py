"""plan, why, whatif and check-plan, as a person or a program calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.doors.cli.main import run
from tests.golden import check_golden

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
