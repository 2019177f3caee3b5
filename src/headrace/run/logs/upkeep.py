"""Maintains logs in the background: decides what is due, one piece of work at a time, and what may be deleted.

A log may be compacted up to the earliest time that a reader still needs. Upkeep never changes the time of a log; it is
committed against the time that the log has reached by then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Set
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from headrace.model.errors import Conflict
from headrace.model.log import NEVER, Commit, Edit, Log, Piece, PieceKind
from headrace.model.notes import LogKeys, SourceLoading, note_keys, read_notes
from headrace.run.capture.spool import SPOOL, spool_log
from headrace.run.logs.garbage import KEEP_MICROSECONDS, ChangeReader, count_needed, retain, sweep
from headrace.run.logs.history import FILES, GatherItem, gathers_due
from headrace.run.logs.merge import Merge, merge_all, merges_due, shards_wanted
from headrace.run.logs.upkeep_work import ReplacedPieces, UpkeepItem
from headrace.run.program import LogSpec
from headrace.run.push.engine import Engine

COMPACT_PIECES, FEW_PIECES = 64, 8
"""How many files of changes after the base make a new base worthwhile; and how few never do, whatever their size. If
there are more than these, so do changes as large as the base."""
MUCH = 4
"""If changes are more than a part of the base, one in so many, all rows of an index may be written for a new base."""
TOGETHER, SMALL_BYTES = 16, 2_000_000
"""How many pieces of work go in one job, and how many bytes they may read."""
GATHERED_TOGETHER = 8
"""How many pieces of history go in the same job."""
ATTEMPTS = 5
KEEP_CAPTURED = 600 * 1_000_000
"""Microseconds for which spools keep what was read of them: sources' own logs have the same changes."""


@dataclass(frozen=True, slots=True)
class UpkeepDone:
    """A piece of upkeep that was done: the logs that it was for, and the seconds and bytes that it took."""

    logs: tuple[str, ...]
    seconds: float
    read_bytes: int


@dataclass(slots=True)
class Upkeep:
    engine: Engine
    keep: int = KEEP_MICROSECONDS
    budgets: Mapping[str, int] = field(default_factory=dict)
    unnamed: Mapping[str, float] = field(default_factory=dict)
    gather_files: int = FILES

    @property
    def keep_captured(self) -> int:
        return min(self.keep, KEEP_CAPTURED)

    def step(self, may_start: Callable[[int], bool] = lambda _: True) -> tuple[UpkeepDone, ...]:
        """Does the most pressing piece of work, and small ones with it in one job; nothing if nothing is due.

        Pieces that read more bytes than `may_start` now are left for later, but for new keys: somebody waits for those.
        """
        items = self._next(may_start)
        outcomes = self.engine.runner.run(items) if items else []
        failed = [(item, outcome.error) for item, outcome in zip(items, outcomes, strict=True) if outcome.value is None]
        for item, outcome in zip(items, outcomes, strict=True):
            if outcome.value is None:
                continue
            if isinstance(item, GatherItem):
                self._commit_gathered(item, outcome.value)
            else:
                self._commit(item, outcome.value)
        if failed:
            raise RuntimeError(f"{failed[0][0].name} failed: {failed[0][1]}")
        return tuple(_tell_done(item, outcome.seconds) for item, outcome in zip(items, outcomes, strict=True))

    def _next(self, may_start: Callable[[int], bool]) -> list[UpkeepItem | GatherItem]:
        """Starting a job costs more than most merges take. New keys are built before anything else is merged."""
        logs = self.engine.ledger.logs([*self.engine.program.logs, *self._spools()])
        all_due = self._due({name: log for name, log in logs.items() if name in self.engine.program.logs})
        due = (item for item in all_due if item.keys or may_start(item.bytes))
        first = next(due, None)
        if first is not None and (first.keys or first.bytes > SMALL_BYTES):
            return [first]
        merges = islice((item for item in due if item.bytes <= SMALL_BYTES), TOGETHER - 1)
        gathers = [item for item in self._gathers(logs) if may_start(item.bytes)]
        small = [item for item in gathers if item.bytes <= SMALL_BYTES][:GATHERED_TOGETHER]
        together: list[UpkeepItem | GatherItem] = [*([] if first is None else [first, *merges]), *small]
        return together or [*gathers[:1]]

    def _gathers(self, logs: Mapping[str, Log]) -> list[GatherItem]:
        """Changes to gather.

        Logs that have contents give only what the base holds: the rest is on its way into the next.
        """
        together = dict[tuple[str, int], list[tuple[Log, int]]]()
        since = self._find_since(logs)
        spools = self._spools()
        for name, log in logs.items():
            spec, upto = self.engine.program.logs.get(name), since[name]
            if spec is not None and spec.has_contents:
                upto = min(upto, NEVER if log.base_t is None else log.base_t)
            keep = self.keep_captured if name in spools else self.keep
            together.setdefault((log.site, keep), []).append((log, upto))
        return [
            GatherItem(site, self.engine.store, gather)
            for (site, keep), held in together.items()
            for gather in gathers_due(held, keep, self.gather_files)
        ]

    def _spools(self) -> set[str]:
        """Logs that are read, and made by captures."""
        tasks = self.engine.program.tasks
        return {name for task in tasks.values() for name in task.reads} - set(tasks)

    def _due(self, logs: Mapping[str, Log]) -> Iterator[UpkeepItem]:
        noted = read_notes(self.engine.ledger, LogKeys)
        for name, log in logs.items():
            spec = self.engine.program.logs[name]
            yield from self._keys_missing(spec, log, noted.get(name))
        since = self._find_since(logs)
        for name, log in logs.items():
            known = noted[name].keys if name in noted else ()
            yield from self._merges_and_base(self.engine.program.logs[name], log, since[name], known)

    def _merges_and_base(
        self, spec: LogSpec, log: Log, since: int, known: Collection[tuple[str, ...]]
    ) -> Iterator[UpkeepItem]:
        """Merges that are due, and a base. If much has changed since the last one, a merge of all indexes of a key
        makes it on the way: one that is due, or one in place of a base that is.
        """
        merges = merges_due(log.pieces) if spec.keys else ()
        growth = BaseGrowth.since_base(log, since) if spec.has_contents else BaseGrowth()
        whole = _merges_of_all(spec, log, since, known) if growth.is_much else []
        base = next((merge for merge in merges if merge in whole), whole[0] if whole and growth.is_due else None)
        for merge in merges:
            if base is None or merge.indexes[0].key != base.indexes[0].key:
                yield UpkeepItem(spec, self.engine.store, since, merge)
        if base is not None:
            upto, bases = max(piece.upto for piece in base.indexes), log.of_kind(PieceKind.BASE)
            yield UpkeepItem(spec, self.engine.store, upto, base, bases, makes_base=True)
        elif growth.is_due:
            upto = max(piece.upto for piece in growth.changes)
            pieces = (*log.of_kind(PieceKind.BASE), *growth.changes)
            yield UpkeepItem(spec, self.engine.store, upto, pieces=pieces)

    def _times(self, logs: Mapping[str, Log]) -> dict[str, int]:
        """The times of logs that go on from where they are: those that are halted are rebuilt, and look nothing up
        until then.
        """
        waiting = self.engine.waiting()
        return {name: log.t for name, log in logs.items() if name not in waiting}

    def _find_since(self, logs: Mapping[str, Log]) -> dict[str, int]:
        """The smallest time at which anyone still looks a log up, by log."""
        found, times = {name: log.t for name, log in logs.items()}, self._times(logs)
        for task in self.engine.program.tasks.values():
            for read in task.reads if task.vertex in times else ():
                if read in found:
                    found[read] = min(found[read], times[task.vertex])
        return found

    def _keys_missing(self, spec: LogSpec, log: Log, noted: LogKeys | None) -> Iterator[UpkeepItem]:
        known = () if noted is None else noted.keys
        missing = tuple(key for key in spec.keys if key.columns not in known)
        if missing:
            rows = sum(piece.rows for piece in log.contents)
            shards = shards_wanted((), missing[0].columns, rows)
            yield UpkeepItem(
                spec,
                self.engine.store,
                log.t,
                pieces=log.contents,
                keys=missing,
                shards=shards,
                functions=self.engine.program.functions,
            )

    def _commit(self, item: UpkeepItem, kept: ReplacedPieces) -> None:
        name = item.spec.name
        notes = (LogKeys(name, tuple(key.columns for key in item.spec.keys)),) if item.keys else ()
        for attempt in range(ATTEMPTS):
            log = self.engine.ledger.logs([name]).get(name)
            if log is None:
                return
            if item.makes_base and {piece.file for piece in log.of_kind(PieceKind.BASE)} != item.bases:
                return  # it was loaded again, or has a newer base; with two of them all rows would be there twice
            stale = _find_stale_indexes(item, log)
            edit = Edit(name, log.t, log.t, kept.add, (*kept.drop, *stale))
            try:
                self.engine.ledger.commit(self.engine.lease, Commit((edit,), notes))
                return
            except Conflict:
                if attempt == ATTEMPTS - 1:
                    raise

    def _commit_gathered(self, item: GatherItem, kept: ReplacedPieces) -> None:
        """Replaces the files in all logs that still have them: some may have been forgotten, or trimmed."""
        for attempt in range(ATTEMPTS):
            logs = self.engine.ledger.logs(item.gather.logs).values()
            having = [log for log in logs if set(kept.drop) <= {piece.file for piece in log.pieces}]
            edits = tuple(Edit(log.name, log.t, log.t, kept.add, kept.drop) for log in having)
            try:
                self.engine.ledger.commit(self.engine.lease, Commit(edits))
                return
            except Conflict:
                if attempt == ATTEMPTS - 1:
                    return  # they move on too quickly: next time

    def build_keys(self) -> None:
        """Builds all indexes that logs are looked up by and do not have: without them, pushes would find nothing."""
        while self._build_missing():
            pass

    def _build_missing(self) -> bool:
        """Builds the indexes of one log that has none of a key; whether there was one."""
        item = next(self._due(self.engine.ledger.logs(self.engine.program.logs)), None)
        return item is not None and bool(item.keys) and bool(self.step())

    # Forgetting

    def trim(self, now: int) -> tuple[str, ...]:
        """Drops changes that nobody needs; or names readers that there is no room for, and drops nothing.

        Whoever calls forgets these readers, then trims again. In this order, so that no crash leaves a reader behind
        whose changes are gone.
        """
        logs = self.engine.ledger.logs()
        readers, spools = self._find_readers(logs), _find_spools(logs)
        held = self._find_limited(logs)
        decided = retain(held, readers, now, self.budgets, self.keep)
        # What was captured is never given up: it cannot be computed again.
        captured = retain((log for log in logs.values() if log.name in spools), readers, now, {}, self.keep_captured)
        for trim in (*(() if decided.cut_off else decided.trims), *captured.trims):
            try:
                self.engine.ledger.commit(self.engine.lease, Commit((trim.edit(logs[trim.log]),)))
            except Conflict:
                continue  # it moved on meanwhile: next time
        return decided.cut_off

    def count_needed(self) -> int:
        """Bytes of changes that count against the budget of this site, and that somebody needs."""
        logs = self.engine.ledger.logs()
        return count_needed(self._find_limited(logs), self._find_readers(logs))

    def _find_limited(self, logs: Mapping[str, Log]) -> list[Log]:
        """The logs whose changes a budget limits."""
        return [log for log in logs.values() if not log.name.startswith(SPOOL) and not self._is_all_contents(log)]

    def _find_readers(self, logs: Mapping[str, Log]) -> list[ChangeReader]:
        waiting = self.engine.waiting()
        readers = [
            ChangeReader(task.vertex, dict.fromkeys(task.reads, logs[task.vertex].t))
            for task in self.engine.program.tasks.values()
            if task.vertex in logs and task.vertex not in waiting
        ]
        readers += [
            ChangeReader(name, dict.fromkeys(copy.task.reads, logs[name].t))
            for name, copy in self.engine.program.exports.items()
            if name in logs
        ]
        return [*readers, *self._readings_under_way(logs), *self._readers_to_come(logs, _find_spools(logs))]

    def _is_all_contents(self, log: Log) -> bool:
        """Whether all changes of a log are what it holds: it has no base yet."""
        spec = self.engine.program.logs.get(log.name)
        return spec is not None and spec.has_contents and log.base_t is None

    def _readings_under_way(self, logs: Mapping[str, Log]) -> list[ChangeReader]:
        """While a table is read, its whole spool is needed: at the end it says which rows were not there any more."""
        spools = (spool_log(source) for source in note_keys(self.engine.ledger, SourceLoading))
        return [ChangeReader(f"reading of {spool}", {spool: logs[spool].start}) for spool in spools if spool in logs]

    def _readers_to_come(self, logs: Mapping[str, Log], spools: Set[str]) -> list[ChangeReader]:
        """Spools that no log was made from yet are needed whole, however long that takes.

        A view may wait for another source, and a plan that is on its way may read a source that nothing reads yet.
        """
        tasks = self.engine.program.tasks.values()
        begun = {name for task in tasks if task.vertex in logs for name in task.reads}
        return [ChangeReader(f"first reader of {name}", {name: logs[name].start}) for name in sorted(spools - begun)]

    def sweep(self, now: float, **options: Any) -> int:
        """Deletes files that nobody names any more, and that no push reads which runs beside others; how many."""
        listed = list(self.engine.store.list())
        named = self.engine.in_work.files | self.engine.ledger.files()
        decided = sweep(listed, named, self.unnamed, now, **options)
        self.unnamed = decided.unnamed_since
        # However long whoever wrote them stood still: what is committed from now on has its files, or is refused.
        return self.engine.ledger.delete_unnamed(decided.delete, self.engine.store.delete)


def _find_spools(logs: Mapping[str, Log]) -> set[str]:
    return {name for name in logs if name.startswith(SPOOL)}


@dataclass(frozen=True, slots=True)
class BaseGrowth:
    """The files of changes after a base, up to which nobody tells times apart, and the rows of the base."""

    changes: tuple[Piece, ...] = ()
    base_rows: int = 0

    @staticmethod
    def since_base(log: Log, since: int) -> BaseGrowth:
        pieces = log.contents
        changes = (piece for piece in pieces if piece.kind is PieceKind.CHANGE and piece.upto <= since)
        return BaseGrowth(tuple(changes), sum(piece.rows for piece in pieces if piece.kind is PieceKind.BASE))

    @property
    def rows(self) -> int:
        return sum(piece.rows for piece in self.changes)

    @property
    def is_due(self) -> bool:
        """Whether a new base is worthwhile by itself."""
        return len(self.changes) > COMPACT_PIECES or (len(self.changes) > FEW_PIECES and self.rows > self.base_rows)

    @property
    def is_much(self) -> bool:
        """Whether a merge of all indexes of a key, of which most is written anyway, is to make a new base."""
        return 2 * len(self.changes) >= FEW_PIECES and MUCH * self.rows > self.base_rows


def _merges_of_all(spec: LogSpec, log: Log, since: int, known: Collection[tuple[str, ...]]) -> list[Merge]:
    """Merges that make an index of exactly what a log holds at the end of a push, up to which nobody tells times apart.

    Indexes by a computed key lack the rows that have none, and those that are still to be built lack older rows.
    """
    keys = (key.columns for key in spec.keys if not key.computed and key.columns in known)
    found = (merge for key in keys if (merge := merge_all(log.pieces, key)) is not None)
    return [merge for merge in found if _ends_with_push(log, max(p.upto for p in merge.indexes), since)]


def _ends_with_push(log: Log, t: int, since: int) -> bool:
    """Whether the log can have a base as of a time: all its files of changes are before it, or after it."""
    changes = log.of_kind(PieceKind.CHANGE)
    is_newer = log.base_t is None or t > log.base_t
    return t <= since and is_newer and all(piece.upto <= t or piece.after >= t for piece in changes)


def _tell_done(item: UpkeepItem | GatherItem, seconds: float) -> UpkeepDone:
    logs = tuple(item.gather.logs) if isinstance(item, GatherItem) else (item.spec.name,)
    return UpkeepDone(logs, seconds, item.bytes)


def _find_stale_indexes(item: UpkeepItem, log: Log) -> tuple[str, ...]:
    """Indexes of keys that are built again, as far as they hold what the new ones do."""
    if not item.keys:
        return ()
    upto = max((piece.upto for piece in item.pieces), default=item.since)
    columns = {key.columns for key in item.keys}
    return tuple(p.file for p in log.of_kind(PieceKind.INDEX) if p.key in columns and p.upto <= upto)
