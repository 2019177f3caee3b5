"""Seven pages that show how the planner decides: each is what the commands print about a small project of its own.

A page is `tests/golden/plans/NAME/page.txt`, beside the project. What runs is saved as the service saves it, so that
`plan` and `apply --dry-run` compare with it.
"""

from __future__ import annotations

import difflib
import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.app.planning import plan_document, plan_project
from headrace.doors.cli.main import run
from headrace.model.plan import PlanOptions
from headrace.site.folder import Folder
from tests.golden import check_golden
from tests.running.loaded import write_existing

PLANS = Path(__file__).parents[1] / "golden" / "plans"


@dataclass(frozen=True)
class Edit:
    """A text that replaces another one in a file of the project; the whole file if there was none."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Situation:
    name: str
    look_for: str
    commands: tuple[str, ...]
    edits: tuple[Edit, ...] = ()
    then: tuple[str, ...] = ()
    """Commands after the edits. What was planned before runs then."""


SITUATIONS = (
    Situation(
        "two-views-share-a-join",
        "Two views spell one join in two ways: look for its lines at us, each of which\n"
        'is there once, "for 2 contracts".',
        ("headrace plan", "headrace why marketing"),
    ),
    Situation(
        "a-wider-vertex-serves-a-filter",
        "One view is a small part of another: look for the last line at eu, where it\n"
        "is kept from the changes that sales needs, so that nothing is joined twice.",
        ("headrace plan",),
    ),
    Situation(
        "a-link-is-too-slow",
        "A contract is refused because a link is too slow: look for what the link has\n"
        "left, what the view needs, and what could be promised instead.",
        (
            "headrace plan",
            'headrace whatif engineers --freshness "3.272 min"',
            'headrace whatif engineers --link "ship>office=130 kbps"',
        ),
    ),
    Situation(
        "rows-stay-at-a-site",
        "Residency decides where a view is computed: look for the joins, which are at\n"
        "eu while rows of patients must stay there, and at us when they may leave.",
        ("headrace plan",),
        (Edit("headrace.yml", "    stays: {sites: [eu], aggregates: anywhere}\n", ""),),
        ("headrace plan",),
    ),
    Situation(
        "an-update-moves-a-contract",
        "A running contract is wanted at another site: look for what moves, which is\n"
        "only the view, while everything that it shares stays as it is.",
        ("headrace plan",),
        (Edit("headrace.yml", "sales_by_segment, at: eu", "sales_by_segment, at: us"),),
        ("headrace apply --dry-run", "headrace plan --on-running"),
    ),
    Situation(
        "a-source-changes-its-columns",
        "A source gets a column that a new view reads: look for what is read again and\n"
        "computed again, which is orders and all that is made from it, not customers.",
        ("headrace plan",),
        (
            Edit(
                "headrace.yml",
                "      total: bigint\n",
                "      total: bigint\n      channel: {type: string, distinct: 4}\n",
            ),
            Edit(
                "headrace.yml",
                "\ncontracts:\n",
                "\ncontracts:\n  online: {view: sales_by_channel, at: us, freshness: 30 s}\n",
            ),
            Edit(
                "views/sales_by_channel.sql",
                "",
                "SELECT channel, sum(total) AS total\nFROM orders\nGROUP BY channel\n",
            ),
        ),
        ("headrace apply --dry-run",),
    ),
    Situation(
        "a-feed-is-planned",
        "A feed is three views and a store: look for home, which is stored ahead for\n"
        "everybody because pages are read often, and for what would be pulled if not.",
        (
            "headrace plan",
            "headrace why home",
            "headrace why 'home:anna<-bob'",
            "headrace whatif home --freshness 1s",
        ),
        (Edit("headrace.yml", "reads: 500 /s", "reads: 10 /s"),),
        ("headrace why 'home:anna<-bob'",),
    ),
)


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda one: one.name)
def test_a_page_shows_what_people_see(
    situation: Situation, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(PLANS / situation.name, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("page.txt"))
    monkeypatch.chdir(tmp_path)
    parts = [
        f"# {situation.look_for}".replace("\n", "\n# "),
        *(_console(f"cat {file}", file.read_text()) for file in _files()),
    ]
    parts += [_console(command, _printed(command, capsys)) for command in situation.commands]
    if situation.edits:
        if any("dry-run" in command for command in situation.then):
            _let_run(Path())
        parts += [_console("git diff", _edit(situation.edits))]
        parts += [_console(command, _printed(command, capsys)) for command in situation.then]
    page = "\n\n".join(parts) + "\n"
    assert max(map(len, page.splitlines())) <= 80
    assert not re.search(r"\b[rd]:\S+@|~[0-9a-f]{6}", page), "people never see ids of datasets"
    check_golden(PLANS / situation.name / "page.txt", page)
    # A page is not the only judge: its plan is also checked from its edges alone.
    run(["plan", "--json"])
    Path("plan.json").write_text(capsys.readouterr().out)
    assert run(["check-plan", "plan.json"]) == 0


def test_every_project_has_its_page() -> None:
    assert {folder.name for folder in PLANS.iterdir()} == {situation.name for situation in SITUATIONS}


def _files() -> list[Path]:
    return [Path("headrace.yml"), *sorted(Path("views").glob("*"))]


def _console(command: str, printed: str) -> str:
    return f"$ {command}\n{printed.rstrip()}"


def _printed(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    run(shlex.split(command)[1:])
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out


def _let_run(project: Path) -> None:
    plan, folder = plan_project(project, {}, PlanOptions()), Folder(project)
    folder.prepare()
    folder.save_running(plan, plan_document(plan))
    write_existing(folder, plan)


def _edit(edits: tuple[Edit, ...]) -> str:
    """Makes the edits; what they change, as a person reviews it."""
    before = {file: file.read_text() for file in _files()}
    for edit in edits:
        file = Path(edit.file)
        text = file.read_text() if file.exists() else ""
        assert edit.old in text
        file.write_text(text.replace(edit.old, edit.new, 1))
    return "\n".join(
        line
        for file in _files()
        for line in difflib.unified_diff(
            before.get(file, "").splitlines(),
            file.read_text().splitlines(),
            f"a/{file}" if file in before else "/dev/null",
            f"b/{file}",
            n=1,
            lineterm="",
        )
    )
