"""A comparison of views with their queries at one time.

    cut        take a snapshot of every database, and one time t: the snapshots show exactly what was captured up to t
    push       bring every view to t, and keep the files that hold it then, even if the view advances further
    read       copy the sources as of t into files, without using anything that the engine computed
    evaluate   run each query over these files, and compare both sides by digests

Neither side is ever held in memory as a whole. A view that cannot be compared is named with the reason; the others are
still compared.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from headrace.connect.sources import connector_of
from headrace.coordinate.compare.compared import ComparedView
from headrace.coordinate.compare.cut import GONE, LOOK_EVERY_S, Cut, cut_databases, wait_for_logs
from headrace.coordinate.compare.evaluate import EvaluateBySize
from headrace.coordinate.compare.sources import (
    CapturedRows,
    Opened,
    Query,
    SourceFiles,
    columns_read,
    first_line,
    read_sources,
    sources_of,
)
from headrace.meaning.python_functions import Functions
from headrace.model.catalogue import Catalogue
from headrace.model.errors import ConnectError, HeadraceError
from headrace.model.full_query import FullQuery
from headrace.model.log import Log
from headrace.model.names import name_of_view
from headrace.model.notes import SourceMissed, SourceStopped, note_keys, read_notes
from headrace.model.plan import ContractPlan
from headrace.model.relation import Field, Output, Relation, stamps_of
from headrace.run.capture.spool import spool_log
from headrace.run.check.held_source import find_base
from headrace.run.compile.columns import serving_log, view_outputs
from headrace.run.ports import Store
from headrace.run.push.halted import read_halted, waiting_for
from headrace.run.rows.compare import Parts, compare
from headrace.run.views.view import parts_at
from headrace.site.reading import ViewReader
from headrace.site.sources.databases import databases_of, place_of

log = logging.getLogger("headrace.audit")

REACHED_WITHIN_S = 120.0
FOLDERS_WITHIN_S = 30.0
BEHIND = "what was captured of it did not reach the moment of the comparison"
ELSEWHERE = (
    'it reads source "{}" of site "{}"; `headrace audit --recompute` compares it where the project is coordinated'
)
OF_HISTORY = "it depends on when rows came, and its sources tell only what they hold now"
MOVED_ON = "it changed before it could be read, each time; try again when there are fewer writes"


def query_of(catalogue: Catalogue, view: str) -> Query:
    """What a view that is kept is compared with."""
    declared = catalogue.views[view]
    found = declared.query if isinstance(declared.query, Relation) else declared.recomputed
    assert isinstance(found, Relation | FullQuery), f'view "{view}" is kept, so it can be evaluated'
    return found


class UnreadableRows(Exception):
    """The files of a view cannot be read, and why: that says nothing of other contracts, not even of the same view."""


@dataclass(frozen=True, slots=True)
class ComparisonWatch:
    """`say` is told what goes on. `trouble_of` a contract is why it makes no progress, None if it does. `is_gone` is
    whether the service is: whatever was not read by then cannot be compared.
    """

    say: Callable[[str], None] = lambda _: None
    trouble_of: Callable[[str], str | None] = lambda _: None
    is_gone: Callable[[], bool] = lambda: False


@dataclass(frozen=True, slots=True)
class ComparisonOutcome:
    views: tuple[ComparedView, ...]
    left_out: Mapping[str, str]
    writers_waited_s: float


class HeldView(Protocol):
    """The rows of a view at the moment of a cut, wherever they are kept meanwhile."""

    @property
    def contract(self) -> ContractPlan: ...

    def parts(self, t: int, functions: Functions) -> Iterator[pa.Table]:
        """Columns are called c0, c1, ..., and `__w` is how often a row occurs. Raises UnreadableRows."""


@dataclass(frozen=True, slots=True)
class PinnedView:
    """The files that hold a view at the moment of a cut."""

    contract: ContractPlan
    store: Store
    log: Log
    columns: tuple[Field, ...]
    outputs: tuple[Output, ...]

    def parts(self, t: int, functions: Functions) -> Iterator[pa.Table]:
        """Raises UnreadableRows."""
        try:
            for part in parts_at(self.store, self.log, self.columns, self.outputs, t, functions):
                names = [f"c{position}" for position in range(len(self.outputs))]
                yield part.rename_columns([*names, part.column_names[-1]])
        except (HeadraceError, pa.ArrowException, OSError, ValueError) as error:
            raise UnreadableRows(f"its rows cannot be read: {first_line(error)}") from error


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison at one time. `scratch` does not exist yet."""

    reader: ViewReader
    project: Path
    environment: Mapping[str, str]
    scratch: Path
    evaluate: EvaluateBySize
    watch: ComparisonWatch

    def compare(self, contracts: Sequence[ContractPlan], push: Callable[[int], object]) -> ComparisonOutcome:
        left_out = {one.contract: why for one in contracts if (why := self._why_not(one)) is not None}
        wanted = [one for one in contracts if one.contract not in left_out]
        used = frozenset(source for one in wanted for source in sources_of(self._query(one.view)))
        self.watch.say(f"waiting for a moment at which nobody writes, to compare {len(wanted)} views")
        databases = databases_of(self.reader.plan.catalogue, used)
        watch = self.watch
        catalogue = self.reader.plan.catalogue
        place = place_of(catalogue.project, self.project, self.environment)
        with cut_databases(self.reader, databases, place, watch.say, watch.is_gone) as cut:
            left_out |= self._unreadable(wanted, cut.unreadable)
            wanted = [one for one in wanted if one.contract not in left_out]
            t = self.time_of(cut, sorted(used - cut.snapshots.keys() - cut.unreadable.keys()))
            push(t)
            captured, missing = self.pin_captured(used, t)
            left_out |= self._unreadable(wanted, missing)
            pinned, behind = self.pin([one for one in wanted if one.contract not in left_out], t)
            left_out |= behind
            queries = [self._query(view) for view in sorted({one.contract.view for one in pinned})]
            opened = Opened(cut, captured, t, catalogue.sources, self.reader.ledger, place)
            wanted_columns = columns_read(catalogue.sources, queries)
            sources = read_sources(wanted_columns, opened, self.scratch / "sources", watch.say)
        views = self.compare_all(pinned, sources, t, left_out)
        shutil.rmtree(self.scratch, ignore_errors=True)
        return ComparisonOutcome(tuple(views), left_out, cut.writers_waited_s)

    def _why_not(self, contract: ContractPlan) -> str | None:
        """Why a view cannot be compared with what its sources hold now; None if it can, as far as one can tell."""
        reasons = map(self.why_source_not, sorted(sources_of(self._query(contract.view))))
        return next((why for why in reasons if why is not None), None) or self.why_view_not(contract)

    def why_source_not(self, name: str) -> str | None:
        """Why the rows of a source cannot be compared with; None if they can, as far as one can tell."""
        ledger, here = self.reader.ledger, self.reader.plan.site
        source = self.reader.plan.catalogue.sources[name]
        if source.origin is None:
            return f'source "{name}" has no rows: the project does not say where they are'
        if here is not None and source.site != here:
            return ELSEWHERE.format(name, source.site)
        if (why := connector_of(source.origin.kind).find_incomparable(source)) is not None:
            return f'source "{name}" {why}'
        stopped = read_notes(ledger, SourceStopped)
        if name in stopped:
            return f'source "{name}" is stopped: {stopped[name].why}'
        return f'source "{name}" is being read again' if name in note_keys(ledger, SourceMissed) else None

    def why_view_not(self, contract: ContractPlan) -> str | None:
        """Why there are no rows of a view that could be compared; None if there are, or may be about to."""
        query = self._query(contract.view)
        if isinstance(query, Relation) and stamps_of(query):
            return OF_HISTORY
        log = serving_log(self.reader.program, contract)
        waits_for = waiting_for(self.reader.program, halted := read_halted(self.reader.ledger)).get(log)
        if waits_for is not None:
            return f"it is failing: {halted[waits_for].why}"
        if log in self.reader.ledger.times():
            return None
        return self.watch.trouble_of(contract.contract) or "it is not loaded"

    def _query(self, view: str) -> Query:
        return query_of(self.reader.plan.catalogue, view)

    def _unreadable(self, contracts: Iterable[ContractPlan], unreadable: Mapping[str, str]) -> dict[str, str]:
        """The first reason for each view that reads such a source."""
        found: dict[str, str] = {}
        for one in contracts:
            for source in sorted(sources_of(self._query(one.view)) & unreadable.keys()):
                found.setdefault(one.contract, unreadable[source])
        return found

    def time_of(self, cut: Cut, others: Sequence[str]) -> int:
        """The time of the cut; without one, a time that the other sources have reached. All are there afterwards."""
        logs = [spool_log(source) for source in others]
        times = self.reader.ledger.times()
        t = cut.t if cut.t is not None else max((times.get(name, 0) for name in logs), default=0)
        wait_for_logs(self.reader.ledger, logs, t, FOLDERS_WITHIN_S, self.watch.is_gone)
        return t

    def pin_captured(self, used: Iterable[str], t: int) -> tuple[dict[str, CapturedRows], dict[str, str]]:
        """What we captured of sources that nobody else has, and why some cannot be read."""
        sources, program = self.reader.plan.catalogue.sources, self.reader.program
        found: dict[str, CapturedRows] = {}
        missing: dict[str, str] = {}
        for source in sorted(used):
            origin = sources[source].origin
            if origin is None or not connector_of(origin.kind).is_only_copy:
                continue
            name = find_base(program, source)
            wait_for_logs(self.reader.ledger, [name], t, REACHED_WITHIN_S, self.watch.is_gone)
            log = self.reader.ledger.logs([name]).get(name)
            store = BEHIND if log is None or log.t < t else self._pin_files(log, t)
            if log is None or isinstance(store, str):
                missing[source] = f'source "{source}" cannot be read: {store}'
            else:
                found[source] = CapturedRows(store, log, tuple(program.logs[name].columns))
        return found, missing

    # The views

    def pin(self, contracts: Sequence[ContractPlan], t: int) -> tuple[list[PinnedView], dict[str, str]]:
        """Each as soon as it is there: it moves on, and its log is compacted behind it."""
        waiting = {one.contract: one for one in contracts}
        pinned: list[PinnedView] = []
        left_out: dict[str, str] = {}
        began = asked = time.monotonic()
        while waiting:
            names = {one.contract: serving_log(self.reader.program, one) for one in waiting.values()}
            logs = self.reader.ledger.logs(names.values())
            ask = time.monotonic() - asked > 1.0
            for name, contract in list(waiting.items()):
                log = logs.get(names[name])
                if log is not None and log.t >= t:
                    del waiting[name]
                    view = self._pin_at(contract, log, t)
                    pinned += [view] if isinstance(view, PinnedView) else []
                    left_out |= {name: view} if isinstance(view, str) else {}
                elif (why := self._why_behind(contract, log, ask, time.monotonic() - began)) is not None:
                    del waiting[name]
                    left_out[name] = why
            if ask:
                asked = time.monotonic()
                self.watch.say(f"waiting until views are at the same moment: {len(pinned)} of {len(contracts)} are")
            time.sleep(LOOK_EVERY_S if waiting else 0.0)
        return pinned, left_out

    def _why_behind(self, contract: ContractPlan, log: Log | None, ask: bool, since_s: float) -> str | None:
        """None while there is hope."""
        if log is None:
            return "it was removed in the meantime"
        if ask and self.watch.is_gone():
            return GONE
        if ask and (trouble := self.watch.trouble_of(contract.contract)) is not None:
            return trouble
        late = since_s > max(REACHED_WITHIN_S, 2 * contract.freshness_s)
        return f"it did not reach the moment of the comparison within {since_s:.0f} s" if late else None

    def _pin_at(self, contract: ContractPlan, log: Log, t: int) -> PinnedView | str:
        """Or why not."""
        store = self._pin_files(log, t)
        if isinstance(store, str):
            return store
        outputs = view_outputs(self.reader.plan, self.reader.program, contract)
        return PinnedView(contract, store, log, tuple(self.reader.program.logs[log.name].columns), outputs)

    def _pin_files(self, log: Log, t: int) -> Store | str:
        """A store that keeps the files of a log, or why not: the log is past that time, its files are replaced just
        now, or they are gone for good.
        """
        if log.base_t is not None and log.base_t > t:
            return MOVED_ON
        try:
            return self.reader.store.pin(log.site, [piece.file for piece in log.contents], self.scratch / "views")
        except ConnectError as error:
            now = self.reader.ledger.logs([log.name]).get(log.name)
            is_there = now is not None and {one.file for one in log.contents} <= {one.file for one in now.contents}
            return f"its rows cannot be read: {first_line(error)}" if is_there else MOVED_ON

    # The comparison

    def compare_all(
        self, pinned: Sequence[HeldView], sources: SourceFiles, t: int, left_out: dict[str, str]
    ) -> list[ComparedView]:
        """What cannot be compared is added to `left_out`."""
        found: list[ComparedView] = []
        left_out |= self._unreadable([one.contract for one in pinned], sources.unreadable)
        there = [one for one in pinned if one.contract.contract not in left_out]
        views = sorted({one.contract.view for one in there})
        for number, view in enumerate(views):
            of = f"{name_of_view(view)} ({number + 1} of {len(views)})"
            same = [one for one in there if one.contract.view == view]
            try:
                self.watch.say(f"evaluating the query of view {of}")
                say = partial(_say_after, self.watch.say, f"evaluating the query of view {of}")
                with self.evaluate.answer(self._query(view), sources.files, t, say) as expected:
                    for one in same:
                        try:
                            found.append(self._compare(one, expected, t, f"comparing view {of}"))
                        except UnreadableRows as error:
                            left_out[one.contract.contract] = str(error)
            except Exception as error:  # whatever it is, it is this view's alone: the others are still compared
                log.warning('the query of view "%s" cannot be evaluated', name_of_view(view), exc_info=error)
                done = {one.contract for one in found} | left_out.keys()
                why = f"its query cannot be evaluated: {first_line(error)}"
                left_out |= {one.contract.contract: why for one in same if one.contract.contract not in done}
        return found

    def _compare(self, view: HeldView, expected: Parts, t: int, what: str) -> ComparedView:
        functions, say = self.reader.program.functions, self.watch.say
        difference = compare(
            lambda: _count_rows(expected(), f"{what}, its query", say),
            lambda: _count_rows(view.parts(t, functions), f"{what}, its rows", say),
        )
        contract = view.contract
        return ComparedView(
            name_of_view(contract.view),
            contract.contract,
            contract.site,
            t,
            difference.rows,
            difference.missing,
            difference.extra,
            difference.examples_missing,
            difference.examples_extra,
        )


def _say_after(say: Callable[[str], None], what: str, how_far: str) -> None:
    say(f"{what}{how_far}")


def _count_rows(parts: Iterable[pa.Table], what: str, say: Callable[[str], None]) -> Iterator[pa.Table]:
    rows = 0
    for part in parts:
        yield part
        rows += part.num_rows
        say(f"{what}: {rows:,} rows")
