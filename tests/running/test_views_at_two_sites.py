"""A view that contracts keep at several sites is shown as it was at a time by the site that knows its rows of then."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.app import reading
from headrace.model.errors import UsageError
from headrace.model.log import Commit, Edit
from headrace.model.options import SitesMode
from headrace.plan.document import plan_document
from headrace.run.compile.columns import serving_log
from headrace.site.folder import Folder
from headrace.site.running import make_running
from headrace.site.site_folders import note_sites, site_folder
from tests.running.test_apart import SMALL, prepare_apart

TWO = SMALL.split("contracts:")[0].replace(
    "columns:", "postgres: {dsn: postgresql://nowhere, table: users}, columns:"
) + ("contracts:\n  far: {view: named, at: us, freshness: 40 s}\n  near: {view: named, at: eu, freshness: 4 s}\n")


def kept_from_to(project: Folder, at: dict[str, tuple[int, int]]) -> None:
    """Each site has run, and keeps the changes of its view from one time to another."""
    (project.project / "views").mkdir()
    (project.project / "views" / "named.sql").write_text("SELECT name, count(*) AS n FROM users GROUP BY name")
    (project.project / "headrace.yml").write_text(TWO)
    plan = prepare_apart(project.project).plan
    project.prepare()
    note_sites(project, tuple(at), SitesMode.PROCESSES)
    project.save_running(plan, plan_document(plan))
    for site, (start, upto) in at.items():
        here, part = site_folder(project, site), plan.at_site(site)
        here.prepare()
        here.save_running(part, plan_document(part))
        (entry,) = part.contracts
        log = serving_log(make_running(part, {}).program, entry)
        ledger = here.ledger()
        lease = ledger.acquire("service", "test", 600.0)
        ledger.commit(lease, Commit(edits=(Edit(log, None, start),)))
        ledger.commit(lease, Commit(edits=(Edit(log, start, upto),)))
        ledger.release(lease)
        ledger.close()


def test_rows_at_a_time_come_from_the_site_that_knows_them(tmp_path: Path) -> None:
    kept_from_to(Folder(tmp_path), {"us": (100, 200), "eu": (150, 300)})
    shown = {at: reading.show(tmp_path, "named", at=at) for at in (120, 180, 250)}
    assert {at: (one.contract, one.as_of) for at, one in shown.items()} == {
        120: ("far", 120),
        180: ("far", 180),
        250: ("near", 250),
    }
    assert reading.read("near", tmp_path, at=250).num_rows == 0
    with pytest.raises(UsageError, match=r'"far" are known up to .*000200Z, not at'):
        reading.show(tmp_path, "far", at=250)
    for at in (50, 400):
        with pytest.raises(UsageError, match=r'the rows of "named" are k'):
            reading.show(tmp_path, "named", at=at)


def test_a_site_that_has_not_run_yet_hides_no_other_one(tmp_path: Path) -> None:
    kept_from_to(Folder(tmp_path), {"eu": (150, 300)})
    assert reading.show(tmp_path, "named", at=250).contract == "near"
