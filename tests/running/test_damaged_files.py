"""Files of a project that are damaged, while its service runs and while it does not: named, rebuilt, and never read."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headrace.connect.ledger.sqlite import open_sqlite
from headrace.doors.cli import main
from headrace.testing.damage import cut_short, flip_bit, swap_files
from tests.running.running_project import RunningProject, recomputed, until

VIEWS = ("named", "counts")


def files_of(project: RunningProject) -> dict[str, list[Path]]:
    """The files that logs name, by the kind of log and piece; those of the newest first."""
    root = project.folder / ".headrace"
    with closing(open_sqlite(root / "ledger.db")) as ledger:
        found: dict[str, list[Path]] = {}
        for name, log in ledger.logs().items():
            kind = "spool" if name.startswith("spool:") else "state" if "#" in name else name.partition(":")[0]
            for piece in reversed(log.pieces):
                found.setdefault(f"{kind} {piece.kind}", []).append(root / "data" / log.site / piece.file)
    return found


def damage_one_of_each(project: RunningProject, damage: Callable[[Path], None]) -> list[Path]:
    """A file of each kind that the project has; one file may be of several."""
    chosen = sorted({paths[0] for paths in files_of(project).values()})
    for path in chosen:
        damage(path)
    return chosen


def flip_middle(path: Path) -> None:
    flip_bit(path, path.stat().st_size // 2, 3)


def statuses(project: RunningProject) -> tuple[dict[str, Any], set[str]]:
    """What `status` says, and the contracts that it says are kept."""
    found = project.document("status")
    return found, {one["id"] for one in found["contracts"] if one["state"] == "kept"}


def read_rows(project: RunningProject, view: str) -> list[tuple[object, ...]] | None:
    """None if it cannot be read just now."""
    project.out.readouterr()
    status = main.run(["show", view, str(project.folder), "--json"])
    said = project.out.readouterr().out
    assert "Traceback" not in said
    return None if status else sorted(tuple(row) for row in json.loads(said)["rows"])


def until_mended(project: RunningProject, damaged: list[Path]) -> None:
    """Nobody writes to the sources meanwhile: a view that can be read is right, whatever its state."""
    expected = {view: project.expected(view) for view in VIEWS}

    def is_mended() -> bool:
        for view in VIEWS:
            rows = read_rows(project, view)
            assert rows is None or rows == expected[view], f"{view} is wrong"
        said, kept = statuses(project)
        named = {path for paths in files_of(project).values() for path in paths}
        return kept == set(VIEWS) and not said["troubles"] and not named & set(damaged)

    until(is_mended, "what the damaged files held is made again", every_s=0.5)


ON_SPARK = pytest.param("spark", marks=[pytest.mark.long, pytest.mark.timeout(1200)])


@pytest.mark.long
@pytest.mark.parametrize("engine", ["local", ON_SPARK])
def test_damaged_files_are_named_and_rebuilt_while_the_service_runs_and_when_it_starts(
    project: RunningProject, engine: str
) -> None:
    project.declare(*VIEWS)
    project.up(engine)
    project.until_equal(*VIEWS)
    kinds = {"spool change", "r base", "r run", "state run", "d change"}
    for number in (20, 30):
        project.change_something(number + 1000)
        project.until_equal(*VIEWS)
    assert kinds <= files_of(project).keys(), files_of(project).keys()
    for number, damage in ((2000, flip_middle), (2100, Path.unlink)):
        damaged = damage_one_of_each(project, damage)
        until_mended(project, damaged)
        project.change_something(number)
        project.until_equal(*VIEWS)
    told = [one for one in project.events() if one["kind"] in ("file damaged", "file rebuilt")]
    texts = " ".join(one["text"] for one in told)
    assert any(path.name in texts for path in damaged), texts
    assert "is damaged" in texts and "is missing" in texts
    project.headrace("down")
    damaged = damage_one_of_each(project, cut_short)
    both = [paths for paths in files_of(project).values() if len(paths) > 3]
    for paths in both:
        if not {paths[1], paths[2]} & set(damaged):
            swap_files(paths[1], paths[2])
            damaged += [paths[1], paths[2]]
    project.up(engine)
    until_mended(project, damaged)
    project.change_something(3000)
    project.until_equal(*VIEWS)
    assert all(one["equal"] for one in recomputed(project))
    # A view that is new has to be loaded from files that are damaged, before anything runs.
    project.headrace("down")
    project.declare(*VIEWS, "by_body")
    damaged = damage_one_of_each(project, flip_middle)
    for path in {path for kind, paths in files_of(project).items() if kind.startswith("r ") for path in paths}:
        if path not in damaged:
            flip_middle(path)
    project.up(engine)
    project.until_equal(*VIEWS, "by_body")
    assert all(one["equal"] for one in recomputed(project))
