"""What demos have in common: a sample project in a folder of its own, served in this process as `up` serves any.

`close` ends all that was started, however far it got, and removes the folder.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from headrace.app.preparing import Prepared
from headrace.app.project import sample_project
from headrace.app.running import Say, Serve, UpSettings, keep_promises, log_to, open_host
from headrace.connect.postgres.sample import SampleDatabases
from headrace.connect.signals import hold_signals
from headrace.coordinate.host import ServiceHost
from headrace.declare.project_text import PROJECT_FILE
from headrace.model.errors import ConnectError, UsageError
from headrace.model.options import DeclaredEngine
from headrace.site.engine.start import StartedEngine, start_engine
from headrace.site.folder import Folder
from headrace.site.last_status import State

LOADED_WITHIN_S = 300.0
"""A sample is loaded within half a minute; on a machine that cannot, people do not wait for ever."""
LOOK_EVERY_S = 0.1
DOCTOR = "`headrace doctor` looks for the cause: Java, memory, disk"


class Closed(Protocol):
    def close(self) -> None: ...


Opened = TypeVar("Opened", bound=Closed)


@contextmanager
def open_sample(name: str, make: Callable[[Path], Opened]) -> Iterator[Opened]:
    """A demo of a sample project. Everything that was started has ended afterwards, whatever happens within."""
    sample = sample_project(name)
    if sample is None:
        what = f'the sample project "{name}" is not installed'
        raise UsageError(what, "`headrace init DIR` writes a project to start from")
    demo: Opened | None = None
    try:
        with hold_signals():  # those that came are heard at its end: within the `try`
            demo = make(sample)
        yield demo
    finally:
        # Further interrupts are ignored while things end: one more would leave half of them behind.
        with hold_signals(hear_later=False):
            if demo is not None:
                demo.close()


class DemoService:
    """`add_text` is added to the sample's project file."""

    def __init__(self, sample: Path, add_text: str = "") -> None:
        self._root = Path(tempfile.mkdtemp(prefix="headrace-demo-"))
        with ExitStack() as failing:
            failing.callback(shutil.rmtree, self._root, ignore_errors=True)
            self.folder = _copy_project(sample, self._root, add_text)
            failing.pop_all()
        self.databases = SampleDatabases(self._root / "postgres", self.project / "databases")
        self.threads = ThreadPoolExecutor(3, thread_name_prefix="demo")
        self._engine: StartedEngine | None = None
        self._host: ServiceHost | None = None
        self._open = ExitStack()
        self._keeping: Future[None] | None = None

    @property
    def project(self) -> Path:
        return self.folder.project

    @property
    def host(self) -> ServiceHost:
        assert self._host is not None, "call `serve` first"
        return self._host

    def start_engine(self, engine: DeclaredEngine) -> StartedEngine:
        log_to(self.folder.root / "service.log")
        with hold_signals():
            self._engine = start_engine(engine, self.folder)
        return self._engine

    def serve(
        self, prepared: Prepared, environment: Mapping[str, str], serve: Serve, say: Say, tell_phase: Say
    ) -> None:
        """Returns when every view is there. Raises `ConnectError` if that fails, or takes too long."""
        assert self._engine is not None, "call `start_engine` first"
        opening = open_host(self.folder, environment, self._engine, UpSettings(), serve)
        with hold_signals():
            self._host = self._open.enter_context(opening)
            self._host.start(prepared)
            self._keeping = self.threads.submit(keep_promises, self._host, say, tell_phase)
        self._wait_until_loaded(self._host, self._keeping)

    def _wait_until_loaded(self, host: ServiceHost, keeping: Future[None]) -> None:
        began = time.monotonic()
        while host.state is not State.RUNNING:
            if keeping.done():
                error = keeping.exception()
                raise ConnectError(f"the sample could not be loaded: {error}", DOCTOR) from error
            if time.monotonic() - began > LOADED_WITHIN_S:
                phase = "" if host.service.loading is None else f" ({host.service.loading.phase})"
                late = f"it takes longer than {LOADED_WITHIN_S:.0f} s"
                raise ConnectError(f"the sample could not be loaded{phase}: {late}", DOCTOR)
            time.sleep(LOOK_EVERY_S)

    def check(self) -> None:
        """Raises what has ended the service, if something has."""
        if self._keeping is not None and self._keeping.done():
            self._keeping.result()

    def close(self, *end_first: Callable[[], object]) -> None:
        """`end_first` are told to end before the service is, in this order."""
        with ExitStack() as ending:  # the last one first, and all of them whatever one raises
            ending.callback(shutil.rmtree, self._root, ignore_errors=True)
            ending.callback(self.databases.stop)
            ending.callback(self._open.close)
            ending.callback(self.threads.shutdown, wait=True, cancel_futures=True)
            if self._host is not None:
                ending.callback(self._host.stop.set)
            elif self._engine is not None:
                ending.callback(self._engine.end)
            for end in reversed(end_first):
                ending.callback(end)


def _copy_project(sample: Path, root: Path, add_text: str) -> Folder:
    project = root / sample.name
    shutil.copytree(sample, project, ignore=shutil.ignore_patterns(".headrace"))
    with (project / PROJECT_FILE).open("a") as file:
        file.write(add_text)
    folder = Folder(project)
    folder.prepare()
    return folder
