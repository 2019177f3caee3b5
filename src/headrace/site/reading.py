"""Reads views and how far behind they are from the ledger and files alone: no service needs to run."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa

from headrace.model.errors import EvaluationError, UnknownName, UsageError, nearest_name
from headrace.model.log import Log
from headrace.model.names import name_of_view
from headrace.model.plan import ContractPlan, Plan
from headrace.model.relation import Field, Output
from headrace.observe.shown import ContractReadings
from headrace.run.compile.columns import serving_log, view_outputs
from headrace.run.ports import Ledger, Store
from headrace.run.program import Program
from headrace.run.rows.arrow import arrow_type
from headrace.run.views.view import PART_ROWS, changes_after, parts_at, repeat_rows, rows_at
from headrace.site.accounts import Accounts
from headrace.site.asked import RowChoice, RowsAsked, read_choice
from headrace.site.auditor import Auditor, last_look
from headrace.site.folder import Folder
from headrace.site.forced import read_forced_promises
from headrace.site.last_status import UNRESPONSIVE_S
from headrace.site.running import find_sources, make_running, watch_contracts
from headrace.site.service import clock_now
from headrace.site.sources.databases import databases_of


@dataclass(frozen=True, slots=True)
class Seen:
    """Rows of a view as of a time (microseconds), and how far it was behind its sources when that was measured
    (`measured_at`, seconds since 1970). An `earlier` version of the view runs while the one in the project's files is
    refused.
    """

    view: str
    contract: str
    as_of: int
    lag_s: float
    freshness_s: float
    rows: pa.Table
    measured_at: float
    earlier: bool = False


@dataclass(frozen=True, slots=True)
class ServedView:
    """Where a view is to be read."""

    contract: ContractPlan
    log: Log
    columns: tuple[Field, ...]
    outputs: tuple[Output, ...]


@dataclass(frozen=True, slots=True)
class ViewReader:
    plan: Plan
    program: Program
    ledger: Ledger
    store: Store
    forced: Mapping[str, float] = field(default_factory=dict)
    """What contracts that are forced are promised, in seconds: they may be planned for more."""

    def names(self) -> list[str]:
        views = {name_of_view(entry.view) for entry in self.plan.contracts}
        return sorted(views | {entry.contract for entry in self.plan.contracts})

    def served(self, name: str) -> ServedView:
        """Where a view or a contract is read. Where several contracts keep a view, at the one that is furthest; if the
        version in the project's files runs, of that version.
        """
        entries = [entry for entry in self.plan.contracts if name in (name_of_view(entry.view), entry.contract)]
        if not entries:
            raise UnknownName(f'no contract keeps a view "{name}"', _check_known(name, self.names()))
        names = {entry.contract: serving_log(self.program, entry) for entry in entries}
        logs = self.ledger.logs(names.values())
        there = [entry for entry in entries if names[entry.contract] in logs]
        if not there:
            raise UsageError(
                f'view "{name_of_view(entries[0].view)}" is not loaded yet', "`headrace status` shows the progress"
            )
        earlier = self.plan.runs_earlier
        entry = max(there, key=lambda one: (not earlier(one.contract), logs[names[one.contract]].t, one.contract))
        log = logs[names[entry.contract]]
        outputs = view_outputs(self.plan, self.program, entry)
        return ServedView(entry, log, tuple(self.program.logs[log.name].columns), outputs)

    def look(self) -> ContractReadings:
        """The last of the service. While it does not look, what it would find now: nobody keeps promises then."""
        found = fresh_look(self.ledger)
        if found is not None:
            return found
        auditor, accounts = Auditor(self.ledger, clock_now), Accounts(self.ledger, clock_now)
        auditor.resume()
        accounts.resume()
        databases = databases_of(self.plan.catalogue, find_sources(self.program))
        auditor.watch(watch_contracts(self.plan, self.program, self.forced, databases))
        return auditor.imagine(accounts.catch_up().accounts)

    def rows(self, name: str, limit: int | None = None, asked: RowsAsked | None = None, at: int | None = None) -> Seen:
        """The rows in the order that is asked for, or that of the view's ORDER BY; as they are now, or were at a time.

        All views that are read at one time show the same transactions, whatever sites they are at.
        """
        served = self.served(name)
        choice = self._choice(served, asked or RowsAsked())
        with _without_answer(name_of_view(served.contract.view)):
            if at is None:
                return self._see(served, self._rows(served, choice, limit))
            _check_kept(name, served.log, at)
            found = rows_at(self.store, served.log, served.columns, served.outputs, at, self.program.functions)
            return self._see(served, choice.apply(found, at).slice(0, limit), at)

    def rows_in_parts(
        self, name: str, limit: int | None = None, asked: RowsAsked | None = None, part_rows: int = PART_ROWS
    ) -> tuple[Seen, Iterator[pa.Table]]:
        """The rows a part at a time: `Seen` has none. All at once if they are sorted, since the last may be first.

        Only what is held of a part must not stay: a caller that asks for the next one lets go of those before.
        """
        served = self.served(name)
        choice = self._choice(served, asked or RowsAsked())
        none = pa.schema([(output.name, arrow_type(output.expr.type)) for output in served.outputs]).empty_table()
        return self._see(served, none), self._read_parts(served, choice, limit, part_rows)

    def _read_parts(
        self, served: ServedView, choice: RowChoice, limit: int | None, part_rows: int
    ) -> Iterator[pa.Table]:
        log, left = served.log, limit
        with _without_answer(name_of_view(served.contract.view)):
            if choice.order:
                yield self._rows(served, choice, limit)
                return
            for part in parts_at(
                self.store, log, served.columns, served.outputs, log.t, self.program.functions, part_rows
            ):
                chosen = choice.apply(repeat_rows(part), log.t).slice(0, left)
                left = None if left is None else left - chosen.num_rows
                yield chosen
                if left == 0:
                    return

    def _see(self, served: ServedView, rows: pa.Table, at: int | None = None) -> Seen:
        entry, log = served.contract, served.log
        as_of = log.t if at is None else at
        view = name_of_view(entry.view)
        looked = self.look()
        numbers, promised = looked.contracts.get(entry.contract), self.forced.get(entry.contract, entry.freshness_s)
        lag_s = 0.0 if numbers is None or numbers.lag_s is None else numbers.lag_s
        earlier, lag_s = self.plan.runs_earlier(entry.contract), lag_s + (log.t - as_of) / 1e6
        return Seen(view, entry.contract, as_of, lag_s, promised, rows, looked.measured_at, earlier)

    def _rows(self, served: ServedView, choice: RowChoice, limit: int | None) -> pa.Table:
        """All of them; or the first, without ever holding many of the others."""
        log, functions = served.log, self.program.functions
        if limit is None:
            whole = rows_at(self.store, log, served.columns, served.outputs, log.t, functions)
            return choice.apply(whole, log.t)
        found: pa.Table | None = None
        for part in parts_at(self.store, log, served.columns, served.outputs, log.t, functions):
            chosen = choice.apply(repeat_rows(part), log.t)
            both = chosen if found is None else choice.apply(pa.concat_tables([found, chosen]), log.t)
            found = both.slice(0, limit)
            if not choice.order and found.num_rows == limit:
                break
        assert found is not None, "there is a part, if only an empty one"
        return found

    def _choice(self, served: ServedView, asked: RowsAsked) -> RowChoice:
        view = served.contract.view
        declared = self.plan.catalogue.views.get(view)
        own = () if declared is None else declared.order
        if asked.where is None and asked.order is None:
            return RowChoice(None, own)
        return read_choice(asked, view, served.outputs, own)

    def changes(self, name: str, after: int | None) -> tuple[int, Iterator[tuple[int, pa.Table, pa.Table]]]:
        """Up to which time, and the changes at each time after `after`; None asks for all that are kept."""
        served = self.served(name)
        log = served.log
        start = log.start if after is None else after
        if start < log.start:
            raise UsageError(
                f'the kept changes of "{name}" begin at {moment_text(log.start)}, not at {moment_text(start)}',
                "`--from beginning` prints all kept changes; `headrace show` shows the current rows",
            )
        upto = max(start, log.t)
        return upto, self._changes(served, start, upto)

    def _changes(self, served: ServedView, start: int, upto: int) -> Iterator[tuple[int, pa.Table, pa.Table]]:
        with _without_answer(name_of_view(served.contract.view)):
            yield from changes_after(
                self.store, served.log, served.columns, served.outputs, start, upto, self.program.functions
            )


def _check_kept(name: str, log: Log, at: int) -> None:
    """Raises UsageError for a time at which nobody knows the rows of a view: not yet, or not any more."""
    if at > log.t:
        hint = "ask for an earlier time, or again once the view is as far"
        raise UsageError(f'the rows of "{name}" are known up to {moment_text(log.t)}, not at {moment_text(at)}', hint)
    if at < log.start:
        hint = "ask for a later time; changes are kept for a day, within the budget of the site's disk"
        what = f'the rows of "{name}" are kept from {moment_text(log.start)} on, not at {moment_text(at)} any more'
        raise UsageError(what, hint)


@contextmanager
def _without_answer(view: str) -> Iterator[None]:
    """What a view computes of its rows is computed when it is read; for some rows SQL has no answer."""
    try:
        yield
    except EvaluationError as error:
        hint = "a row has values that the query did not expect; NULLIF helps in a division"
        raise UsageError(f'view "{view}" cannot be computed: {error}', hint) from error


def fresh_look(ledger: Ledger) -> ContractReadings | None:
    """The last of a service that looks every second; None if it has not for a while."""
    found = last_look(ledger)
    return found if found is not None and abs(clock_now() - found.at) < UNRESPONSIVE_S * 1e6 else None


def open_reader(folder: Folder) -> ViewReader:
    """Close its ledger afterwards. Raises UsageError if nothing has run here."""
    plan = folder.running() if folder.exists else None
    if plan is None:
        what = "has not run yet" if not folder.exists else "has not been loaded yet"
        raise UsageError(f'the project in "{folder.project}" {what}', "start it with `headrace up`")
    ran = make_running(plan, read_forced_promises(folder))
    return ViewReader(ran.plan, ran.program, folder.ledger(), folder.store(), ran.forced)


def moment_text(t: int) -> str:
    """ISO 8601 in UTC, of microseconds."""
    seconds, micros = divmod(t, 1_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{micros:06d}Z"


def _check_known(name: str, names: list[str]) -> str:
    return nearest_name(name, names) or f"there are {', '.join(names)}"
