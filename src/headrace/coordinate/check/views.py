"""Checks views of a running service against their queries, a part at a time, and has those rebuilt that differ.

A view that differs is noted (`ViewDiffers`) until a later look at the same part finds it equal. Its vertices are
halted, so that they are computed anew from the rows of their sources (`site/mending.py`); if that does not help, they
are loaded anew.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headrace.model.errors import ConnectError, EvaluationError, HeadraceError
from headrace.model.log import NEVER, Commit, Log
from headrace.model.notes import Halted, ViewDiffers, note_keys, read_note
from headrace.model.plan import ContractPlan
from headrace.model.relation import Relation, scans_of, stamps_of
from headrace.run.check.check_view import ROWS_AT_ONCE, CheckedView, HeldLog
from headrace.run.check.held_source import find_base
from headrace.run.check.mend import Mend, choose_mend
from headrace.run.check.rota import CheckFinding, CheckRecord
from headrace.run.compile.columns import serving_log, view_outputs
from headrace.run.program import Ingest, Program, reads_time
from headrace.run.push.engine import Engine, NotThereYet
from headrace.run.push.exports import ChangesGone
from headrace.run.push.halted import read_halted, waiting_for
from headrace.run.rows.compare import RowDifference
from headrace.site.push_state import PushState

if TYPE_CHECKING:
    from headrace.site.service import Service

log = logging.getLogger("headrace.service")

IN_FULL = "only Spark can evaluate its query; it is evaluated anew whenever a source changes"
TOO_LARGE = "its query reads {rows:,} rows and cannot be evaluated in parts; `headrace audit --recompute` compares it"
OF_HISTORY = "it depends on when rows came, and sources tell only what is there now"
TOO_LARGE_ELSEWHERE = (
    'source "{}" of site "{}" has too many rows to fetch for a check; `headrace audit --recompute` compares it'
)
NOT_FETCHED = 'site "{1}" has not given rows of source "{0}": {2}'
AGAIN_ELSEWHERE_S = 600.0
"""How often a view is checked whose check has rows cross a link."""


@dataclass(slots=True)
class ViewChecks:
    """One thread uses this. `bytes` counts what was read."""

    service: Service
    rows_at_once: int = ROWS_AT_ONCE
    bytes: int = 0
    _mended: dict[str, list[float]] = field(default_factory=dict)
    _asked: dict[str, float] = field(default_factory=dict)
    """When rows of other sites were asked for last, by contract."""
    _differed: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The part in which each view differed last."""

    def check(self, state: PushState, entry: ContractPlan, record: CheckRecord, now: float) -> CheckRecord:
        """One part. Returns the record of the view afterwards."""
        query = state.running.plan.catalogue.views[entry.view].query
        name = serving_log(state.program, entry)
        if not isinstance(query, Relation):
            return record.begin(now, "").end(now, CheckFinding.UNCHECKED, IN_FULL)
        if stamps_of(query):
            return record.begin(now, "").end(now, CheckFinding.UNCHECKED, OF_HISTORY)
        elsewhere = _find_elsewhere(state, query)
        differs = entry.contract in note_keys(self.service.ledger, ViewDiffers)
        asked = self._asked.get(entry.contract)
        if elsewhere and not differs and asked is not None and 0 <= now - asked < AGAIN_ELSEWHERE_S:
            return record.postpone(now)  # rows of other sites have a link to cross
        view = self._open(state, entry, query, elsewhere)
        if view is None or not view.is_known or name in waiting_for(state.program, read_halted(self.service.ledger)):
            return record.postpone(now)
        if elsewhere:
            self._asked[entry.contract] = now
            why = self._fetch(view, elsewhere)
            if why is not None:
                return record.begin(now, "").end(now, CheckFinding.UNCHECKED, why)
        if differs:
            return self._check_again(view, entry, record, now)
        if elsewhere:  # whether something has changed there is for the rows to say
            record = record.begin(now, "")
        elif record.place is None:
            mark = _mark_of(state.program, name, [view.view.log, *(held.log for held in view.sources.values())])
            if mark and record.is_unchanged(now, mark):
                return record.skip(now)
            record = record.begin(now, mark)
        return self._check_part(view, entry, record, now)

    def _fetch(self, view: CheckedView, elsewhere: Mapping[str, str]) -> str | None:
        """Has other sites give the rows that they hold of sources, as of the view's time. Why not, if they do not."""
        importing = self.service.importing
        assert importing is not None, "this site runs apart"
        for source, site in elsewhere.items():
            try:
                rows = importing.read_held(site, source, view.t)
            except (HeadraceError, NotThereYet, ChangesGone) as error:
                return NOT_FETCHED.format(source, site, error)
            if rows is None:
                return TOO_LARGE_ELSEWHERE.format(source, site)
            self.bytes += rows.nbytes
            view.add_given(source, rows)
        return None if view.parts == 1 else TOO_LARGE.format(rows=sum(view.rows.values()))

    def _open(
        self, state: PushState, entry: ContractPlan, query: Relation, elsewhere: Collection[str]
    ) -> CheckedView | None:
        """The view and its sources of this site as of one instant; None if it is not loaded."""
        program, name = state.program, serving_log(state.program, entry)
        here = sorted({scan.source for scan in scans_of(query)}.difference(elsewhere))
        bases = {source: find_base(program, source) for source in here}
        logs = self.service.ledger.logs([name, *bases.values()])
        if not all(one in logs for one in (name, *bases.values())):
            return None
        return CheckedView(
            query,
            view_outputs(state.running.plan, program, entry),
            HeldLog(logs[name], program.logs[name].columns),
            {source: HeldLog(logs[base], program.logs[base].columns) for source, base in bases.items()},
            program.functions,
            self.service.store,
            self.rows_at_once,
        )

    def _check_again(self, view: CheckedView, entry: ContractPlan, record: CheckRecord, now: float) -> CheckRecord:
        """Looks at the part that differed: the view was mended since. If it is equal now, a new pass begins."""
        number, count = self._differed.get(entry.contract, (0, view.parts or 1))
        found = self._compare(view, entry, number, count)
        if found is None:
            return record.postpone(now)
        if not found.equal:
            return self._tell_difference(entry, record, found, now)
        self.service.ledger.commit(self.service.lease, Commit(notes=(ViewDiffers.remove(entry.contract),)))
        return replace(record, place=None, begun_at=0.0)

    def _compare(self, view: CheckedView, entry: ContractPlan, number: int, count: int) -> RowDifference | None:
        """How a part differs; None if it cannot be compared just now."""
        try:
            return view.compare_part(number, count)
        except EvaluationError:
            return None  # a row without an answer: the next push finds and names it
        except ConnectError as error:
            log.info("check of %s: %s", entry.contract, error)  # upkeep has just replaced a file
            return None
        finally:
            self.bytes += view.bytes

    def _check_part(self, view: CheckedView, entry: ContractPlan, record: CheckRecord, now: float) -> CheckRecord:
        number, count = map(int, record.place) if record.place else (0, view.parts)
        if count is None:
            why = TOO_LARGE.format(rows=sum(view.rows.values()))
            return record.end(now, CheckFinding.UNCHECKED, why)
        found = self._compare(view, entry, number, count)
        if found is None:
            return record
        if not found.equal:
            self._differed[entry.contract] = number, count
            return self._tell_difference(entry, record, found, now)
        if number + 1 < count:
            return record.advance((str(number + 1), str(count)), (number + 1) / count, found.rows)
        return record.end(now, CheckFinding.EQUAL, rows=found.rows)

    def _tell_difference(
        self, entry: ContractPlan, record: CheckRecord, found: RowDifference, now: float
    ) -> CheckRecord:
        what = _say_difference(entry.contract, found)
        self._mend(entry, what, now)
        return record.end(now, CheckFinding.DIFFERENT, what, found.rows)

    def _mend(self, entry: ContractPlan, what: str, now: float) -> None:
        """Notes the difference, and has the view mended: both in one commit, so that a crash loses neither."""
        service, tried = self.service, self._mended.setdefault(entry.contract, [])
        before, mend = read_note(service.ledger, ViewDiffers, entry.contract), choose_mend(tried, now)
        note = ViewDiffers(entry.contract, what, round(now * 1e6) if before is None else before.since)
        # Nobody else pushes or rebuilds these vertices, or goes over to another plan, until they are halted.
        with service.turns.upkeep, service.turns.pushing:
            scheduler = service.rounds.scheduler
            assert scheduler is not None, "something runs"
            name = serving_log(scheduler.engine.program, entry)
            made = [] if name not in scheduler.engine.program.tasks else _find_made(scheduler.engine, name)
            halted = [Halted(one, what, note.since, NEVER, differs=True) for one in made if mend is Mend.GENTLY]
            service.ledger.commit(service.lease, Commit(notes=(note, *halted)))
            if mend is Mend.THOROUGHLY:
                gone = scheduler.engine.forget(made)
                service.unloaded.leave_out(scheduler.running.plan, scheduler.engine.program, gone, what)
        if mend is not Mend.NOT_NOW:
            tried.append(now)


def _find_elsewhere(state: PushState, query: Relation) -> dict[str, str]:
    """Sources that a view reads and that other sites capture, with these sites."""
    sources = state.running.plan.catalogue.sources
    read = sorted({scan.source for scan in scans_of(query)} - state.running.sources)
    return {name: sources[name].site for name in read}


def _find_made(engine: Engine, name: str) -> list[str]:
    """All that is computed for a vertex: everything but sources."""
    return [one for one in engine.upstream([name]) if not isinstance(engine.program.tasks[one].step, Ingest)]


def _mark_of(program: Program, name: str, logs: Iterable[Log]) -> str:
    """Stands for the files that logs consist of; empty for a view that changes with the time alone."""
    if any(reads_time(program.tasks[one].step) for one in _find_upstream(program, name)):
        return ""
    files = sorted(piece.file for one in logs for piece in one.contents)
    return hashlib.sha256("\n".join(files).encode()).hexdigest()[:16]


def _find_upstream(program: Program, name: str) -> set[str]:
    found, todo = set[str](), [name]
    while todo:
        one = todo.pop()
        if one in program.tasks and one not in found:
            found.add(one)
            todo += program.tasks[one].reads
    return found


def _say_difference(contract: str, found: RowDifference) -> str:
    counts = {"missing": found.missing, "wrong or too many": found.extra}
    rows = ", ".join(f"{count} {words}" for words, count in counts.items() if count)
    return f'the view of contract "{contract}" differs from its query: {rows} (of {found.rows} rows)'
