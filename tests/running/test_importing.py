"""Copies are asked for where the plan that runs has them come from."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from headrace.connect.ledger.sqlite import open_sqlite
from headrace.connect.wire.snapshot_files import SnapshotFiles
from headrace.meaning.zset import ZSet
from headrace.model.catalogue import Link
from headrace.model.errors import ConnectError, Location
from headrace.model.link_counts import LinkCounts
from headrace.model.log import Commit, Edit
from headrace.model.wish import CopyWish, HeardReach
from headrace.run.ports import Ledger
from headrace.run.program import Program
from headrace.run.push.engine import Engine, NotThereYet
from headrace.run.push.exports import SentChanges
from headrace.run.push.imports import count_unread
from headrace.site import importing
from headrace.site.importing import Importing, SitePeer
from headrace.site.received_contents import ReceivedContents
from headrace.site.threads import GuardedThreads
from headrace.site.troubles import DISK, SITE, Troubles
from headrace.site.turns import Turns
from tests.run.sites_world import SitesWorld
from tests.run.test_crashes import VIEWS
from tests.run.test_sites import apart
from tests.running.running_project import until


@dataclass
class AskedPeer:
    """Answers that nothing is there yet, and keeps what it was asked for. Only what a copy needs is there."""

    asked: list[str] = field(default_factory=list)
    is_ending: bool = False
    heard: int = 0

    def hear_reach(self) -> HeardReach:
        self.heard += 1
        return HeardReach({}, self.is_ending)

    def look_at_link(self) -> LinkCounts:
        return LinkCounts(())

    def read_changes(self, copy: str, after: int, wish: CopyWish, within_s: float) -> SentChanges:
        self.asked.append(copy)
        raise NotThereYet("it has not got that far")


@dataclass
class SitePeers:
    """Other sites of a world, that answer at once with what they have, and keep what they were asked for."""

    sites: SitesWorld
    site: str
    asked: list[str] = field(default_factory=list)

    def hear_reach(self) -> HeardReach:
        return HeardReach({})

    def look_at_link(self) -> LinkCounts:
        return LinkCounts(())

    def read_changes(self, copy: str, after: int, wish: CopyWish, within_s: float) -> SentChanges:
        self.asked.append(copy)
        origin = self.sites.origin(self.site, copy)
        self.sites.push(origin, list(self.sites.worlds[self.site].program.imports[copy].task.reads), wish.t)
        segment = self.sites.exports(origin).read_changes(copy, after)
        return SentChanges(segment, segment.rows.nbytes)


@dataclass
class RunningProgram:
    """What runs, as far as whoever brings copies looks at it."""

    program: Program


def make_importing(
    ledger: Ledger,
    engine: RunningProgram | Engine,
    find_peer: Callable[[str], object],
    stop: threading.Event,
    folder: Path,
    troubles: Troubles | None = None,
    **more: Any,
) -> Importing:
    """What brings copies to site m2."""
    return Importing(
        "m2",
        lambda name: cast(SitePeer, find_peer(name)),
        ledger,
        Turns(),
        Troubles() if troubles is None else troubles,
        GuardedThreads(stop),
        lambda: cast(Engine, engine),
        lambda *_: None,
        lambda: 1_000_000,
        ReceivedContents(SnapshotFiles(folder / "received"), lambda: 0),
        **more,
    )


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
    bringing = make_importing(ledger, running, peers.__getitem__, stop, tmp_path)
    try:
        bringing.want(copy.name, 100, 1_000_000)
        until(lambda: copy.name in peers[before].asked, "it is asked for where it comes from")
        assert bringing.find_under_way() == {copy.name}
        running.program = replace(program, imports={**program.imports, copy.name: replace(copy, origin=then)})
        assert bringing.find_under_way() == frozenset()
        bringing.want(copy.name, 100, 1_000_000)
        until(lambda: copy.name in peers[then].asked, "it is asked for where it comes from now")
        number = len(peers[before].asked)
        until(lambda: len(peers[then].asked) >= 3, "it is asked for again and again")
        assert len(peers[before].asked) <= number + 1, "nobody is asked who does not have it"
    finally:
        stop.set()
        bringing.tell_to_end()


@dataclass
class AwayPeer(AskedPeer):
    """Does not answer for as long as it is away. A question for changes is as quick as the one how far it is."""

    is_away: bool = False
    reach: Mapping[str, int] = field(default_factory=dict)

    def hear_reach(self) -> HeardReach:
        if self.is_away:
            raise ConnectError("it does not answer")
        self.heard += 1
        return HeardReach(self.reach, self.is_ending)

    def read_changes(self, copy: str, after: int, wish: CopyWish, within_s: float) -> SentChanges:
        self.asked.append(copy)
        raise ConnectError("it does not answer") if self.is_away else NotThereYet("it has not got that far")


def test_a_site_that_answers_again_is_asked_at_once_by_all_who_had_given_up_for_a_while(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "BACKOFF_S", (3600.0,))  # it would be asked again when the test is long over
    monkeypatch.setattr(importing, "HEAR_SILENT_EVERY_S", 0.01)
    program = apart(VIEWS, "m2", tmp_path / "world").worlds["m2"].program
    copies = {copy.name for copy in program.imports.values() if copy.origin == "m1"}
    lease = ledger.acquire("service", "test", 1e9)
    ledger.commit(lease, Commit(edits=tuple(Edit(name, None, 0) for name in copies)))
    peer, stop = AwayPeer(is_away=True), threading.Event()
    bringing = make_importing(
        ledger, RunningProgram(program), lambda name: peer if name == "m1" else AskedPeer(), stop, tmp_path
    )
    try:
        bringing.reach()
        until(lambda: bringing.find_silent() == {"m1"}, "it is silent")
        for name in copies:
            bringing.want(name, 100, 1_000_000)
        until(lambda: set(peer.asked) == copies, "each is asked for once")
        peer.is_away = False
        until(lambda: not bringing.find_silent(), "it answers again")
        until(lambda: all(peer.asked.count(name) > 1 for name in copies), "each is asked for again")
    finally:
        stop.set()
        bringing.tell_to_end()


@dataclass
class TellingPeer(AskedPeer):
    """Says how far copies can be brought, until it does not answer any more."""

    times: dict[str, int] = field(default_factory=dict)
    is_silent: bool = False

    def hear_reach(self) -> HeardReach:
        self.heard += 1
        if self.is_silent:
            raise ConnectError("it does not answer")
        return HeardReach(dict(self.times))


@pytest.mark.parametrize("gone", ["m1", "m3"])
def test_nobody_goes_by_what_a_site_said_last_that_nothing_comes_from_any_more(
    gone: str, tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A site that is gone for good would be told of for ever, and keep views from what comes from another one now."""
    monkeypatch.setattr(importing, "SILENT_S", 0.0)
    program = apart(VIEWS, "m2", tmp_path / "world").worlds["m2"].program
    (name, copy), running = next(iter(program.imports.items())), RunningProgram(program)
    (other,) = {"m1", "m3"} - {gone}
    peers = {gone: TellingPeer(times={name: 5}), other: TellingPeer(times={name: 9})}
    stop, troubles = threading.Event(), Troubles()
    bringing = make_importing(ledger, running, peers.__getitem__, stop, tmp_path, troubles=troubles)
    try:
        for origin, t in (("m1", peers["m1"].times[name]), ("m3", peers["m3"].times[name])):
            running.program = replace(program, imports={name: replace(copy, origin=origin)})
            until(lambda t=t: bringing.reach().get(name) == t, "it is heard")  # type: ignore[misc]
        running.program = replace(program, imports={name: replace(copy, origin=gone)})
        peers[gone].is_silent = True
        until(lambda: f"{SITE}{gone}" in troubles.all(), "it is told")
        running.program = replace(program, imports={name: replace(copy, origin=other)})
        until(lambda: bringing.reach().get(name) == 9, "what comes from the other counts")
        until(lambda: not troubles.all() and not bringing.find_silent(), "nobody misses it")
        running.program = replace(program, imports={name: replace(copy, origin=gone)})
        until(lambda: f"{SITE}{gone}" in troubles.all(), "it is missed again")
    finally:
        stop.set()
        bringing.tell_to_end()


def test_a_site_that_is_silent_brings_nothing_further_than_what_is_there(tmp_path: Path, ledger: Ledger) -> None:
    """It has said how far it would get. Views that waited for that would not be pushed with what has come."""
    program = apart(VIEWS, "m2", tmp_path / "world").worlds["m2"].program
    copies = {copy.name for copy in program.imports.values() if copy.origin == "m1"}
    lease = ledger.acquire("service", "test", 1e9)
    ledger.commit(lease, Commit(edits=tuple(Edit(name, None, 70) for name in copies)))
    peer, stop = AwayPeer(reach=dict.fromkeys(copies, 100)), threading.Event()
    bringing = make_importing(
        ledger, RunningProgram(program), lambda name: peer if name == "m1" else AskedPeer(), stop, tmp_path
    )
    try:
        bringing.reach()
        until(lambda: bringing.find_told_reach() == dict.fromkeys(copies, 100), "it has said it")
        peer.is_away = True
        until(lambda: bringing.find_told_reach() == dict.fromkeys(copies, 70), "nothing more comes")
        peer.is_away = False
        until(lambda: bringing.find_told_reach() == dict.fromkeys(copies, 100), "it is back")
    finally:
        stop.set()
        bringing.tell_to_end()


def test_a_link_that_was_cut_is_not_probed_because_nobody_measured_it_meanwhile(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits is sent then, and a probe would take more than that, at the worst of times."""
    silences = list[float]()
    monkeypatch.setattr(importing, "HEAR_SILENT_EVERY_S", 0.01)
    monkeypatch.setattr(importing, "choose_probe_bytes", lambda _, __, silent_s, ___: silences.append(silent_s))
    program = apart(VIEWS, "m2", tmp_path / "world").worlds["m2"].program
    peer, stop, turned_s = AwayPeer(), threading.Event(), [0.0]
    monkeypatch.setattr(importing, "monotonic_s", lambda: time.monotonic() + turned_s[0])
    bringing = make_importing(
        ledger,
        RunningProgram(program),
        lambda name: peer if name == "m1" else AwayPeer(is_away=True),
        stop,
        tmp_path,
        find_link=lambda name: Link(name, "m2", 12.5e6, 0.01, 0.0, Location("x.yml")),
    )
    try:
        bringing.reach()
        until(lambda: len(silences) > 0, "its link is watched")
        peer.is_away = True
        until(lambda: "m1" in bringing.find_silent(), "it is silent")
        turned_s[0] = 600.0
        del silences[:]
        peer.is_away = False
        until(lambda: len(silences) > 0, "it answers again")
        assert max(silences) < 60.0
        turned_s[0] = 1200.0
        until(lambda: max(silences) >= 600.0, "from then on nobody has measured it")
    finally:
        stop.set()
        bringing.tell_to_end()


def test_views_are_hurried_while_another_site_says_that_it_ends_and_all_of_them_at_first(
    tmp_path: Path, ledger: Ledger
) -> None:
    program = apart(VIEWS, "m2", tmp_path / "world").worlds["m2"].program
    peers, hurried, stop = {name: AskedPeer() for name in ("m1", "m3")}, list[tuple[str, float]](), threading.Event()
    bringing = make_importing(
        ledger,
        RunningProgram(program),
        peers.__getitem__,
        stop,
        tmp_path,
        hurry=lambda origin, share: hurried.append((origin, share)),
    )
    try:
        bringing.reach()
        for _ in range(2):
            peers["m1"].is_ending = True
            until(lambda: len(hurried) > 2, "it is heard again and again")
            assert hurried[0] == ("m1", 0.0), "all of them, however young they are"
            assert set(hurried[1:]) == {("m1", importing.YOUNG)}
            peers["m1"].is_ending, heard = False, peers["m1"].heard
            until(lambda heard=heard: peers["m1"].heard > heard + 1, "it is there again")  # type: ignore[misc]
            del hurried[:]
    finally:
        stop.set()
        bringing.tell_to_end()


def test_a_copy_that_is_ahead_is_not_asked_for_while_there_is_no_room_and_others_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others keep what comes next: a view that waits for one site is not loaded anew for what another has sent
    meanwhile. Nothing is pushed here: what is made of copies waits for all of them to get to one time.
    """
    monkeypatch.setattr(importing, "COUNT_EVERY_S", 0.01)
    sites = apart(VIEWS[:1], "m2", tmp_path)
    world = sites.worlds["m2"]
    copies = sorted(world.program.imports)
    (view,) = (entry.vertex for entry in sites.plan.contracts)
    sites.capture({name: ZSet.of([]) for name in ("r", "s", "t")})
    sites.load()
    rows = ZSet.of(
        (number, number % 7, 10**9, None, None, f"name {number}", None, None, True) for number in range(2000)
    )
    sites.capture({"r": rows})
    peers, stop, troubles = SitePeers(sites, "m2"), threading.Event(), Troubles()
    bringing = make_importing(
        world.ledger,
        world.engine,
        lambda _: peers,
        stop,
        tmp_path,
        troubles=troubles,
        find_budget=lambda: 10_000,
        find_views=lambda: [view],
    )
    try:
        for copy in copies:
            bringing.want(copy, sites.now, 1_000_000)
        until(lambda: not bringing.find_under_way(), "what has room comes")
        unread = count_unread(world.engine)
        full = max(unread, key=lambda name: unread[name])
        assert unread[full] > 10_000
        sites.capture({"r": rows})
        bringing.want(full, sites.now, 1_000_000)
        until(lambda: not bringing.find_under_way(), "it is not ahead of others, which is what views wait for")
        assert not troubles.all()
        sites.capture({"r": rows})
        del peers.asked[:]
        bringing.want(full, sites.now, 1_000_000)
        until(lambda: bool(troubles.all()), "it is told")
        assert "is asked for no more of what is ahead" in next(iter(troubles.all().values())).what
        troubles.report_exactly(DISK, {})  # as whoever writes the status does, every second
        assert troubles.all()
        assert full not in peers.asked and bringing.find_under_way() == {full}
        for copy in copies:
            bringing.want(copy, sites.now, 1_000_000)
        until(lambda: not bringing.find_under_way(), "those behind come, and then what was ahead of them")
        assert full in peers.asked and not troubles.all()
        sites.capture({"r": rows})
        bringing.want(full, sites.now, 1_000_000)
        until(lambda: not bringing.find_under_way(), "it was not ahead of others")
        sites.capture({"r": rows})
        bringing.want(full, sites.now, 1_000_000)
        until(lambda: bool(troubles.all()), "it is ahead again")
        world.engine.push_program(replace(world.program, imports={}))
        until(lambda: not troubles.all(), "what no plan has keeps nothing paused")
    finally:
        stop.set()
        bringing.tell_to_end()
