"""Runs a site that has joined its project from elsewhere: this is what `headrace agent --join` does.

The coordinator sends the site its part of the plan, and asks how it is. The site keeps what it was sent: when nobody
coordinates any more it goes on with that, also after a restart. It tells the coordinator where it is, and gets the next
certificate in time.

    join_project      a certificate for a token, once                             app/joining.py
    JoinedSite        answers the coordinator, and other sites once it runs
    follow_parts      goes over to parts of the plan as they come
    stay_known        says hello twice a minute, and renews the certificate
"""

from __future__ import annotations

import datetime
import json
import logging
import os
import secrets
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from importlib import metadata
from pathlib import Path
from typing import Any

from headrace.app.comparing_processes import SharedComparisons
from headrace.app.joining import (
    JoinWishes,
    advertised_address,
    join_project,
    open_identity,
    renew_certificate,
    replace_expired,
    warn_of_loopback,
)
from headrace.app.preparing import prepare_part
from headrace.app.refusing import refuse_second
from headrace.app.running import HostedSite, Say, Serve, UpSettings, log_to
from headrace.app.site_agent import run_hosted
from headrace.app.site_answers import answer_site
from headrace.app.site_events import EVENTS_PATH, read_events_asked, write_events
from headrace.connect.signals import note_signals
from headrace.connect.wire.addresses import read_address
from headrace.connect.wire.client import WireAddress, WireClient
from headrace.connect.wire.compared_rows import COMPARISON_PATH, ROWS_PATH
from headrace.connect.wire.contexts import CERTIFICATE, IDENTITY_FOLDER, WireIdentity
from headrace.connect.wire.identity import has_run_out, is_due
from headrace.connect.wire.limit import LinkLimits
from headrace.connect.wire.peer import HttpPeer
from headrace.connect.wire.server import WireAnswer, WireRequest, WireServer, answer_refusal
from headrace.coordinate.audit_document import audit_document, look_of
from headrace.coordinate.guarded_texts import (
    NOTHING_GUARDED,
    GuardedNames,
    find_guarded,
    guard_event,
    guard_failing,
    guard_status,
)
from headrace.coordinate.host import ServiceHost
from headrace.coordinate.measured import FILE as MEASURED_FILE
from headrace.model.catalogue import Stays
from headrace.model.errors import ConnectError, HeadraceError, UnreadableState, UsageError
from headrace.model.options import ApplyWishes
from headrace.site.folder import Folder
from headrace.site.home import refuse_copy
from headrace.site.kept_stays import remember_stays
from headrace.site.last_status import State, current_status
from headrace.site.membership import (
    SLICE_FORMAT,
    Membership,
    ToldNeighbours,
    read_neighbours,
    take_part_document,
    write_neighbours,
)
from headrace.site.secret_key import find_secret
from headrace.site.site_folders import SitePart, read_part

log = logging.getLogger("headrace.service")

HELLO_EVERY_S, HELLO_WITHIN_S = 30.0, 5.0
LOOK_EVERY_S = 0.2
SECRET_FILE = "hashes.key"


@dataclass
class JoinedSite:
    """What the coordinator and other sites see of this one. `host` is there once a part of the plan runs."""

    folder: Folder
    membership: Membership
    identity: WireIdentity
    boot: str = field(default_factory=lambda: secrets.token_hex(8))
    stop: threading.Event = field(default_factory=threading.Event)
    host: ServiceHost | None = None
    limits: LinkLimits = field(default_factory=LinkLimits)

    def __post_init__(self) -> None:
        self.neighbours = read_neighbours(self.folder)
        self.stays: Mapping[str, Stays | None] = {}
        self._told = self._read_number()
        self._runs: int | None = None
        self._error: tuple[int, str] | None = None
        """Why the site has not gone over to a part, and the part's number."""
        self.refusal: UsageError | None = None
        """Why the site may not run any more, as the coordinator said."""
        self._failing: Mapping[str, str] = {}
        self.comparisons = SharedComparisons(self.folder)
        self._secret = find_secret(
            self.folder.root / SECRET_FILE, "remove it: hashes of events are others from then on"
        )
        self._guarded: tuple[int, GuardedNames] | None = None
        self._turn = threading.Lock()  # held while something that was sent is kept
        self.coordinator = WireClient(None, lambda: read_address(self.membership.coordinator), self.identity)

    def _read_number(self) -> int:
        part = read_part(self.folder)
        return 0 if part is None else part.number

    # Answers

    def answer(self, request: WireRequest) -> WireAnswer:
        peer = request.peer
        if peer is None or peer.name.instance in self.neighbours.denied:
            return answer_refusal(HTTPStatus.FORBIDDEN, "this process was forgotten, or another has replaced it")
        if (request.method, request.path) == ("GET", "/v1/ping"):
            return _say({"clock": time.time_ns() // 1000, "site": self.membership.site, "boot": self.boot})
        call = {
            ("PUT", "/v1/slice"): self._take_slice,
            ("GET", "/v1/report"): self._report,
            ("GET", "/v1/audit"): self._audit,
            ("GET", EVENTS_PATH): self._events,
            ("POST", COMPARISON_PATH): self.comparisons.answer_coordinator,
        }.get((request.method, request.path))
        if call is not None and not peer.name.is_coordinator:
            return answer_refusal(HTTPStatus.FORBIDDEN, f"{request.path} is for the coordinator alone")
        if call is not None:
            return call(request)
        if self.host is None:
            return answer_refusal(HTTPStatus.TOO_EARLY, "nothing runs here yet")
        if (request.method, request.path) == ("GET", ROWS_PATH) and peer.name.site is not None:
            return self.comparisons.answer_site(request, peer.name.site)
        return answer_site(self.host, request, self.stays)

    def _take_slice(self, request: WireRequest) -> WireAnswer:
        """Keeps what the coordinator sends. Safe to repeat: the same part is not gone over to twice."""
        try:
            sent = json.loads(request.body)
            form, epoch, part = int(sent["format"]), int(sent["coordinator_epoch"]), sent["part"]
            run = None if sent.get("coordinator_run") is None else str(sent["coordinator_run"])
        except (ValueError, KeyError, TypeError) as error:
            return answer_refusal(HTTPStatus.UNPROCESSABLE_ENTITY, f"the part cannot be read: {error}")
        if form > SLICE_FORMAT:
            what = f"this site knows parts of format {SLICE_FORMAT}, not {form}"
            return answer_refusal(HTTPStatus.UPGRADE_REQUIRED, what, "upgrade this site first")
        with self._turn:
            if self.neighbours.is_fenced(epoch, run):
                known = self.neighbours.coordinator_run
                other = "another coordinator" if known is None else f"another coordinator ({known})"
                what = f"{other} has told this site what to run since"
                return answer_refusal(HTTPStatus.CONFLICT, what, "stop the old coordinator")
            try:
                if int(part["number"]) != self._told or epoch != self.neighbours.coordinator_epoch:
                    self._told = take_part_document(self.folder, part)
                told = ToldNeighbours(epoch, dict(sent["addresses"]), tuple(sent["denied"]), run)
            except (UnreadableState, KeyError, TypeError, ValueError) as error:
                return answer_refusal(HTTPStatus.UPGRADE_REQUIRED, f"the part cannot be read: {error}")
            if told != self.neighbours:
                write_neighbours(self.folder, told)
                self.neighbours = told
        return _say({"number": self._told})

    def _report(self, request: WireRequest) -> WireAnswer:
        # Before what is held back and the status are read: those are then of this part, or a later one.
        runs, host = self._runs, self.host
        status = current_status(self.folder) if host is not None else None
        error_of, error = self._error or (None, None)
        guarded, troubles = self._find_guarded(), {} if host is None else host.service.troubles.all()
        return _say(
            {
                "told": self._told,
                "runs": runs,
                "coordinator_epoch": self.neighbours.coordinator_epoch,
                "error": error,
                "error_of": error_of,
                "failing": guard_failing(self._failing, guarded, self._secret),
                "held": guard_failing({} if host is None else host.held, guarded, self._secret),
                "settled": host is not None and host.state is State.RUNNING,
                "boot": self.boot,
                "version": metadata.version("headrace"),
                "clock": time.time_ns() // 1000,
                "pid": os.getpid(),
                "status": guard_status(status, troubles, guarded, self._secret),
                "measured": None if status is None else self.folder.read_json(MEASURED_FILE),
            }
        )

    def _audit(self, request: WireRequest) -> WireAnswer:
        return _say(audit_document(look_of(self.folder)) if self.folder.exists else {"contracts": []})

    def _events(self, request: WireRequest) -> WireAnswer:
        """What happened here, without what has to stay here."""
        try:
            asked = read_events_asked(request.query)
        except (KeyError, ValueError) as error:
            return answer_refusal(HTTPStatus.UNPROCESSABLE_ENTITY, f"the question cannot be read: {error!r}")
        if not self.folder.exists:
            return _say({"events": []})
        guarded = self._find_guarded()
        with closing(self.folder.ledger()) as ledger:
            found = ledger.events(asked)
        told = (replace(one, event=guard_event(one.event, guarded, self._secret)) for one in found)
        return WireAnswer(json.dumps(write_events(told)).encode())

    def _find_guarded(self) -> GuardedNames:
        """Computed once for a part."""
        if self._guarded is None or self._guarded[0] != self._told:
            number, part = self._told, read_part(self.folder)
            found = NOTHING_GUARDED if part is None else find_guarded(part.plan)
            self._guarded = number, found
        return self._guarded[1]

    # Other sites

    def find_peer(self, site: str) -> HttpPeer:
        def find() -> WireAddress | None:
            address = self.neighbours.addresses.get(site)
            return None if address is None else read_address(address)

        return HttpPeer(WireClient(site, find, self.identity, self.limits))

    def begin(self, host: ServiceHost, part: SitePart) -> None:
        """A part runs, or is loaded, from now on."""
        self.stays = remember_stays(self.folder, part.plan)
        self.limits.follow(host.service.find_limit)
        self.host, self._runs = host, part.number

    # Threads

    def follow_parts(self) -> None:
        """Goes over to each part that is sent, once what runs is loaded."""
        while not self.stop.wait(LOOK_EVERY_S):
            host = self.host
            if host is None or host.state is not State.RUNNING:
                continue
            if self._runs == self._told and not host.is_worth_another_try():
                continue
            number = self._told
            try:
                part = read_part(self.folder)
                assert part is not None, "it was told before"
                number, self.stays = part.number, remember_stays(self.folder, part.plan)
                self._failing = host.apply(ApplyWishes()).failing
                self._runs, self._error = number, None
            except HeadraceError as error:
                self._error = number, str(error)
                log.warning("the site has not gone over to part %d: %s", number, error)
                self.stop.wait(5.0)
            except Exception as error:
                self._error = number, str(error) or type(error).__name__
                log.exception("the site has not gone over to part %d", number)
                self.stop.wait(5.0)

    def say_hello(self) -> None:
        """Tells the coordinator where this site is. Raises UsageError if it may not go on, ConnectError if nobody
        coordinates now.
        """
        document = {
            "address": advertised_address(self.membership),
            "version": metadata.version("headrace"),
            "boot": self.boot,
        }
        reply = self.coordinator.ask("POST", "/v1/hello", HELLO_WITHIN_S, body=document)
        if reply.status in (HTTPStatus.FORBIDDEN, HTTPStatus.CONFLICT):
            raise UsageError(reply.reason, reply.hint)
        if reply.status != HTTPStatus.OK:
            raise ConnectError(f"the coordinator answered with status {reply.status}: {reply.reason}")

    def stay_known(self) -> None:
        """Ends the process if the coordinator refuses it: another one runs the site, or none is to. Goes on without a
        coordinator.
        """
        while not self.stop.wait(HELLO_EVERY_S):
            try:
                self.renew_if_due()
            except Exception as error:
                log.warning("the certificate could not be renewed, and is tried again: %s", error)
            try:
                self.say_hello()
            except UsageError as error:
                log.error("this site ends: %s", error)
                self.refusal = error
                self.stop.set()
                if self.host is not None:
                    self.host.stop.set()
            except ConnectError as error:  # it goes on with what it was told last
                log.info("the coordinator: %s", error)
            except Exception:
                log.exception("the coordinator could not be told where this site is")

    def renew_if_due(self) -> None:
        kept, now = (self.folder.root / IDENTITY_FOLDER / CERTIFICATE).read_bytes(), datetime.datetime.now(datetime.UTC)
        if has_run_out(kept, now):
            replace_expired(self.folder, read_address(self.membership.coordinator))
            self.identity.refresh()
        elif is_due(kept, now):
            renew_certificate(self.folder, self.coordinator)


def run_joined(
    directory: Path,
    site: str,
    environment: Mapping[str, str],
    settings: UpSettings,
    wishes: JoinWishes,
    serve: Serve,
    say: Say,
) -> None:
    """Runs until the process is told to end. Raises what keeps the site from running."""
    folder = Folder(directory.absolute())
    refuse_second(folder, say, what=f'site "{site}"')
    folder.check_ledger()
    if not wishes.replaces:
        refuse_copy(folder, "headrace agent --replace")
    membership = join_project(folder, site, wishes)
    folder.prepare()
    log_to(folder.root / "service.log")
    joined = JoinedSite(folder, membership, open_identity(folder))
    if wishes.replaces and wishes.token is None:
        renew_certificate(folder, joined.coordinator, replaces=True)
        joined = JoinedSite(folder, membership, open_identity(folder))
    _say_membership(membership, say)
    server = WireServer(joined.answer, joined.identity, membership.host, membership.port, joined.limits)
    try:
        with note_signals(joined.stop):
            _greet_first(joined, say)
            for target in (joined.follow_parts, joined.stay_known):
                threading.Thread(target=target, name=target.__name__, daemon=True).start()
            part = _wait_for_part(joined, say)
        if part is not None:
            _run_part(joined, part, environment, settings, serve, say)
        if joined.refusal is not None:
            raise joined.refusal
    finally:
        joined.stop.set()
        server.stop()
        joined.comparisons.end_all()


def _run_part(
    joined: JoinedSite, part: SitePart, environment: Mapping[str, str], settings: UpSettings, serve: Serve, say: Say
) -> None:
    folder, site = joined.folder, joined.membership.site

    def answer_sites(host: ServiceHost) -> _KeptServer:
        joined.begin(host, part)
        return _KeptServer(joined.membership.port)

    alone = HostedSite(site, folder.project, joined.find_peer, partial(prepare_part, folder), answer_sites)
    run_hosted(folder, alone, part, environment, settings, serve, say)


@dataclass(frozen=True, slots=True)
class _KeptServer:
    """The server that was there before the host, and stays a little longer."""

    port: int

    def stop(self) -> None:
        """Ends with the process."""


def _say_membership(membership: Membership, say: Say) -> None:
    say(f'site "{membership.site}" of {membership.project}, at {advertised_address(membership)}')
    warning = warn_of_loopback(membership)
    if warning is not None:
        say(warning)


def _greet_first(joined: JoinedSite, say: Say) -> None:
    """Whoever may not run the site is told before anything runs. If nobody coordinates now, it goes on as before."""
    try:
        joined.renew_if_due()
        joined.say_hello()
    except ConnectError as error:
        say(f"nobody coordinates: {error.message}; going on with what this site was told last")


def _wait_for_part(joined: JoinedSite, say: Say) -> SitePart | None:
    """What to run; None if the process is told to end before anybody has said it."""
    part = read_part(joined.folder)
    if part is None:
        say("waiting for a part of the plan")
    while part is None and not joined.stop.wait(LOOK_EVERY_S):
        part = read_part(joined.folder)
    return part


def _say(found: Mapping[str, Any]) -> WireAnswer:
    return WireAnswer(json.dumps(found, allow_nan=False).encode())
