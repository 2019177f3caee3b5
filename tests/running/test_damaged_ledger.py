"""The ledger of a running project is damaged: the service ends and says why, and without it all is read anew."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headrace.connect.ledger.sqlite import open_sqlite
from headrace.doors.cli import main
from headrace.model.errors import DamagedLedger
from headrace.site.folder import Folder
from headrace.site.scrub import Scrub
from tests.connect.ledger.test_damaged_ledger import overwrite_page, write_ledger
from tests.running.running_project import RunningProject, until
from tests.running.test_folder_sources import PROJECT, write_file

PAGE = 4096


@pytest.fixture
def clicks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[RunningProject]:
    (tmp_path / "project" / "views").mkdir(parents=True)
    (tmp_path / "project" / "headrace.yml").write_text(PROJECT)
    (tmp_path / "project" / "views" / "totals.sql").write_text("SELECT n, count(*) AS c FROM clicks GROUP BY n")
    (tmp_path / "data" / "in").mkdir(parents=True)
    monkeypatch.setenv("CLICKS", str(tmp_path / "data"))
    project = RunningProject(tmp_path / "project", None, None, capsys)  # type: ignore[arg-type]
    yield project
    main.run(["down", str(project.folder)])


@pytest.mark.long
def test_a_ledger_that_is_damaged_while_the_service_runs_ends_it_with_the_reason(
    clicks: RunningProject, tmp_path: Path
) -> None:
    write_file(tmp_path / "data" / "in", "a.csv", 1, 1, 2)
    clicks.up()
    until(lambda: clicks.rows("totals") == [(1, 2), (2, 1)], "the rows of the file are there")
    ledger = clicks.folder / ".headrace" / "ledger.db"
    for path in (ledger, ledger.with_name("ledger.db-wal")):
        with path.open("r+b") as file:
            for page in range(PAGE, path.stat().st_size, PAGE):
                file.seek(page + 200)
                file.write(b"\xff" * 1_500)
    until(lambda: clicks.document("status")["service"]["state"] == "failed", "the service has ended")
    (contract,) = clicks.document("status")["contracts"]
    assert contract["state"] == "stopped" and f'the ledger "{ledger}" is damaged' in contract["reason"]
    said = clicks.headrace("up", "--engine=local", status=2)
    assert f'the ledger "{ledger}" is damaged' in said and "move this file" in said and "Traceback" not in said
    for path in ledger.parent.glob("ledger.db*"):
        path.rename(tmp_path / path.name)
    clicks.up()
    until(lambda: clicks.rows("totals") == [(1, 2), (2, 1)], "all is read anew")


def test_the_scrub_finds_damage_of_the_ledger_that_an_open_connection_does_not_read(tmp_path: Path) -> None:
    folder, stop = Folder(tmp_path), threading.Event()
    file = folder.root / "ledger.db"
    write_ledger(file)
    with closing(open_sqlite(file)) as ledger:
        lease, logs = ledger.acquire("service", "b", 10), ledger.logs()
        overwrite_page(file)
        assert ledger.logs() == logs, "the connection holds the pages that it has read"
        scrub = Scrub(ledger, lease, folder.store(), stop, folder.check_ledger)
        giving_up = threading.Timer(20.0, stop.set)  # one that finds nothing would go on for ever
        giving_up.start()
        with pytest.raises(DamagedLedger, match="is damaged"):
            scrub.run()
        giving_up.cancel()
