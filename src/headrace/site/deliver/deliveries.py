"""Keeps copies of views for other programs, with a thread for each: a copy that cannot be written delays no other."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace.meaning.python_functions import Functions
from headrace.model.catalogue import Contract, CopyPlace
from headrace.model.errors import ConnectError, HeadraceError, RefusedRow
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
from headrace.site.deliver.copies import Copied, CopyTarget, target_of
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
    copy: Copy
    thread: threading.Thread | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    wake: threading.Event = field(default_factory=threading.Event)


@dataclass(slots=True)
class Deliveries:
    """A copy that is behind the view because it cannot be written is a trouble. Folders are the project's."""

    project: Path
    ledger: Ledger
    store: Store
    lease: Lease
    troubles: Troubles = field(default_factory=Troubles)
    program: Program | None = None
    """Of the plan that is delivered; swapped whole."""
    delivered: dict[str, int] = field(default_factory=dict)
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

    def _start(self, copy: Copy) -> None:
        running = self._running[copy.contract] = _RunningCopy(copy)
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
                self._bring_up(delivery, copy)
                failures = 0
                self.troubles.clear(DELIVERY + copy.contract)
            except Exception as error:  # whatever it is, it is this contract's alone
                failures += 1
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

    def _bring_up(self, delivery: Delivery, copy: Copy) -> None:
        found = self.ledger.logs([copy.log]).get(copy.log)
        if found is not None and self.delivered.get(copy.contract) != found.t:
            deliver(delivery, self.store, found, copy.columns, copy.outputs, copy.functions)
            self.delivered[copy.contract] = found.t

    def tell_to_end(self) -> None:
        """Each after the step that it is at. A plan on its way may still start others: `end` tells these."""
        for running in list(self._running.values()):
            running.stop.set()
            running.wake.set()

    def end(self, deadline: Deadline) -> None:
        """A step that is not done by then is done again by the next service."""
        self.tell_to_end()
        deadline.join([running.thread for running in self._running.values()])
        self._running, self.delivered = {}, {}

    def _end(self, running: _RunningCopy) -> threading.Thread | None:
        running.stop.set()
        running.wake.set()
        Deadline(END_WITHIN_S).join([running.thread])
        self.troubles.clear(DELIVERY + running.copy.contract)
        self.delivered.pop(running.copy.contract, None)
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
    """How long to wait before the next try, in seconds."""
    backoff_s = BACKOFF_S[min(failures, len(BACKOFF_S)) - 1]
    return max(backoff_s, min(BACKOFF_FOR * took_s, LONGEST_BACKOFF_S)) if isinstance(error, RefusedRow) else backoff_s
