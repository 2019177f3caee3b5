"""A damaged ledger is said to be damaged: which file, what is wrong, what to do. Never a traceback."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.connect.ledger.sqlite import check_sqlite, open_sqlite
from headrace.doors.cli import main
from headrace.model.errors import ConnectError, DamagedLedger, Fenced, LeaseHeld
from headrace.model.event_wire import EventsAsked
from headrace.model.events import ServiceStarted
from headrace.model.log import Commit, Edit, Piece, PieceKind
from headrace.model.notes import LogKeys, WantedTime, read_notes
from headrace.testing.damage import cut_short, flip_bit
from headrace.testing.worlds import quick_folder


def write_ledger(file: Path) -> None:
    with closing(open_sqlite(file)) as ledger:
        lease = ledger.acquire("service", "a", 10)
        for number in range(40):
            pieces = tuple(Piece(PieceKind.INDEX, f"f{n}", 0, 1, 3, 100, ("x.a",)) for n in range(10))
            edit = Edit(f"d:{number}@us", None, 1, pieces, site="us")
            notes = WantedTime(number), LogKeys(f"d:{number}@us", (("x.a",),))
            ledger.commit(lease, Commit((edit,), notes, events=(ServiceStarted(number, number),)))
        ledger.release(lease)


def use_ledger(file: Path) -> None:
    """All that a service asks."""
    with closing(open_sqlite(file)) as ledger:
        lease = ledger.acquire("service", "b", 1e9)
        ledger.logs()
        ledger.times()
        ledger.files()
        read_notes(ledger, LogKeys)
        ledger.events(EventsAsked())
        ledger.commit(lease, Commit(notes=(WantedTime(1),), events=(ServiceStarted(1, 1),)))


def find_complaint(act: Callable[[Path], None], file: Path) -> ConnectError | None:
    try:
        act(file)
    except ConnectError as error:
        return error
    except (LeaseHeld, Fenced):  # a bit of the lease flipped
        return None
    return None


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 7)), min_size=1, max_size=5))
def test_whatever_bits_flip_in_the_ledger_it_is_used_or_said_to_be_unusable(places: list[tuple[float, int]]):
    with quick_folder() as folder:
        file = Path(folder) / "ledger.db"
        write_ledger(file)
        for where, bit in places:
            flip_bit(file, int(where * file.stat().st_size), bit)
        for act in (check_sqlite, use_ledger):
            said = find_complaint(act, file)
            assert said is None or (str(file) in said.message and said.hint)


def overwrite_start(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.write(b"not a database" * 10)


def overwrite_page(file: Path) -> None:
    """A page in the middle."""
    with file.open("r+b") as opened:
        opened.seek(4096 * (file.stat().st_size // 8192))
        opened.write(b"\xff" * 4096)


@pytest.mark.parametrize(
    ("command", "damage"),
    [("up", overwrite_start), ("up", overwrite_page), ("doctor", cut_short), ("events", overwrite_start)],
)
def test_commands_name_a_damaged_ledger_and_what_to_do(
    tmp_path: Path, command: str, damage: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / ".headrace" / "ledger.db"
    write_ledger(file)
    damage(file)
    with pytest.raises(DamagedLedger):
        check_sqlite(file)
    (tmp_path / "headrace.yml").write_text("project: p\nsites: {us: {}}\n")
    status = main.run([command, str(tmp_path), "--json"])
    said = capsys.readouterr()
    found = json.dumps(json.loads(said.out))
    assert status in (1, 2) and "Traceback" not in said.err
    assert f'the ledger \\"{file}\\" is damaged' in found and "move this file" in found
