"""Running a project; `app_read` looks at what runs.

    prepare          project folder, what runs -> the plan to go over to       plan/, forced contracts included
    run_project      keeps a project's promises until it is told to stop       service/host.py, connect/spark

A door hands over what shows progress and what serves HTTP: neither is needed to keep a promise.
"""

from __future__ import annotations

import logging
import logging.handlers
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from headrace.app.project import Explained, load_project, planned_catalogue
from headrace.model.catalogue import Catalogue, Refusal
from headrace.model.errors import ConnectError, Fenced, Held, InputError, UsageError
from headrace.model.full_query import FullQuery
from headrace.model.plan import Plan, PlanOptions
from headrace.model.running import ApplyWishes, RunEngine
from headrace.plan.make import make_plan, plan_on_running
from headrace.plan.share.difference import difference
from headrace.run.shape import ShapedRunner
from headrace.service.doctor import Looked, look_at_databases, look_at_machine, look_at_state
from headrace.service.engines import start_engine
from headrace.service.folder import Folder
from headrace.service.host import FORCED_FILE, Applied, Host, Prepared
from headrace.service.last_status import State, last_status
from headrace.service.measured import running_to_plan_on
from headrace.service.process import (
    ServiceProcess,
    exit_status,
    forget_process,
    read_process,
    release_remains,
    running_process,
    spawn_detached,
    this_process,
    write_process,
)
from headrace.service.reading import forced_promises
from headrace.service.resume import databases_away, recovered_text
from headrace.service.service import Service, clock_now
from headrace.service.status import error_of

__all__ = [
    "Applied",
    "Detached",
    "Host",
    "Looked",
    "Prepared",
    "UpSettings",
    "examine",
    "explain_running",
    "prepare",
    "run_project",
    "start_detached",
]

STATUS_EVERY_S = 1.0
LOG_BYTES = 10_000_000
PROJECT_FILE = "headrace.yml"
LOOK_EVERY_S = 0.1

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class UpSettings:
    """Port 0 is any that is free. With `shape_links`, transfers between sites take as long as links are declared to."""

    port: int = 0
    engine: RunEngine = RunEngine.SPARK
    shape_links: bool = False


class Server(Protocol):
    """What answers over HTTP."""

    @property
    def port(self) -> int: ...

    def stop(self) -> None: ...


Serve = Callable[[Host, str, int], Server]
"""Starts a server for a host with a token, at a port."""


# Planning


def prepare(directory: Path, environment: Mapping[str, str], wishes: ApplyWishes, connect: bool = True) -> Prepared:
    """The project's plan on what runs. Contracts that were forced stay so while they ask for the same."""
    declared = load_project(directory, environment, True) if connect else planned_catalogue(directory, environment)
    folder = Folder(directory)
    running = running_to_plan_on(folder)
    for name in wishes.force:
        if name not in declared.contracts:
            raise UsageError(f'contract "{name}" does not exist', "contracts are listed by `headrace plan`")
    relaxed = _still_forced(folder, declared)
    base = None if wishes.replan else running
    plan = _plan_on(base, declared, relaxed)
    for _ in declared.contracts:
        refused = [one for one in plan.rejected if one.contract in wishes.force or one.contract in relaxed]
        if not refused:
            break
        for one in refused:
            if one.smallest_staleness_s is None:
                raise UsageError(f'contract "{one.contract}" cannot be forced: {one.detail}')
            relaxed[one.contract] = one.smallest_staleness_s
        plan = _plan_on(base, declared, relaxed)
    forced = {name: declared.contracts[name].freshness_s for name in relaxed}
    return Prepared(plan, forced, None if running is None else difference(running, plan))


def _still_forced(folder: Folder, declared: Catalogue) -> dict[str, float]:
    before = folder.read_json(FORCED_FILE) or {}
    return {
        name: terms["kept_s"]
        for name, terms in before.items()
        if name in declared.contracts and declared.contracts[name].freshness_s == terms["declared_s"]
    }


def _plan_on(running: Plan | None, declared: Catalogue, relaxed: Mapping[str, float]) -> Plan:
    contracts = {
        name: replace(contract, freshness_s=relaxed.get(name, contract.freshness_s))
        for name, contract in declared.contracts.items()
    }
    catalogue = replace(declared, contracts=contracts)
    return make_plan(catalogue, PlanOptions()) if running is None else plan_on_running(running, catalogue)


# Running


def _runnable(prepared: Prepared, engine: RunEngine) -> Prepared:
    """The plan to go over to, if this engine can run it."""
    views = prepared.plan.catalogue.views
    for contract in prepared.plan.contracts if engine is RunEngine.LOCAL else ():
        recomputed, query = views[contract.view].recomputed, views[contract.view].query
        if isinstance(recomputed, FullQuery) and isinstance(query, Refusal):
            raise UsageError(
                f'contract "{contract.contract}" needs Spark: only it can evaluate view "{contract.view}" '
                f"({query.operator})",
                "run the project without `--engine local`",
            )
    return prepared


def run_project(
    directory: Path,
    environment: Mapping[str, str],
    settings: UpSettings,
    serve: Serve,
    say: Say,
    tell_plan: Callable[[Prepared], None],
) -> Prepared:
    """Runs until the process is told to end, or someone asks for it. Raises what keeps the project from running."""
    folder = Folder(directory)
    _refuse_second(folder)
    prepared = _runnable(_prepare_or_resume(folder, environment, say), settings.engine)
    tell_plan(prepared)
    if not prepared.plan.contracts:
        return prepared
    folder.prepare()
    _log_to(folder.root / "service.log")
    _tell_remains(folder, say)
    engine = start_engine(settings.engine, folder)
    service = Service(folder, environment, engine.runner, absence=engine.absence)
    if settings.shape_links:
        service.runner = ShapedRunner(engine.runner, service.links, wait=service.stop.wait)
    try:
        service.open()
    except Held as error:
        raise _held(folder, str(error)) from error
    host = Host(service, folder, lambda wishes: _runnable(prepare(directory, environment, wishes), settings.engine))
    try:
        with _signals(host.stop):
            _run(host, prepared, settings, serve, say)
    finally:
        service.close()
        engine.end()
        host.state = State.STOPPED if host.state is not State.FAILED else State.FAILED
        _write_last_status(host)
        forget_process(folder)
    return prepared


def _run(host: Host, prepared: Prepared, settings: UpSettings, serve: Serve, say: Say) -> None:
    token, began = secrets.token_urlsafe(24), time.monotonic()
    server = serve(host, token, settings.port)
    try:
        process = this_process(host.service.lease, server.port, token)
        write_process(host.folder, process)
        host.start(prepared)
        with host.replanning():
            _until_told(host, process, began, say)
    finally:
        server.stop()


def _until_told(host: Host, process: ServiceProcess, began: float, say: Say) -> None:
    phase, written = "", 0.0
    while not host.stop.wait(0.1):
        loading = host.service.loading
        assert loading is not None
        if host.state is State.LOADING and loading.phase != phase:
            phase = loading.phase
            say(phase if phase != "running" else f"running after {time.monotonic() - began:.1f} s: {process.address}")
        if host.state is State.LOADING and loading.done.is_set():
            if loading.error is not None:
                host.state = State.FAILED
                raise ConnectError(
                    f"the views could not be loaded: {loading.error.splitlines()[0]}",
                    f"its log is {host.folder.root / 'service.log'}",
                )
            host.state = State.RUNNING
            written = 0.0
        if not host.service.is_running:
            host.state = State.FAILED
            raise _failure(host)
        if time.monotonic() - written >= STATUS_EVERY_S:
            host.write_status()
            written = time.monotonic()


def _failure(host: Host) -> Exception:
    """Of a service that has ended by itself. One that lost its project did no harm: nothing of it was committed."""
    why = host.service.failure
    if isinstance(why, Fenced):
        what = f'the project in "{host.folder.project}" was taken over while this process stood still: {why}'
        return UsageError(what, "the other process goes on from what this one committed")
    failed = RuntimeError("the service failed")
    failed.__cause__ = why
    return failed


def _write_last_status(host: Host) -> None:
    """The ledger is closed: what was written last, with how it ended; unless somebody else runs the project by now."""
    found, process = host.folder.read_json("status.json"), read_process(host.folder)
    if isinstance(found, dict) and process is not None and process.is_this:
        found["service"] |= {"state": host.state.value, "error": error_of(host.service), "written": time.time()}
        host.folder.write_json("status.json", found)


def _refuse_second(folder: Folder) -> None:
    running = running_process(folder)
    if running is not None:
        raise UsageError(
            f'the project in "{folder.project}" runs already, as process {running.pid}',
            "`headrace apply` brings it to the project's plan, `headrace down` ends it",
        )


def _held(folder: Folder, reason: str) -> UsageError:
    return UsageError(f'the project in "{folder.project}" is run by another process: {reason}', "wait, or end that one")


def _prepare_or_resume(folder: Folder, environment: Mapping[str, str], say: Say) -> Prepared:
    """The project's plan. While a database is away the one that ran last, so that views of the others are kept."""
    try:
        return prepare(folder.project, environment, ApplyWishes())
    except InputError:
        running = folder.running()
        away = {} if running is None else databases_away(running, environment)
        if running is None or not away:
            raise
        for name, reason in away.items():
            say(f"database {name} does not answer: {reason}")
        say("going on with the plan that ran last; `headrace apply` looks at the project's files again")
        return Prepared(running, forced_promises(folder), None)


def _tell_remains(folder: Folder, say: Say) -> None:
    dead = release_remains(folder)
    if dead is not None:
        last = last_status(folder)
        seen = last["service"]["written"] if last else dead.started
        say(f"the last run (process {dead.pid}) ended without being told to, after {_clock(seen)}")
        say(f"going on from what it committed: {recovered_text(folder, clock_now())}")


def _clock(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def _log_to(file: Path) -> None:
    """Everything goes to the file; what people see is said to them."""
    handler = logging.handlers.RotatingFileHandler(file, maxBytes=LOG_BYTES, backupCount=1)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    file.chmod(0o600)
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)


@contextmanager
def _signals(stop: threading.Event) -> Iterator[None]:
    """While this holds, being told to end is noted instead of obeyed."""
    kept = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


@dataclass(frozen=True, slots=True)
class Detached:
    """A process that runs a project, and how long that took; or what it ended with instead, and its last words."""

    process: ServiceProcess | None
    seconds: float
    status: int | None = None
    error: str = ""


def start_detached(directory: Path, settings: UpSettings, say: Say) -> Detached:
    """Starts a process of its own that runs the project; returns when it does. Tells what that process says."""
    folder = Folder(directory)
    _refuse_second(folder)
    if not (directory / PROJECT_FILE).is_file():
        load_project(directory, {})  # raises what is wrong: nothing is made where there is no project
    folder.prepare()
    began, output, errors = time.monotonic(), folder.root / "up.log", folder.root / "up.errors"
    words = ["up", str(directory), "--port", str(settings.port), "--engine", settings.engine.value]
    words += ["--shape-links"] if settings.shape_links else []
    with output.open("wb") as out, errors.open("wb") as err:
        child = spawn_detached([sys.executable, "-m", "headrace", *words], out, err)
    told, process, status = 0, None, None
    while process is None and status is None:
        time.sleep(LOOK_EVERY_S)
        status = exit_status(child)
        told = _tell_more(output, told, say)
        process = _loaded(folder, child)
    _tell_more(output, told, say)
    seconds = time.monotonic() - began
    return Detached(process, seconds) if process else Detached(None, seconds, status, errors.read_text().strip())


def _loaded(folder: Folder, pid: int) -> ServiceProcess | None:
    """The process, once it runs."""
    process, last = running_process(folder), last_status(folder)
    if process is None or last is None or not process.pid == pid == last["service"]["pid"]:
        return None
    return process if last["service"]["state"] == State.RUNNING else None


def _tell_more(file: Path, told: int, say: Say) -> int:
    """Tells the whole lines that were added to a file; up to where."""
    text = file.read_text()[told:]
    whole = text[: text.rfind("\n") + 1]
    for line in whole.splitlines():
        say(line)
    return told + len(whole)


def explain_running(host: Host, name: str) -> Explained:
    """Why the plan that runs is so, at what is measured now."""
    from headrace.plan.explain import grounds, sources_of, why
    from headrace.plan.share.adapt import plan_as_measured

    measured = host.measured()
    plan = plan_as_measured(host.reader().plan, measured)
    return Explained(plan, why(plan, name), grounds(plan.catalogue, sources_of(plan, name), measured))


def examine(directory: Path, environment: Mapping[str, str]) -> list[Looked]:
    """All that can be looked at; without a project, this machine alone."""
    folder = Folder(directory)
    found = list(look_at_machine(environment, directory if directory.is_dir() else Path()))
    if not (directory / PROJECT_FILE).is_file():
        return [*found, Looked("project", f'none in "{directory}"')]
    found += look_at_state(folder)
    try:
        catalogue = load_project(directory, environment, True)
    except InputError as error:
        found += (Looked("project", "has mistakes", problem) for problem in error.problems)
        return found
    found.append(Looked("project", f"{catalogue.project}, {len(catalogue.sources)} sources are ready"))
    found += (Looked("project", "warned about", problem) for problem in catalogue.problems)
    return [*found, *look_at_databases(catalogue, environment, folder)]
