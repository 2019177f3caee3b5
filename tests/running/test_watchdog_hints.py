"""Nobody is told to start a service anew that waits for rows of another site."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from headrace.connect.ledger.sqlite import open_sqlite
from headrace.model.log import Commit, Edit
from headrace.run.capture.spool import SPOOL
from headrace.site.auditor import WatchedContract
from headrace.site.engine import watchdog
from headrace.site.engine.standstill import StandstillLimits
from headrace.site.engine.watchdog import RESTART, EngineWatch, Watchdog
from headrace.site.importing import UNREAD
from headrace.site.push_state import PushState
from headrace.site.troubles import SITE, STANDSTILL, Troubles
from headrace.site.unloaded import Unloaded
from tests.run.test_crashes import VIEWS
from tests.run.test_sites import apart
from tests.running.running_project import until


def test_what_waits_for_another_site_is_not_mended_by_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "LOOK_EVERY_S", 0.01)
    sites = apart(VIEWS, "m2", tmp_path / "world")
    program = sites.worlds["m2"].program
    vertex = next(one.vertex for one in sites.plan.contracts if program.imports_of([one.vertex]))
    read = program.imports_of([vertex])
    origin = min(program.imports[name].origin for name in read)
    ledger, stop, troubles = open_sqlite(tmp_path / "ledger.db"), threading.Event(), Troubles()
    sources = frozenset(
        name.removeprefix(SPOOL)
        for one in program.upstream([vertex])
        for name in program.tasks[one].reads
        if name.startswith(SPOOL)
    )
    lease = ledger.acquire("service", "test", 600.0)
    there = dict.fromkeys((*read, *(SPOOL + source for source in sources)), 100) | {vertex: 50}
    ledger.commit(lease, Commit(edits=tuple(Edit(name, None, t) for name, t in there.items())))
    watched = WatchedContract("wall", vertex, 4.0, 0.0, (), sources)
    state = SimpleNamespace(
        running=SimpleNamespace(watched=(watched,)), program=program, halted={}, why_failing=lambda _: None
    )
    watching = Watchdog(
        lambda: open_sqlite(tmp_path / "ledger.db"),
        lambda: cast(PushState, state),
        Unloaded(),
        troubles,
        lambda: None,
        stop,
        EngineWatch(limits=StandstillLimits(least_s=0.0, times=0.0)),
    ).start()

    def hint() -> str:
        found = troubles.get(f"{STANDSTILL}wall")
        return "" if found is None else found.hint

    try:
        until(lambda: hint() == RESTART, "nothing is known of a reason")
        troubles.report(UNREAD, "changes that views have not read take 9 of the 10 MB that changes may take here")
        until(lambda: "no room" in hint() and "does not help" in hint(), "the room is the reason")
        assert "headrace down" not in hint()
        troubles.report(SITE + origin, f'site "{origin}" has not answered for 40 s')
        until(lambda: f'site "{origin}"' in hint() and "does not help" in hint(), "the site is the reason")
        assert "headrace down" not in hint()
        troubles.clear(UNREAD)
        troubles.clear(SITE + origin)
        until(lambda: hint() == RESTART, "that is over")
    finally:
        stop.set()
        watching.join(10)
        ledger.close()
