"""Keeps copies of views for other programs, with a thread for each: a copy that cannot be written delays no other.

What a thread knows of its copy is a frozen value, which it swaps whole (`site/deliver/progress.py`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from headrace.meaning.python_functions import Functions
from headrace.model.catalogue import Contract, CopyPlace
from headrace.model.errors import ConnectError, CopyChanged, CopyLocked, HeadraceError, RefusedRow
from headrace.model.log import Lease
from headrace.model.names import name_of_view
from headrace.model.plan import Plan
from headrace.model.relation import Field, Output
from headrace.run.compile.columns import serving_log, view_outputs
from headrace.run.ports import Delivery, Ledger, Store
from headrace.run.program import Program
from headrace.run.views.deliver import deliver
from headrace.run.views.refused_row import say_refused_row
from headrace.site.deadline import Deadline
from headrace.site.deliver.check_pace import CheckPace
from headrace.site.deliver.copies import Copied, CopyTarget, target_of
from headrace.site.deliver.progress import CopyProgress, say_writing
from headrace.site.troubles import DELIVERY, Troubles

MEND = "make the target writable, or change `deliver` and run `headrace apply`; the service keeps trying"
BACKOFF_S = (0.5, 1.0, 2.0, 5.0, 15.0)
BACKOFF_FOR = 5.0
"""After a refused row, also this many times as long as the try took: to find the row takes as long as all rows."""
LONGEST_BACKOFF_S = 600.0
LOOK_EVERY_S = 1.0
END_WITHIN_S = 20.0


@dataclass(frozen=True, slots=True)
class Copy:
    """What is delivered, to where, and from which log."""

    contract: str
    target: CopyTarget
    log: str
    columns: tuple[Field, ...]
    outputs: tuple[Output, ...]
    functions: Functions


@dataclass(slots=True)
class _RunningCopy:
    """`is_changed` if somebody else has changed the copy, so that it has to be filled again. `left_at` is the time at
    which we have left it; None after a failure, when nobody knows.
    """

    copy: Copy
    progress: CopyProgress
    is_changed: bool = False
    left_at: int | None = None
    thread: threading.Thread | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    wake: threading.Event = field(default_factory=threading.Event)


@dataclass(slots=True)
class Deliveries:
    """A copy that is behind the view because it cannot be written is a trouble. Folders are the project's.

    `tell_reached` is told which contract's copy has reached which time, by the thread of that copy.
    """

    project: Path
    ledger: Ledger
    store: Store
    lease: Lease
    troubles: Troubles = field(default_factory=Troubles)
    program: Program | None = None
    """Of the plan that is delivered; swapped whole."""
    tell_reached: Callable[[str, int], None] = lambda _contract, _t: None
    pace: CheckPace = field(default_factory=CheckPace)
    _running: dict[str, _RunningCopy] = field(default_factory=dict)

    def run(self, plan: Plan, program: Program, environment: Mapping[str, str]) -> tuple[threading.Thread, ...]:
        """Delivers exactly what the plan's contracts ask for; threads of other copies that have not ended yet."""
        self.program = program
        wanted = {copy.contract: copy for copy in self._find_wanted(plan, program, environment)}
        others = [name for name, running in self._running.items() if wanted.get(name) != running.copy]
        ended = [self._end(self._running.pop(name)) for name in others]
        for name, copy in wanted.items():
            if name not in self._running:
                self._start(copy)
        return tuple(thread for thread in ended if thread is not None and thread.is_alive())

    def _find_wanted(self, plan: Plan, program: Program, environment: Mapping[str, str]) -> list[Copy]:
        found = []
        self.troubles.report_exactly(DELIVERY, {})
        for entry in plan.contracts:
            contract = plan.catalogue.contracts[entry.contract]
            if contract.deliver is not None:
                try:
                    log, outputs = serving_log(program, entry), view_outputs(plan, program, entry)
                    target = self._target(plan, contract, contract.deliver, outputs, environment)
                    columns = tuple(program.logs[log].columns)
                    found.append(Copy(contract.name, target, log, columns, outputs, program.functions))
                except HeadraceError as error:
                    self._report(entry.contract, error, str(error))
        return found

    def _target(
        self, plan: Plan, contract: Contract, to: CopyPlace, outputs: tuple[Output, ...], environment: Mapping[str, str]
    ) -> CopyTarget:
        columns = tuple(Field(output.name, output.expr.type) for output in outputs)
        meaning = next(planned.block.fingerprint for planned in plan.blocks if planned.block.id == contract.view)
        view = name_of_view(contract.view)
        about = Copied(plan.catalogue.project, contract.name, view, meaning, contract.freshness_s, columns)
        return target_of(about, to, self.project, environment, contract.declared_at)

    @property
    def progress(self) -> dict[str, CopyProgress]:
        """How far each copy is, by contract."""
        return {name: running.progress for name, running in list(self._running.items())}

    def reached(self) -> dict[str, int]:
        """The times of copies, by contract; of those that were asked."""
        return {name: one.t for name, one in self.progress.items() if one.t is not None}

    def takes_s(self) -> dict[str, float]:
        """Seconds in which most deliveries are done, by contract."""
        return {name: one.takes_s for name, one in self.progress.items()}

    def find_cause(self, contract: str) -> str | None:
        """Why a contract's copy is behind, as far as that is known."""
        told, progress = self.troubles.get(DELIVERY + contract), self.progress.get(contract)
        if told is not None or progress is None:
            return None if told is None else told.what
        return say_writing(progress, time.monotonic())

    def _start(self, copy: Copy) -> None:
        running = self._running[copy.contract] = _RunningCopy(copy, CopyProgress(copy.target.where))
        self.pace.add(copy.contract)
        running.thread = threading.Thread(target=self._keep, args=(running,), name="deliver", daemon=True)
        running.thread.start()

    def pushed(self) -> None:
        """Something is new."""
        for running in list(self._running.values()):
            running.wake.set()

    def _keep(self, running: _RunningCopy) -> None:
        copy, failures = running.copy, 0
        delivery: Delivery | None = None
        while not running.stop.is_set():
            running.wake.clear()
            began = time.monotonic()
            try:
                delivery = delivery or copy.target.open(self.lease.epoch)
                self._bring_up(delivery, running)
                self._check(delivery, running)
                failures = 0
                self.troubles.clear(DELIVERY + copy.contract)
            except Exception as error:  # whatever it is, it is this contract's alone
                failures += 1
                running.is_changed = running.is_changed or isinstance(error, CopyChanged)
                self.pace.put_off(copy.contract, time.monotonic())
                if not running.stop.is_set():
                    self._report(copy.contract, error, say_failure(error, copy, self.program, self.ledger, self.store))
                running.stop.wait(backoff_after(error, failures, time.monotonic() - began))
            running.wake.wait(LOOK_EVERY_S)
        if delivery is not None:
            delivery.close()

    def _report(self, contract: str, error: Exception, said: str) -> None:
        line = next(iter(said.splitlines()), type(error).__name__)
        hint = error.hint if isinstance(error, ConnectError) else None
        self.troubles.report(DELIVERY + contract, f'contract "{contract}" cannot be delivered: {line}', hint or MEND)

    def _bring_up(self, delivery: Delivery, running: _RunningCopy) -> None:
        copy = running.copy
        found = self.ledger.logs([copy.log]).get(copy.log)
        if found is None or (running.progress.t == found.t and not running.is_changed):
            return
        with self._telling_progress(running):
            expected, anew = running.left_at, running.is_changed
            running.left_at = None
            deliver(delivery, self.store, found, copy.columns, copy.outputs, copy.functions, expected, anew)
            running.progress = running.progress.reach(found.t, time.monotonic())
        running.is_changed, running.left_at = False, found.t
        self.tell_reached(copy.contract, found.t)

    def _check(self, delivery: Delivery, running: _RunningCopy) -> None:
        """Whether the copy still holds what was delivered, as often as that may cost."""
        t, began = running.progress.t, time.monotonic()
        if t is None or not self.pace.take_turn(running.copy.contract, began):
            return
        took_s = 0.0  # unless it comes to an end: whoever waits for a lock costs nothing
        try:
            with self._telling_progress(running):
                delivery.check(t)
            took_s = time.monotonic() - began
        except CopyChanged:
            took_s = time.monotonic() - began
            raise
        finally:
            self.pace.end_turn(took_s, time.monotonic())

    @contextmanager
    def _telling_progress(self, running: _RunningCopy) -> Iterator[None]:
        running.progress = running.progress.begin(time.monotonic())
        try:
            yield
        finally:
            running.progress = running.progress.end()

    def tell_to_end(self) -> None:
        """Each after the step that it is at. A plan on its way may still start others: `end` tells these."""
        for running in list(self._running.values()):
            running.stop.set()
            running.wake.set()

    def end(self, deadline: Deadline) -> None:
        """A step that is not done by then is done again by the next service."""
        self.tell_to_end()
        deadline.join([running.thread for running in self._running.values()])
        self._running = {}

    def _end(self, running: _RunningCopy) -> threading.Thread | None:
        running.stop.set()
        running.wake.set()
        Deadline(END_WITHIN_S).join([running.thread])
        self.troubles.clear(DELIVERY + running.copy.contract)
        self.pace.forget(running.copy.contract)
        return running.thread


def say_failure(error: Exception, copy: Copy, program: Program | None, ledger: Ledger, store: Store) -> str:
    """A row that is refused is named by its key, where what was captured can still be read."""
    if not isinstance(error, RefusedRow) or program is None or copy.log not in program.logs:
        return str(error)
    try:
        return say_refused_row(error, copy.log, copy.outputs, program, ledger, store)
    except Exception:  # the row's name is a courtesy: without it, why it is refused is said all the same
        return str(error)


def backoff_after(error: Exception, failures: int, took_s: float) -> float:
    """How long to wait before the next try, in seconds. Behind a lock the try itself has waited long enough."""
    backoff_s = BACKOFF_S[0] if isinstance(error, CopyLocked) else BACKOFF_S[min(failures, len(BACKOFF_S)) - 1]
    return max(backoff_s, min(BACKOFF_FOR * took_s, LONGEST_BACKOFF_S)) if isinstance(error, RefusedRow) else backoff_s
