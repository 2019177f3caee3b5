"""Copies are asked for where the plan that runs has them come from."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pytest

from headrace.connect.ledger.sqlite import open_sqlite
from headrace.connect.wire.snapshot_files import SnapshotFiles
from headrace.model.link_counts import LinkCounts
from headrace.model.log import Commit, Edit
from headrace.model.wish import CopyWish
from headrace.run.ports import Ledger
from headrace.run.program import Program
from headrace.run.push.engine import Engine, NotThereYet
from headrace.run.push.exports import SentChanges
from headrace.site.importing import Importing, SitePeer
from headrace.site.received_contents import ReceivedContents
from headrace.site.threads import GuardedThreads
from headrace.site.troubles import Troubles
from headrace.site.turns import Turns
from tests.run.test_crashes import VIEWS
from tests.run.test_sites import apart
from tests.running.running_project import until


@dataclass
class AskedPeer:
    """Answers that nothing is there yet, and keeps what it was asked for. Only what a copy needs is there."""

    asked: list[str] = field(default_factory=list)

    def hear_reach(self) -> Mapping[str, int]:
        return {}

    def look_at_link(self) -> LinkCounts:
        return LinkCounts(())

    def read_changes(self, copy: str, after: int, wish: CopyWish, within_s: float) -> SentChanges:
        self.asked.append(copy)
        raise NotThereYet("it has not got that far")


@dataclass
class RunningProgram:
    """What runs, as far as whoever brings copies looks at it."""

    program: Program


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = open_sqlite(tmp_path / "ledger.db")
    yield opened
    opened.close()


def test_a_copy_that_comes_from_another_site_now_is_asked_for_there(tmp_path: Path, ledger: Ledger) -> None:
    program = apart(VIEWS, "m2", tmp_path / "world").worlds["m2"].program
    copy = min(program.imports.values(), key=lambda one: one.name)
    before, then = copy.origin, next(site for site in ("m1", "m3") if site != copy.origin)
    lease = ledger.acquire("service", "test", 1e9)
    ledger.commit(lease, Commit(edits=(Edit(copy.name, None, 0),)))
    running, peers = RunningProgram(program), {name: AskedPeer() for name in ("m1", "m3")}
    stop = threading.Event()
    importing = Importing(
        "m2",
        lambda name: cast(SitePeer, peers[name]),
        ledger,
        Turns(),
        Troubles(),
        GuardedThreads(stop),
        lambda: cast(Engine, running),
        lambda *_: None,
        lambda: 1_000_000,
        ReceivedContents(SnapshotFiles(tmp_path / "received"), lambda: 0),
    )
    try:
        importing.want(copy.name, 100, 1_000_000)
        until(lambda: copy.name in peers[before].asked, "it is asked for where it comes from")
        assert importing.find_under_way() == {copy.name}
        running.program = replace(program, imports={**program.imports, copy.name: replace(copy, origin=then)})
        assert importing.find_under_way() == frozenset()
        importing.want(copy.name, 100, 1_000_000)
        until(lambda: copy.name in peers[then].asked, "it is asked for where it comes from now")
        number = len(peers[before].asked)
        until(lambda: len(peers[then].asked) >= 3, "it is asked for again and again")
        assert len(peers[before].asked) <= number + 1, "nobody is asked who does not have it"
    finally:
        stop.set()
        importing.tell_to_end()
