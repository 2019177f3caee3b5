"""Views that are not what their queries say are found in the background, named, and rebuilt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.connect.postgres.sample import SampleLoad
from headrace.doors.api.metrics import metrics_text
from headrace.model.log import PieceKind
from headrace.model.notes import ViewDiffers, note_keys
from headrace.run.check.rota import CheckFinding, CheckKind
from headrace.run.compile.columns import serving_log
from tests.running.checked_world import CheckedWorld, spoil_row
from tests.running.running_project import until
from tests.running.shop import PROJECT, make_shop
from tests.running.test_recompute import HABITS

CONTRACTS = (
    "  wall: {view: wall, at: us, freshness: 5 s}\n  scores: {view: scores, at: eu, freshness: 5 s}\n"
    "  names: {view: names, at: us, freshness: 5 s}\n"
)


@pytest.fixture
def world(tmp_path: Path, postgres_database: Callable[[], str]) -> Iterator[CheckedWorld]:
    environment = make_shop(tmp_path, PROJECT + CONTRACTS, postgres_database)
    (tmp_path / "views" / "names.sql").write_text("SELECT uid, name FROM users WHERE uid > 3")
    made = CheckedWorld(tmp_path, environment)
    try:
        made.load()
        yield made
    finally:
        made.service.close()


def vertex_of(world: CheckedWorld, contract: str) -> str:
    entry = next(one for one in world.plan.contracts if one.contract == contract)
    return serving_log(world.reader.program, entry)


def differing(world: CheckedWorld) -> list[str]:
    return note_keys(world.service.ledger, ViewDiffers)


def test_a_wrong_row_in_a_view_is_found_named_and_repaired_while_people_write(world: CheckedWorld) -> None:
    load = SampleLoad(world.environment, HABITS)
    load.start()
    world.check_all()
    assert {one["found"] for one in world.status()["checks"]["subjects"] if one["kind"] == "view"} == {"equal"}
    city = world.reader.program.logs[vertex_of(world, "scores")].columns[0].name
    harms = (
        ("wall", lambda rows: rows.slice(1)),
        ("scores", spoil_row(city, "city3", city, "city")),
        ("names", lambda rows: rows.slice(0, 0)),
    )
    for contract, harm in harms:
        world.replace_rows(vertex_of(world, contract), harm)
        world.check_until_found(ViewDiffers, contract)
        assert world.state(contract) == "failing"
        assert f'headrace_check_differs{{kind="view",name="{contract}"}} 1.0' in metrics_text(world.host)
        said = f'the view of contract "{contract}" differs from its query: '
        assert len([one for one in world.troubles() if one.startswith(said)]) == 1
        world.check_until(lambda: differing(world) == [], f"{contract} is repaired")
        world.check_until_kept(contract)
    load.stop()
    assert load.error is None
    world.check_all()
    assert all(world.record(CheckKind.VIEW, one).finding is CheckFinding.EQUAL for one, _ in harms)
    told = world.events()
    assert told.count("view differs") == told.count("view repaired") == 3
    check_that_what_does_not_change_is_not_looked_at_again(world)
    check_that_a_view_that_stays_wrong_is_loaded_anew(world)


def check_that_what_does_not_change_is_not_looked_at_again(world: CheckedWorld) -> None:
    """Counters that a database tells late count as changes, and so do files that upkeep replaces; then nothing does."""

    def is_skipped() -> bool:
        passed = world.passes()
        world.check_all()
        return world.passes() == passed and all(passed.values())

    until(is_skipped, "all is skipped")


def check_that_a_view_that_stays_wrong_is_loaded_anew(world: CheckedWorld) -> None:
    """The second time on a day the whole log goes, indexes and all."""
    name = vertex_of(world, "wall")
    files = {piece.file for piece in world.log_of(name).pieces}
    world.replace_rows(name, lambda rows: rows.slice(1), (PieceKind.BASE, PieceKind.CHANGE))
    world.check_until_found(ViewDiffers, "wall")
    world.check_until(lambda: differing(world) == [], "wall is loaded anew")
    assert files.isdisjoint(piece.file for piece in world.log_of(name).pieces)
    assert "left out" in world.events()
