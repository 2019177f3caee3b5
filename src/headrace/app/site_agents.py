"""Coordinates sites that join from elsewhere: this is what `headrace up --sites agents` does.

What each site is to run is kept here as for sites that are processes of this machine, and sent to it over `/v1`. A
thread for each site asks once a second how it is, and sends what it has not been told. Nothing here starts or ends a
site: each is started, and stopped, where it is.
"""

from __future__ import annotations

import datetime
import json
import logging
import os
import platform
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any

from headrace.app.site_processes import DOWN_S, Coordinator, GoneOver
from headrace.connect.free_port import free_port
from headrace.connect.wire.addresses import LOOPBACK, read_address
from headrace.connect.wire.client import WireAddress, WireClient, WireReply, raise_refusal
from headrace.connect.wire.contexts import IDENTITY_FOLDER, WireIdentity
from headrace.connect.wire.identity import Authority, read_owner, sign_request
from headrace.connect.wire.identity_files import give_certificate, open_authority
from headrace.connect.wire.names import WireName
from headrace.connect.wire.server import WireAnswer, WireRequest, WireServer, answer_refusal
from headrace.coordinate.agent_reports import (
    TAKE_PART,
    AgentReport,
    AwaitedSites,
    RefusedPart,
    merge_reports,
    name_clocks,
    tell_unheard,
)
from headrace.coordinate.host import Applied
from headrace.coordinate.joined_files import (
    read_invitations,
    read_joined,
    read_wire_address,
    write_joined,
    write_wire_address,
)
from headrace.coordinate.measured import read_told
from headrace.coordinate.site_statuses import tell_beliefs
from headrace.model.errors import ConnectError, HeadraceError, UnknownName, UsageError
from headrace.model.joining import JoinedAgent, JoinedAgents, JoinRefused, JoinToken
from headrace.model.log import Lease
from headrace.model.options import ApplyWishes
from headrace.model.plan import Plan
from headrace.plan.share.revalue import Measured
from headrace.run.capture.clock import clock_now, measure_skew
from headrace.site.forced import read_forced_promises
from headrace.site.membership import SLICE_FORMAT
from headrace.site.site_folders import PART_FILE, find_part_version, read_part, site_folder

log = logging.getLogger("headrace.service")

REPORT_EVERY_S, REPORT_WITHIN_S, SEND_WITHIN_S, PING_WITHIN_S = 1.0, 3.0, 30.0, 2.0
AUDIT_WITHIN_S = 30.0
APPLIED_WITHIN_S = 3600.0
SEND_AGAIN_AFTER_S = 30.0
LOOK_EVERY_S = 0.1


def now_utc() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@dataclass
class AgentsCoordinator(Coordinator):
    """Plans, and tells sites that have joined their parts. `epoch` is that of its lease: an older one is refused by
    sites that a newer one has told anything. `run` is this start of it, and on which machine: a copy of its folder may
    have the same epoch.
    """

    epoch: int = 0
    run: str = field(default_factory=lambda: f"on {platform.node()}, run {secrets.token_hex(4)}")
    waits_for_sites = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.authority: Authority = open_authority(self.folder.root, self.plan.catalogue.project, now_utc())
        give_certificate(self.authority, self.folder.root, None, now_utc())
        self.identity = WireIdentity(self.folder.root / IDENTITY_FOLDER, needs_certificate=False)
        self.joined = read_joined(self.folder)
        self._joining = threading.Lock()  # held while who has joined changes
        self._reports: dict[str, AgentReport] = {}
        self._watched: dict[str, threading.Thread] = {}
        self._clients: dict[str, WireClient] = {}
        self._sent: dict[str, tuple[object, ...]] = {}
        """What each site was sent last, and the number of its part."""
        self._numbers: dict[str, int] = {}
        self._refused_at: dict[str, tuple[tuple[object, ...], float]] = {}
        """What a site has refused, and when, on the monotonic clock."""
        self._began = time.time()

    def check_engines(self, plan: Plan) -> None:
        """Each agent is told its engine where it is started: what that cannot evaluate fails there, and says so."""

    def check_feed_servers(self, plan: Plan) -> None:
        """Raises UsageError: no feeds are served here."""
        if self.settings.feed_servers is not None:
            raise UsageError("feeds are served where their sites run", "give --feed-servers to `headrace agent` there")

    # Who has joined

    def answer(self, request: WireRequest) -> WireAnswer:
        """What sites ask the coordinator for."""
        try:
            match request.method, request.path:
                case "GET", "/v1/authority":
                    return _say({"certificate": self.authority.certificate.decode()})
                case "POST", "/v1/join":
                    return self._let_join(json.loads(request.body))
                case "POST", "/v1/hello":
                    return self._greet(_need_site(request), json.loads(request.body))
                case "POST", "/v1/certificate":
                    asked = json.loads(request.body)
                    if request.peer is None and "expired" in asked:
                        return self._certify_expired(asked)
                    return self._certify(_need_site(request), asked)
        except JoinRefused as error:
            return answer_refusal(HTTPStatus.FORBIDDEN, error.message, error.hint)
        except (ValueError, KeyError, TypeError) as error:
            return answer_refusal(HTTPStatus.UNPROCESSABLE_ENTITY, f"{request.path} cannot be read: {error!r}")
        return answer_refusal(HTTPStatus.NOT_FOUND, f"there is no {request.method} {request.path} here")

    def _let_join(self, asked: Mapping[str, Any]) -> WireAnswer:
        site, digest = str(asked["site"]), JoinToken(str(asked["token"]), "").digest
        agent = JoinedAgent(str(asked["instance"]), read_address(str(asked["address"])).shown, str(asked["version"]))
        with self._joining:
            was_forgotten = site in self.joined.forgotten
            if site not in self.plan.catalogue.sites and not was_forgotten:
                raise JoinRefused(f'the project has no site "{site}"', "its sites are in headrace.yml")
            invited = read_invitations(self.folder)
            joined = self.joined.join(site, digest, agent, invited, bool(asked["replaces"]), time.time())
            certificate = self._sign(str(asked["request"]), WireName(site, agent.instance))
            self._keep(joined)
        log.info("site %s has joined from %s", site, agent.address)
        if was_forgotten:
            threading.Thread(target=self._plan_again, args=(site,), name=f"plan with {site}", daemon=True).start()
        return _say({"certificate": certificate, "project": self.plan.catalogue.project})

    def _plan_again(self, site: str) -> None:
        """Plans with a site that was forgotten and has joined again: its contracts come back."""
        try:
            self.apply(ApplyWishes())
        except HeadraceError as error:
            log.warning("site %s has joined again, and `headrace apply` has to plan with it: %s", site, error)

    def _greet(self, name: WireName, asked: Mapping[str, Any]) -> WireAnswer:
        assert name.site is not None
        if name.site in self.joined.agents and name.site not in (*self.plan.catalogue.sites, *self.joined.forgotten):
            raise JoinRefused(f'the project has no site "{name.site}" any more', "its sites are in headrace.yml")
        address = read_address(str(asked["address"])).shown
        agent = JoinedAgent(name.instance, address, str(asked["version"]), str(asked["boot"]))
        is_other_there = self._is_other_there(name.site, agent)
        with self._joining:
            self._keep(self.joined.greet(name.site, agent, is_other_there))
        return _say({"project": self.plan.catalogue.project})

    def _is_other_there(self, site: str, agent: JoinedAgent) -> bool:
        """Whether the process that ran a site last still answers, at another address than the one that asks."""
        before = self.joined.agents.get(site)
        if before is None or not before.boot or before.boot == agent.boot or before.address == agent.address:
            return False
        client = WireClient(site, lambda: read_address(before.address), self.identity)
        try:
            found = json.loads(client.ask("GET", "/v1/ping", PING_WITHIN_S).body)
            return bool(found["boot"] == before.boot)
        except (ConnectError, ValueError, KeyError, TypeError):
            return False
        finally:
            client.close()

    def _certify(self, name: WireName, asked: Mapping[str, Any]) -> WireAnswer:
        """The next certificate of a site. Another instance gets one if a person has said that it takes over."""
        assert name.site is not None
        instance = str(asked["instance"])
        with self._joining:
            if name.instance in self.joined.denied or name.site not in self.joined.agents:
                raise JoinRefused(f'site "{name.site}" was forgotten, or replaced', "invite it again")
            before = self.joined.agents[name.site]
            if instance != before.instance:
                if not asked["replaces"]:
                    raise JoinRefused(f'site "{name.site}" is run by another folder', "add --replace")
                self._keep(self.joined.take_over(name.site, JoinedAgent(instance, before.address, before.version)))
            certificate = self._sign(str(asked["request"]), WireName(name.site, instance))
        return _say({"certificate": certificate, "authority": self.authority.certificate.decode()})

    def _certify_expired(self, asked: Mapping[str, Any]) -> WireAnswer:
        """The next certificate of a site whose own has run out while nobody coordinated: who asks has its key."""
        request = str(asked["request"]).encode()
        name = read_owner(str(asked["expired"]).encode(), self.authority.certificate, request)
        if name is None or name.site is None:
            raise JoinRefused("the certificate that has run out is not of this project, or another's", "join again")
        return self._certify(name, {**asked, "instance": name.instance, "replaces": False})

    def _sign(self, request: str, name: WireName) -> str:
        try:
            return sign_request(self.authority, request.encode(), name, now_utc()).decode()
        except ConnectError as error:
            raise JoinRefused(error.message, "do both run the same version?") from error

    def _keep(self, joined: JoinedAgents) -> None:
        if joined != self.joined:
            write_joined(self.folder, joined)
            self.joined = joined

    # What sites run

    def give_certificates(self) -> None:
        """Sites ask for theirs; this is the coordinator's own."""
        give_certificate(self.authority, self.folder.root, None, now_utc())

    def look_after_processes(self) -> None:
        """Begins to ask each site that has joined how it is."""
        for site in self.joined.agents:
            if site not in self._watched:
                thread = threading.Thread(target=self._watch, args=(site,), name=f"agent {site}", daemon=True)
                self._watched[site] = thread
                thread.start()

    def end_processes(self) -> None:
        """Sites go on: each is stopped where it runs."""

    def _end(self, site: str) -> None:
        """A site that the project does not have any more is refused when it says hello, and ends where it runs."""

    def _client(self, site: str) -> WireClient:
        def find() -> WireAddress | None:
            agent = self.joined.agents.get(site)
            return None if agent is None else read_address(agent.address)

        return self._clients.setdefault(site, WireClient(site, find, self.identity))

    def _watch(self, site: str) -> None:
        """Asks a site how it is once a second, and sends what it has not been told."""
        while not self.stop.wait(REPORT_EVERY_S):
            if site not in self.joined.agents:
                self._reports.pop(site, None)
                continue
            try:
                self._look_at(site)
            except Exception as error:
                if not isinstance(error, HeadraceError):
                    log.exception("site %s could not be looked after", site)
                known = self._reports.get(site, AgentReport())
                self._reports[site] = known.fell_silent(time.time(), str(error) or type(error).__name__)

    def _look_at(self, site: str) -> None:
        asked = clock_now()
        said = _read(self._client(site).ask("GET", "/v1/report", REPORT_WITHIN_S), site)
        refused = self._reports.get(site, AgentReport()).refused
        skew = measure_skew(asked, int(said["clock"]), clock_now())
        self._reports[site] = self._reports.get(site, AgentReport()).hear(said, skew, time.time())
        stamp = self._stamp(site)
        if stamp is None or (self._sent.get(site) == stamp and said["told"] == self._numbers.get(site)):
            return
        tried, when = self._refused_at.get(site, (None, 0.0))
        if tried == stamp and time.monotonic() < when + SEND_AGAIN_AFTER_S:
            return
        document = self._make_slice(site)
        reply = self._client(site).ask("PUT", "/v1/slice", SEND_WITHIN_S, body=document)
        if reply.status == HTTPStatus.OK:
            self._numbers[site], self._sent[site] = int(_read(reply, site)["number"]), stamp
            self._reports[site] = replace(self._reports[site], refused=None)
        else:
            self._refused_at[site] = stamp, time.monotonic()
            now = RefusedPart(reply.reason, int(document["part"]["number"]), time.time())
            is_same = refused is not None and replace(now, since=refused.since) == refused
            self._reports[site] = replace(self._reports[site], refused=refused if is_same else now)

    def _stamp(self, site: str) -> tuple[object, ...] | None:
        """Differs when a site has to be told something. None if nobody has said yet what it is to run."""
        version = find_part_version(site_folder(self.folder, site))
        return None if version is None else (version, self._find_addresses(site), tuple(sorted(self.joined.denied)))

    def _find_addresses(self, site: str) -> tuple[tuple[str, str], ...]:
        return tuple(sorted((name, one.address) for name, one in self.joined.agents.items() if name != site))

    def _make_slice(self, site: str) -> dict[str, Any]:
        return {
            "format": SLICE_FORMAT,
            "coordinator_epoch": self.epoch,
            "coordinator_run": self.run,
            "part": site_folder(self.folder, site).read_json(PART_FILE),
            "addresses": dict(self._find_addresses(site)),
            "denied": sorted(self.joined.denied),
        }

    def _apply_at(self, site: str) -> GoneOver | None:
        """Waits until a site runs what it was told. None if it is away."""
        part = read_part(site_folder(self.folder, site))
        assert part is not None, "it was told before"
        began = time.time()
        while time.time() < began + APPLIED_WITHIN_S and not self.stop.wait(LOOK_EVERY_S):
            report = self._reports.get(site, AgentReport(missed=began))
            if site not in self.joined.agents or report.is_away(time.time()):
                return None
            said = report.said or {}
            if said.get("runs") == part.number:
                return GoneOver(said["failing"], said.get("held", {}), said.get("settled", True))
            if report.refused is not None and report.refused.number == part.number:
                raise UsageError(f'site "{site}" has not taken its part of the plan: {report.refused.what}', TAKE_PART)
            if said.get("told") == part.number == said.get("error_of", part.number) and said.get("error"):
                raise UsageError(f'site "{site}" has not gone over to the plan: {said["error"]}', "see its service.log")
        return None

    # Moving by itself

    def read_measured_parts(self) -> Mapping[str, Measured]:
        told = {site: read_told((report.said or {}).get("measured")) for site, report in dict(self._reports).items()}
        return {site: measured for site, measured in told.items() if measured is not None}

    def find_down(self, now: float) -> frozenset[str]:
        """A site that has never joined is not down: the plan waits for it."""
        reports = dict(self._reports)
        missed = {site: reports[site].missed for site in self.joined.agents if site in reports}
        return frozenset(site for site, since in missed.items() if since is not None and now - since >= DOWN_S)

    # Telling

    def status(self) -> dict[str, Any]:
        now = time.time()
        about: dict[str, Any] = {"state": self.state.value, "pid": os.getpid(), "phase": self._phase(), "error": None}
        about |= {"written": now, "age_s": 0.0}
        awaited = AwaitedSites(self.sites, self.joined.agents, self._began)
        reports = dict(self._reports)
        found = merge_reports(awaited, reports, about, now)
        found["contracts"] += tell_unheard(
            self.plan, read_forced_promises(self.folder), awaited, reports, found["contracts"], now
        )
        name_clocks(found["contracts"], self.plan, reports)
        found["troubles"] += self.tell_left_out()
        return tell_beliefs({**found, "moves": self.moves}, {} if self.moving is None else self.moving.beliefs)

    def _phase(self) -> str:
        missing = self._find_missing()
        return f"waiting for {', '.join(missing)} to join" if missing else "running"

    def _find_missing(self) -> list[str]:
        return [site for site in self.sites if site not in self.joined.agents]

    def say_running(self, after_s: float) -> str:
        missing, began = self._find_missing(), f"coordinating after {after_s:.1f} s"
        if not missing:
            return f"{began}: {', '.join(self.sites)} have joined"
        invite = "`headrace sites invite SITE` prints the command to run there"
        return f"{began}, and waiting for {', '.join(missing)} to join: {invite}"

    def audit(self) -> dict[str, Any]:
        """What became of every promise so far, as sites say it. Raises ConnectError if one does not answer."""
        found = []
        for site in self.sites:
            if site in self.joined.agents:
                found += _read(self._client(site).ask("GET", "/v1/audit", AUDIT_WITHIN_S), site)["contracts"]
        return {"contracts": found, "recompute": []}

    def list_sites(self) -> list[dict[str, Any]]:
        known = {one["id"]: one for one in self.status()["sites"]}
        return [
            {**known[site], "version": getattr(self.joined.agents.get(site), "version", None)} for site in self.sites
        ]

    def forget(self, site: str) -> Applied:
        """Plans without a site that is gone for good. Raises UsageError while it answers."""
        if site not in self.plan.catalogue.sites:
            raise UnknownName(f'the project has no site "{site}"', "sites are listed by `headrace sites list`")
        if self._answers(site):
            hint = "stop its agent first, with `headrace down` where it runs; then forget it"
            raise UsageError(f'site "{site}" answers', hint)
        with self._joining:
            self._keep(self.joined.forget(site))
        return self.apply(ApplyWishes())

    def _answers(self, site: str) -> bool:
        try:
            return site in self.joined.agents and self._client(site).ask("GET", "/v1/ping", PING_WITHIN_S) is not None
        except ConnectError:
            return False

    @contextmanager
    def serving_sites(self, lease: Lease) -> Iterator[None]:
        """Answers sites meanwhile. Where that is stays the same after every start: sites remember it."""
        self.epoch = lease.epoch
        kept, asked = read_wire_address(self.folder), read_address(self.settings.listen or LOOPBACK)
        host = asked.host if self.settings.listen is not None or kept is None else kept[0]
        port = asked.port or (kept[1] if kept is not None and kept[0] == host else free_port(host))
        server = WireServer(self.answer, self.identity, host, port)
        try:
            write_wire_address(self.folder, host, port)
            yield
        finally:
            server.stop()


def _need_site(request: WireRequest) -> WireName:
    """Whoever asks has to have a certificate of a site."""
    if request.peer is None or request.peer.name.is_coordinator:
        raise JoinRefused(f"{request.path} is for sites that have joined", "join with a token first")
    return request.peer.name


def _read(reply: WireReply, site: str) -> dict[str, Any]:
    raise_refusal(f'site "{site}"', reply)
    try:
        found = json.loads(reply.body)
    except ValueError as error:
        raise ConnectError(f'what site "{site}" answers cannot be read', "do both run the same version?") from error
    assert isinstance(found, dict)
    return found


def _say(found: Mapping[str, Any]) -> WireAnswer:
    return WireAnswer(json.dumps(found).encode())
