"""What one site does in a comparison of views with their queries that goes over several sites.

    open     looks which of its sources can be compared with, and opens a cut of their databases
    cut      makes the cut at a time that all sites are told
    begin    then, beside each other:
             give      reads its sources as of that time into files, and writes what other sites are given of them
             compare   brings its views to that time, fetches what it lacks from other sites, evaluates and compares
    look     how far it is, and what it has found

Whoever coordinates asks for one after the other, and may ask for each again. No rows go there but a few examples of
rows that differ, of views that read no source whose rows have to stay somewhere.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from headrace.connect.wire.compared_rows import RowsRefused
from headrace.connect.wire.snapshot_files import SnapshotFiles
from headrace.coordinate.compare.across import (
    MAY_NOT,
    GivenRows,
    choose_site,
    find_columns,
    find_given,
    may_be_at,
)
from headrace.coordinate.compare.compared import ComparedView
from headrace.coordinate.compare.cut import Cutter
from headrace.coordinate.compare.exchanged_rows import (
    RowsGiver,
    fetch_source,
    fetch_view,
    write_source,
    write_view,
)
from headrace.coordinate.compare.moment import Comparison, HeldView, PinnedView, query_of
from headrace.coordinate.compare.sources import Opened, SourceFiles, columns_read, first_line, read_sources, sources_of
from headrace.model.catalogue import Catalogue, Stays
from headrace.model.errors import ConnectError, HeadraceError
from headrace.model.plan import ContractPlan
from headrace.run.source_port import ProjectPlace
from headrace.site.sources.databases import databases_of, place_of

log = logging.getLogger("headrace.audit")


@dataclass(frozen=True, slots=True)
class ShareSurroundings:
    """Where a site's share of a comparison gets things from. `stays` are those of its own sources, as the site
    remembers them; `given` is where other sites find what they are given, and `fetched` where it keeps theirs.
    """

    stays: Mapping[str, Stays | None]
    given: SnapshotFiles
    fetched: SnapshotFiles
    find_giver: Callable[[str], RowsGiver]
    push: Callable[[int], object]


class SiteShare:
    """One site's share. The threads that `begin` starts write what others look at with `_turn` held."""

    def __init__(self, comparison: Comparison, site: str, around: ShareSurroundings) -> None:
        self._comparison = replace(comparison, watch=replace(comparison.watch, say=self.say))
        self._site, self._around = site, around
        self._stack = ExitStack()
        self._cutter: Cutter | None = None
        self._cut_at: int | None = None
        self._why_no_cut: str | None = None
        self._unreadable: dict[str, str] = {}
        self._turn = threading.Lock()
        self._said = ""
        self._begun = False
        self._sources: SourceFiles | None = None
        self._are_read = threading.Event()
        self._not_given: dict[str, str] = {}
        """Why a site does not get some rows, by the name that `name_given` makes."""
        self._giving = {"sources", "views"}
        """What has not been given yet to all that get it."""
        self._found: list[ComparedView] = []
        self._left_out: dict[str, str] = {}
        self._is_done = False

    @property
    def _catalogue(self) -> Catalogue:
        return self._comparison.reader.plan.catalogue

    @property
    def _contracts(self) -> tuple[ContractPlan, ...]:
        """Those of all sites."""
        plan = self._comparison.reader.plan
        return (*plan.contracts, *plan.elsewhere)

    @property
    def _place(self) -> ProjectPlace:
        comparison = self._comparison
        return place_of(self._catalogue.project, comparison.project, comparison.environment)

    def say(self, what: str) -> None:
        self._said = what

    # The cut

    def open(self) -> dict[str, str]:
        """Why sources of this site cannot be compared with."""
        if self._cutter is None:
            used = self._find_own(self._contracts)
            reasons = {name: self._comparison.why_source_not(name) for name in sorted(used)}
            self._unreadable = {name: why for name, why in reasons.items() if why is not None}
            databases = databases_of(self._catalogue, used - self._unreadable.keys())
            by_name = {one.name: one for one in databases}
            self._cutter = Cutter(self._comparison.reader, by_name, self.say, self._comparison.watch.is_gone)
            self._cutter.open(self._place, self._stack)
        return self._tell_unreadable()

    def cut(self, t: int) -> tuple[str | None, dict[str, str]]:
        """Why there is no cut at that time, None if there is; and what cannot be compared with."""
        assert self._cutter is not None, "it was opened before"
        if t != self._cut_at:
            self._why_no_cut, self._cut_at = self._cutter.cut_at(t), t
        return self._why_no_cut, self._tell_unreadable()

    def _tell_unreadable(self) -> dict[str, str]:
        assert self._cutter is not None, "it was opened before"
        return {**self._unreadable, **self._cutter.unreadable}

    def _find_own(self, contracts: Iterable[ContractPlan]) -> frozenset[str]:
        """Sources of this site that views read."""
        read = (name for one in contracts for name in sources_of(query_of(self._catalogue, one.view)))
        return frozenset(name for name in read if self._catalogue.sources[name].site == self._site)

    # Giving and comparing

    def begin(self, t: int, contracts: frozenset[str]) -> None:
        """Starts to give rows, and to compare the views of some contracts as of a time."""
        if self._begun:
            return
        self._begun = True
        wanted = tuple(one for one in self._contracts if one.contract in contracts)
        for work in (self._give, self._compare):
            threading.Thread(target=self._run, args=(work, t, wanted), name=work.__name__, daemon=True).start()

    def _run(
        self,
        work: Callable[[int, tuple[ContractPlan, ...]], None],
        t: int,
        wanted: tuple[ContractPlan, ...],
    ) -> None:
        try:
            work(t, wanted)
        except Exception as error:  # whatever it is: others must not wait for this site
            log.exception("the comparison failed")
            why = f"the comparison failed: {first_line(error)}"
            with self._turn:
                self._left_out |= {one.contract: why for one in wanted if one.site == self._site}
                names = (name_given(one) for one in find_given(self._catalogue, wanted, self._site))
                self._not_given |= {name: why for name in names if self._around.given.look(name, 0).of is None}
        finally:
            with self._turn:
                if work == self._give:
                    self._sources = self._sources or SourceFiles({}, {})
                    self._giving.discard("sources")
                    self._are_read.set()
                else:
                    self._giving.discard("views")
                    self._is_done = True

    def _give(self, t: int, wanted: tuple[ContractPlan, ...]) -> None:
        assert self._cutter is not None, "it was opened before"
        comparison, catalogue = self._comparison, self._catalogue
        with self._stack:  # snapshots are let go of as soon as they were read
            cut, used = self._cutter.tell_cut(t), self._find_own(wanted)
            comparison.time_of(cut, sorted(used - cut.snapshots.keys() - self._tell_unreadable().keys()))
            captured, missing = comparison.pin_captured(used, t)
            queries = [query_of(catalogue, view) for view in sorted({one.view for one in wanted})]
            columns = {name: one for name, one in columns_read(catalogue.sources, queries).items() if name in used}
            opened = Opened(cut, captured, t, catalogue.sources, comparison.reader.ledger, self._place)
            found = read_sources(columns, opened, comparison.scratch / "sources", self.say)
        with self._turn:
            self._sources = SourceFiles(found.files, {**missing, **found.unreadable})
            self._are_read.set()
        for one in find_given(catalogue, wanted, self._site):
            if one.source is not None:
                self._give_source(one, one.source, wanted)

    def _give_source(self, given: GivenRows, source: str, wanted: tuple[ContractPlan, ...]) -> None:
        assert self._sources is not None, "it was read before"
        why = self._sources.unreadable.get(source)
        if not may_be_at(self._around.stays.get(source), given.site):
            why = MAY_NOT.format(source, given.site)  # as this site remembers it, whatever the plan says
        if why is None:
            columns = find_columns(self._catalogue, wanted, given.site)[source]
            write_source(self._around.given, name_given(given), self._sources.files[source], columns)
        else:
            with self._turn:
                self._not_given[name_given(given)] = why

    def _compare(self, t: int, wanted: tuple[ContractPlan, ...]) -> None:
        own = [one for one in wanted if one.site == self._site]
        self._around.push(t)
        left_out = {one.contract: why for one in own if (why := self._comparison.why_view_not(one)) is not None}
        pinned, behind = self._comparison.pin([one for one in own if one.contract not in left_out], t)
        left_out |= behind
        here = [one for one in wanted if choose_site(self._catalogue, one) == self._site]
        self._give_views(pinned, left_out, wanted, t)
        held: list[HeldView] = [one for one in pinned if one.contract in here]
        held += self._fetch_views([one for one in here if one.site != self._site], left_out)
        views = self._comparison.compare_all(held, self._gather_sources([one.contract for one in held]), t, left_out)
        with self._turn:
            self._found += views
            self._left_out |= left_out

    def _give_views(
        self, pinned: Iterable[PinnedView], left_out: Mapping[str, str], wanted: tuple[ContractPlan, ...], t: int
    ) -> None:
        """Gives the rows of views of this site to sites that compare them."""
        there, functions = {one.contract.contract: one for one in pinned}, self._comparison.reader.program.functions
        for one in find_given(self._catalogue, wanted, self._site):
            if one.contract in there:
                write_view(self._around.given, name_given(one), there[one.contract].parts(t, functions))
            elif one.contract is not None:
                with self._turn:
                    self._not_given[name_given(one)] = left_out[one.contract]
        with self._turn:
            self._giving.discard("views")

    def _fetch_views(self, contracts: Iterable[ContractPlan], left_out: dict[str, str]) -> list[HeldView]:
        found: list[HeldView] = []
        for one in contracts:
            name = GivenRows(self._site, contract=one.contract).name
            self.say(f'fetching the rows of contract {one.contract} from site "{one.site}"')
            try:
                found.append(fetch_view(self._around.find_giver(one.site), name, one, self._around.fetched))
            except (ConnectError, RowsRefused) as error:
                left_out[one.contract] = first_line(error)
        return found

    def _gather_sources(self, contracts: Iterable[ContractPlan]) -> SourceFiles:
        """All that the queries of some views read, in files: what is of this site, and what others give."""
        self._are_read.wait()
        assert self._sources is not None, "it was read before"
        files, unreadable = dict(self._sources.files), dict(self._sources.unreadable)
        folder = self._comparison.scratch / "fetched"
        folder.mkdir(parents=True, exist_ok=True)
        columns = find_columns(self._catalogue, contracts, self._site)
        elsewhere = sorted(name for name in columns if self._catalogue.sources[name].site != self._site)
        for number, source in enumerate(elsewhere):
            site = self._catalogue.sources[source].site
            self.say(f'fetching the rows of source {source} from site "{site}"')
            try:
                name, file = GivenRows(self._site, source=source).name, folder / f"{number}.parquet"
                files[source] = fetch_source(self._around.find_giver(site), name, columns[source], file)
            except RowsRefused as error:
                unreadable[source] = first_line(error)
            except HeadraceError as error:
                unreadable[source] = f'source "{source}" cannot be read: {first_line(error)}'
        return SourceFiles(files, unreadable)

    # Telling

    def look(self) -> dict[str, Any]:
        """How far it is."""
        with self._turn:
            return {
                "said": self._said,
                "is_done": self._is_done and self._are_read.is_set(),
                "not_given": dict(self._not_given),
                "has_given": not self._giving,
                "views": [one.to_wire(self._may_tell_rows(one.contract)) for one in self._found],
                "left_out": dict(self._left_out),
                "writers_waited_s": 0.0 if self._cutter is None else self._cutter.waited_s,
            }

    def _may_tell_rows(self, contract: str) -> bool:
        view = next(one.view for one in self._contracts if one.contract == contract)
        read = sources_of(query_of(self._catalogue, view))
        return all(self._catalogue.sources[name].stays is None for name in read)

    def close(self) -> None:
        """Lets go of databases."""
        self._stack.close()


def name_given(rows: GivenRows) -> str:
    """Where a site keeps what it gives another one."""
    return f"{rows.site} {rows.name}"
