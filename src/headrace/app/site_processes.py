"""Runs each site of a project as a process of its own: this is what `headrace up --sites processes` does.

This process plans, tells each site its part, starts the processes of sites and starts those again that end. No rows
pass through it. Sites go on without it; the next one that is started finds those that run.
"""

from __future__ import annotations

import datetime
import logging
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from headrace.app.apart import refuse_moved_posts
from headrace.app.detached import name_servers
from headrace.app.preparing import prepare_beside_lost, refuse_without_spark
from headrace.app.running import UpSettings
from headrace.app.site_feeds import find_feeds, find_unserved, refuse_shared_port
from headrace.app.site_replanning import SitesReplanning
from headrace.connect.files import open_private
from headrace.connect.service_client import ask
from headrace.connect.small_memory import SMALL
from headrace.connect.wire.identity_files import give_certificate, open_authority
from headrace.coordinate.audit_document import audit_document, look_of
from headrace.coordinate.host import Applied, Prepared
from headrace.coordinate.measured import read_measured
from headrace.coordinate.site_epochs import SiteEpochs, read_epochs, write_epochs
from headrace.coordinate.site_statuses import find_sites_status, read_site_status
from headrace.coordinate.status import move_documents
from headrace.model.errors import ConnectError, HeadraceError, Problem, UsageError
from headrace.model.log import Lease
from headrace.model.options import ApplyWishes, RunEngine
from headrace.model.plan import Plan
from headrace.model.trouble import Trouble
from headrace.plan.document import plan_document
from headrace.plan.share.difference import difference
from headrace.plan.share.revalue import Measured
from headrace.run.ports import Ledger
from headrace.site.engine.settings import engine_to_start, find_engines
from headrace.site.folder import Folder
from headrace.site.forced import read_forced_promises, write_forced
from headrace.site.last_status import FILE as STATUS_FILE
from headrace.site.last_status import State
from headrace.site.process import (
    ServiceProcess,
    end_process,
    exit_status,
    module_command,
    running_process,
    spawn_detached,
)
from headrace.site.site_folders import (
    SitePart,
    note_sites,
    read_part,
    read_sites,
    site_folder,
    write_part,
)

log = logging.getLogger("headrace.service")

LOOK_EVERY_S = 0.25
BACKOFF_S = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
"""How long to wait before a site's process is started again that ends right after its start."""
LASTING_S = 30.0
MOST_SAID = 1_000_000
"""Bytes that processes of a site may have said before the next one begins anew."""
END_WITHIN_S = 45.0
APPLIED_WITHIN_S = 3600.0
HEARD_WITHIN_S, FIRST_HEARD_WITHIN_S = 3.0, 10.0
"""How long a site's process may take to answer, and at the first question, with which it loads what answers."""
ASK_HELD_EVERY_S = 3.0
"""How often sites are asked that could not go over with all contracts."""
DOWN_S = 10.0
"""After so long without an answer, contracts are planned without a site."""
BEHIND = 'site "{}" does not answer: it goes over to this plan when it is back'
COMES_BACK = "it goes over to the newest plan when it is back; until then others keep what it reads"


def _open_growing(file: Path) -> BinaryIO:
    is_long = file.exists() and file.stat().st_size > MOST_SAID
    return open_private(file, os.O_TRUNC if is_long else os.O_APPEND)


def _is_there(folder: Folder) -> bool:
    """Whether a site's process runs and says so."""
    if running_process(folder) is None:
        return False
    said = read_site_status(folder)
    return said is None or said["service"]["state"] != State.UNRESPONSIVE


def _used_sites(plan: Plan) -> tuple[str, ...]:
    """Sites at which a plan has anything."""
    used = {vertex.site for vertex in plan.graph.vertices.values()}
    return tuple(site for site in plan.catalogue.sites if site in used)


@dataclass(frozen=True, slots=True)
class GoneOver:
    """Contracts that are not loaded at a site which has gone over to its part, and those that go on there as they were
    made before; and why. Until a site says that it `is_settled`, it may turn out that there are some.
    """

    failing: Mapping[str, str] = field(default_factory=dict)
    held: Mapping[str, str] = field(default_factory=dict)
    is_settled: bool = True


@dataclass(slots=True)
class _SiteProcess:
    """How often in a row a site's process ended soon, when the last was started, and which that is."""

    failures: int = 0
    started_s: float = 0.0
    pid: int | None = None


@dataclass
class Coordinator:
    """Plans, tells sites their parts, and sees to it that their processes run."""

    folder: Folder
    environment: Mapping[str, str]
    settings: UpSettings
    plan: Plan
    stop: threading.Event = field(default_factory=threading.Event)
    state: State = State.LOADING
    waits_for_sites: ClassVar[bool] = True
    """Whether the project does not run before all its sites do."""

    def __post_init__(self) -> None:
        self._turn = threading.Lock()  # held while a plan is applied
        self._starting = threading.Lock()  # held to look after processes: two threads do
        self._processes: dict[str, _SiteProcess] = {}
        self._epochs = read_epochs(self.folder)
        """Replaced, never changed, with the turn to apply a plan."""
        self.moving: SitesReplanning | None = None
        self._gone: dict[str, float] = {}
        """Sites without a process, and since when (seconds since 1970)."""
        self._unheard: dict[str, float] = {}
        """Sites that do not answer, and since when they were to go over to a plan (seconds since 1970)."""
        self._held: Mapping[str, Mapping[str, str]] = {}
        """Contracts that sites which answer could not go over with, and why: others keep what these read."""
        self._asked_held_s = float("-inf")
        self._answered: dict[str, int] = {}
        """The processes of sites that have answered before."""
        self._left_out: tuple[Trouble, ...] = ()
        self._unserved: dict[str, float] = {}
        """Sites that keep feeds and have no feed servers although these were asked for, and since when it is known."""

    @property
    def sites(self) -> tuple[str, ...]:
        return read_sites(self.folder)

    # Plans

    def check_engines(self, plan: Plan) -> None:
        """Raises UsageError if a site cannot evaluate what it is to, as far as that is known here."""
        refuse_without_spark(plan, find_engines(plan, self.settings.engine))

    def check_feed_servers(self, plan: Plan) -> None:
        """Raises UsageError if feed servers cannot be had as they are asked for."""
        refuse_shared_port(self.settings.feed_servers, plan)

    def tell_parts(self, prepared: Prepared) -> None:
        """Writes down what each site is to run: a site that runs nothing has an empty part."""
        plan = prepared.plan
        for gone in [site for site in self.sites if site not in plan.catalogue.sites]:
            self._end(gone)
        there = (site for site in self.sites if site in plan.catalogue.sites)
        sites = tuple(dict.fromkeys((*there, *_used_sites(plan))))
        note_sites(self.folder, sites, self.settings.sites, find_feeds(plan))
        self.give_certificates()
        self._note(self._epochs.tell(plan, sites))
        for site in sites:
            here = site_folder(self.folder, site)
            before = read_part(here)
            number = 1 if before is None else before.number + 1
            write_part(here, SitePart(number, plan.at_site(site), prepared.forced, self._epochs.find_earlier(site)))
        self.folder.save_running(plan, plan_document(plan))
        write_forced(self.folder, plan, prepared.forced)
        self.plan = plan

    def note_left_out(self, prepared: Prepared) -> None:
        """Notes what does not run because sites run apart: `status` tells it from now on."""
        since = {one.what: one.since for one in self._left_out}
        now = time.time()
        self._left_out = tuple(
            Trouble(one.message, since.get(one.message, now), one.hint or "") for one in prepared.left_out
        )

    def _note(self, epochs: SiteEpochs) -> None:
        """Notes what sites run, before they are told and after they went over: a crash in between keeps too much."""
        write_epochs(self.folder, epochs)
        self._epochs = epochs

    def apply(self, wishes: ApplyWishes) -> Applied:
        """Brings all sites to the project's plan, and returns when those that answer run it."""
        with self._turn:
            prepared = prepare_beside_lost(self.folder.project, self.environment, wishes, self.settings.sites)
            self.check_engines(prepared.plan)
            self.check_feed_servers(prepared.plan)
            refuse_moved_posts(self.plan, prepared.plan)
            is_same = prepared.change is not None and prepared.change.is_nothing
            if is_same:
                prepared = replace(prepared, steps=())
            if wishes.dry_run:
                return Applied(prepared, done=False)
            self.note_left_out(prepared)
            if not is_same:
                self.tell_parts(prepared)
                self.look_after_processes()
            failing = self._bring_behind()
            held = {name: reason for why in self._held.values() for name, reason in why.items()}
            unserved = (Problem(what, hint=hint) for what, hint in self.find_unserved().values())
            prepared = replace(prepared, left_out=(*prepared.left_out, *unserved))
            return Applied(prepared, done=True, failing=failing, held=held)

    def catch_up(self) -> None:
        """Has sites go over to their parts that could not before. Tries again later if they cannot now."""
        behind = set(self._epochs.behind)
        is_done = not behind and self._epochs.is_collected
        if behind and behind <= self._held.keys() and time.monotonic() < self._asked_held_s + ASK_HELD_EVERY_S:
            return
        if not is_done and self._turn.acquire(blocking=False):
            try:
                self._bring_behind()
            except HeadraceError as error:
                log.warning("a site has not gone over to its part: %s", error)
            finally:
                self._turn.release()

    def _bring_behind(self) -> dict[str, str]:
        """Has sites go over to the newest plan. When all have, nobody keeps anything for those who ran earlier ones.

        Why contracts are not loaded, by contract. Raises what a site has refused; it stays behind then.
        """
        self._asked_held_s = time.monotonic()
        failing = self._apply_at_all(self._epochs.behind)
        if not self._epochs.behind and not self._epochs.is_collected:
            for site in self.sites:
                here = site_folder(self.folder, site)
                part = read_part(here)
                if part is not None and part.earlier:
                    write_part(here, replace(part, number=part.number + 1, earlier=()))
            self._apply_at_all(self.sites)
            if not self._unheard:
                self._note(self._epochs.note_collected())
        return failing

    def _apply_at_all(self, sites: tuple[str, ...]) -> dict[str, str]:
        """Nobody waits for a site that does not answer: it keeps what it runs, and goes over when it is back."""
        newest, silent, failing = self._epochs.newest, dict[str, float](), dict[str, str]()
        held = dict[str, Mapping[str, str]]()
        with ThreadPoolExecutor(max(1, len(sites))) as asking:
            # All are asked before the first answer is looked at: one that refuses must not keep others from theirs.
            asked = {site: asking.submit(self._apply_at, site) for site in sites}
        errors = [error for one in asked.values() if isinstance(error := one.exception(), Exception)]
        for site, one in asked.items():
            if one.exception() is not None:
                continue
            answer = one.result()
            if answer is None:
                silent[site] = self._unheard.get(site, time.time())
                failing |= {entry.contract: BEHIND.format(site) for entry in self.plan.contracts if entry.site == site}
                continue
            if answer.held or not answer.is_settled:
                held[site] = answer.held
            else:
                self._note(self._epochs.note_gone_over(site, newest))
            failing |= answer.failing
        self._unheard, self._held = (
            silent,
            {**held, **{site: why for site, why in self._held.items() if site in silent}},
        )
        if errors:
            raise errors[0]
        return failing

    def _apply_at(self, site: str) -> GoneOver | None:
        """Has a site go over to its part. None if it is away."""
        process = self._wait_for_answer(site)
        if process is None:
            return None
        body = {"replan": False, "force": [], "dry_run": False}
        try:
            found = ask(process.port, process.token, "POST", "/apply", body, within_s=APPLIED_WITHIN_S)
        except ConnectError as error:
            log.warning("site %s went away before it had gone over to its part: %s", site, error)
            return None
        return GoneOver(found.get("failing", {}), found.get("held", {}))

    def _wait_for_answer(self, site: str) -> ServiceProcess | None:
        """The process of a site once its views are loaded; None if there is none, or it does not answer."""
        until = time.monotonic() + LASTING_S
        while not self.stop.wait(LOOK_EVERY_S / 5):
            process = running_process(site_folder(self.folder, site))
            if process is not None and process.port:
                is_known = self._answered.get(site) == process.pid
                within_s = HEARD_WITHIN_S if is_known else FIRST_HEARD_WITHIN_S
                try:
                    found = ask(process.port, process.token, "GET", "/healthz", within_s=within_s)
                except ConnectError:
                    return None
                self._answered[site] = process.pid
                if found["state"] != State.LOADING:
                    return process
            elif time.monotonic() > until:
                break
        return None

    # Moving by itself

    def read_measured_parts(self) -> Mapping[str, Measured]:
        found = {site: read_measured(site_folder(self.folder, site)) for site in self.sites}
        return {site: measured for site, measured in found.items() if measured is not None}

    def find_down(self, now: float) -> frozenset[str]:
        """A process that ends is started again: a site is down when that has not helped for a while. So is one whose
        process stands still.
        """
        gone = [site for site in self.sites if not _is_there(site_folder(self.folder, site))]
        self._gone = {site: self._gone.get(site, now) for site in gone}
        return frozenset(site for site, since in self._gone.items() if now - since >= DOWN_S)

    def note_state(self, state: State) -> None:
        self.state = state

    @property
    def may_move(self) -> bool:
        return self.state is State.RUNNING and set(self._epochs.behind) <= self._unheard.keys() | self._held.keys()

    def try_to_move(self, plan: Plan) -> str | None:
        """Tells sites a plan of the same contracts. One that cannot go over to it tries again, as after `apply`."""
        if not self._turn.acquire(blocking=False):
            return "somebody applies another plan"
        try:
            self.check_engines(plan)
            terms = plan.catalogue.contracts
            forced = {name: s for name, s in read_forced_promises(self.folder).items() if terms[name].forced}
            self.tell_parts(Prepared(plan, forced, difference(self.plan, plan), ()))
            self.look_after_processes()
            for contract, why in self._bring_behind().items():
                log.warning("%s is not loaded after it was moved: %s", contract, why)
        except HeadraceError as error:
            log.warning("a site has not gone over to a better plan: %s", error)
        finally:
            self._turn.release()
        return None

    def start_moving(self, ledger: Ledger, lease: Lease) -> None:
        """Looks for better plans from now on."""
        self.moving = SitesReplanning(self, ledger, lease)
        threading.Thread(target=self.moving.run, name="replan", daemon=True).start()

    @property
    def moves(self) -> list[dict[str, Any]]:
        """The last moves, as `status` tells them."""
        return [] if self.moving is None else move_documents(self.moving.moves)

    # Processes

    def give_certificates(self) -> None:
        """Sites show each other a certificate of the project's own authority. They take the next one from their folder
        while they run.
        """
        now = datetime.datetime.now(datetime.UTC)
        authority = open_authority(self.folder.root, self.plan.catalogue.project, now)
        for site in self.sites:
            here = site_folder(self.folder, site)
            here.prepare()
            give_certificate(authority, here.root, site, now)

    def look_after_processes(self) -> None:
        """Starts the processes of sites that do not run."""
        with self._starting:
            self._look_after_processes()

    def _look_after_processes(self) -> None:
        for site in self.sites:
            known = self._processes.setdefault(site, _SiteProcess())
            if known.pid is not None and exit_status(known.pid) is not None:
                known.pid = None
            if known.pid is not None or running_process(site_folder(self.folder, site)) is not None:
                continue
            since_s = time.monotonic() - known.started_s
            if known.started_s and since_s > LASTING_S:
                known.failures = 0
            if since_s < BACKOFF_S[min(known.failures, len(BACKOFF_S) - 1)]:
                continue
            known.pid = self._start(site)
            known.failures, known.started_s = known.failures + 1, time.monotonic()

    def _start(self, site: str) -> int:
        """What its process says is added to what the one before has said, as long as that is not much."""
        here = site_folder(self.folder, site)
        here.prepare()
        words = ["agent", str(self.folder.project), "--site", site]
        words += [] if self.settings.engine is None else ["--engine", self.settings.engine.value]
        words += name_servers(self.settings.feed_servers) if site in find_feeds(self.plan).values() else []
        with _open_growing(here.root / "agent.log") as out, _open_growing(here.root / "agent.errors") as err:
            pid = spawn_detached(module_command("headrace", *words), out, err, self._choose_environment(site))
        log.info("started the process of site %s", site, extra={"pid": pid})
        return pid

    def _choose_environment(self, site: str) -> Mapping[str, str]:
        """Spark's processes would inherit what keeps a process small, and are not."""
        catalogue = self.plan.catalogue
        engine = engine_to_start(catalogue.sites[site].engine or catalogue.engine, self.settings.engine)
        return SMALL if engine.kind is RunEngine.LOCAL else {}

    def end_processes(self) -> None:
        """Ends all sites. Those that have just been started end too, as soon as they are there."""
        with self._starting, ThreadPoolExecutor(max(1, len(self.sites))) as ending:
            list(ending.map(self._end, self.sites))

    def _end(self, site: str) -> None:
        known = self._processes.get(site)
        if known is not None and known.pid is not None and exit_status(known.pid) is None:
            with suppress(ProcessLookupError):
                os.kill(known.pid, signal.SIGTERM)
        process = running_process(site_folder(self.folder, site))
        if process is not None and not end_process(process, END_WITHIN_S):
            log.warning("process %d of site %s did not end", process.pid, site)

    # Telling

    def say_running(self, after_s: float) -> str:
        """What people are told once the project runs."""
        return f"running after {after_s:.1f} s: {', '.join(self.sites)}"

    @contextmanager
    def serving_sites(self, lease: Lease) -> Iterator[None]:
        """Answers sites meanwhile, if these are elsewhere."""
        yield

    def audit(self) -> dict[str, Any]:
        """What became of every promise so far."""
        there = [here for site in self.sites if (here := site_folder(self.folder, site)).exists]
        found = [one for here in there for one in audit_document(look_of(here))["contracts"]]
        return {"contracts": found, "recompute": []}

    def forget(self, site: str) -> Applied:
        """Raises UsageError: a site that this process starts is not gone for good."""
        raise UsageError(f'site "{site}" is a process of this project', "remove it from the project's files instead")

    def status(self) -> dict[str, Any]:
        unheard = [
            {"what": f'site "{site}" does not answer, and runs an earlier plan', "since": since, "hint": COMES_BACK}
            for site, since in self._unheard.items()
        ]
        about = {
            "state": self.state.value,
            "pid": os.getpid(),
            "troubles": [*unheard, *self._tell_unserved(), *self.tell_left_out()],
        }
        return find_sites_status(self.folder, about, self.moves)

    def find_unserved(self) -> Mapping[str, tuple[str, str]]:
        """Sites that lack feed servers, as far as any were asked for; with what to say about each and what to do."""
        return {} if self.settings.feed_servers is None else find_unserved(self.folder, self.plan)

    def _tell_unserved(self) -> list[dict[str, Any]]:
        found, before, now = self.find_unserved(), self._unserved, time.time()
        self._unserved = {site: before.get(site, now) for site in found}
        return [Trouble(what, before.get(site, now), hint).to_json() for site, (what, hint) in found.items()]

    def tell_left_out(self) -> list[dict[str, Any]]:
        """Troubles for `status`. Nobody waits for them, so they are told once the project runs."""
        return [one.to_json() for one in self._left_out] if self.state is State.RUNNING else []

    def write_status(self) -> None:
        self.folder.write_json(STATUS_FILE, self.status(), indent=None)
