"""What people post is nowhere else: a damaged file never takes other rows along, and status says what can be done."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from headrace.connect.files import FileStore
from headrace.connect.ledger.sqlite import open_sqlite
from headrace.coordinate.host import ServiceHost
from headrace.model.damage import DamagedFile
from headrace.model.event_wire import EventsAsked
from headrace.model.log import PieceKind
from headrace.model.trouble import Trouble
from headrace.site.service import Service
from headrace.site.troubles import DAMAGE
from headrace.testing.damage import flip_bit
from tests.running.running_project import until
from tests.running.test_feed_pages import Social


@pytest.fixture
def social(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Social:
    """Anna and Dora follow Bob, who has posted; nothing runs."""
    monkeypatch.setattr("headrace.site.repairs.LOOK_AGAIN_S", 0.2)
    social = Social(tmp_path)
    with social.running() as service:
        social.follow("anna", "bob")
        social.follow("dora", "bob")
        for minute in range(5):
            social.post("bob", minute)
        social.until_equal(service, "sees posts")
        until(lambda: _build_indexes(social, service), "there is an index alone")
    return social


def _build_indexes(social: Social, service: Service) -> bool:
    """Builds what is due, since an index that is still to be built would need rows that are damaged. Whether one is
    there that is no rows' other name: on a busy machine, upkeep is not that far at first.
    """
    kept = service.housekeeping._kept_up
    assert kept is not None
    with service.turns.upkeep:
        kept.upkeep.build_keys()
    return bool(split_files(social)[1])


def find_files(social: Social) -> tuple[set[Path], set[Path]]:
    rows, alone = split_files(social)
    assert rows and alone
    return rows, alone


def split_files(social: Social) -> tuple[set[Path], set[Path]]:
    """Files of the log that holds what people have posted: those with its rows, and those of indexes alone.

    Rows and the first index are one file with two names.
    """
    root = social.folder.root
    with closing(open_sqlite(root / "ledger.db")) as ledger:
        log = ledger.logs()["r:home/events@us"]
    rows = {root / "data" / log.site / piece.file for piece in log.contents}
    indexes = {root / "data" / log.site / piece.file for piece in log.of_kind(PieceKind.INDEX)}
    return rows, {one for one in indexes if not any(one.samefile(other) for other in rows)}


def flip_all(files: set[Path]) -> None:
    """Done twice, it is as it was."""
    for file in files:
        flip_bit(file, file.stat().st_size // 2, 3)


def damage_of(service: Service) -> list[Trouble]:
    return [one for key, one in service.troubles.all().items() if key.startswith(DAMAGE)]


def kinds_of(service: Service) -> list[str]:
    return [one.event.kind for one in service.ledger.events(EventsAsked(limit=1000))]


def are_lost(service: Service) -> bool:
    """Whether status says of both names of the file what only a person can do."""
    hints = [one.hint for one in damage_of(service)]
    return len(hints) == 2 and all("nobody else has" in one and "reread home/events" in one for one in hints)


def test_an_index_is_not_given_up_for_rows_that_are_damaged_as_well(social: Social) -> None:
    """Rows and the first index are one file, of which only the name of the index was looked at."""
    rows, _ = find_files(social)
    root = social.folder.root
    with closing(open_sqlite(root / "ledger.db")) as ledger:
        log = ledger.logs()["r:home/events@us"]
    store = FileStore(root / "data")
    together = [
        piece
        for piece in log.of_kind(PieceKind.INDEX)
        if any((root / "data" / log.site / piece.file).samefile(other) for other in rows)
    ]
    flip_all(rows)
    for piece in together:
        with pytest.raises(DamagedFile):
            list(store.check_slowly(log.site, piece.stored))
    with social.running() as service:
        until(lambda: are_lost(service), "the damage is told")
        social.until_equal(service, "sees what there was")


def test_posts_outlive_damaged_rows_and_status_says_that_nobody_else_has_them(social: Social) -> None:
    rows, _ = find_files(social)
    flip_all(rows)
    with social.running() as service:
        until(lambda: are_lost(service), "the damage is told")
        social.until_equal(service, "sees what there was")
        social.post("bob", 7)
    with social.running() as service:
        until(lambda: are_lost(service), "it is still told after a restart")
        flip_all(rows)
        until(lambda: damage_of(service) == [], "somebody has put the file back")
        social.delete("bob", 3)
        social.until_equal(service, "goes on, with what was posted meanwhile")
        assert "read again" not in kinds_of(service)


def test_a_damaged_index_of_posts_is_made_again_from_them(social: Social) -> None:
    flip_all(find_files(social)[1])
    with social.running() as service:
        until(lambda: "file damaged" in kinds_of(service), "the damage is found")
        until(lambda: damage_of(service) == [], "it is mended")
        social.post("bob", 7)
        social.post("bob", 4, "edited")
        social.until_equal(service, "sees all")
        assert "read again" not in kinds_of(service)


def test_who_gives_up_lost_posts_goes_on_with_new_ones(social: Social) -> None:
    """Rows and indexes are damaged, so that nothing can be posted either."""
    flip_all(set.union(*find_files(social)))
    with social.running() as service:
        until(lambda: any("nobody else" in one.hint for one in damage_of(service)), "the damage is told")
        social.until_equal(service, "sees what there was")
        ServiceHost(service, social.folder, lambda _: pytest.fail("nothing is applied")).reread("home/events")
        social.events.clear()
        social.post("bob", 9)
        social.until_equal(service, "sees what is new, and nothing else")
        until(lambda: damage_of(service) == [], "nothing is wrong any more")
