"""Mends damaged files while the service runs: says which they are, and has what they held made again.

The store notes damage, whoever finds it (`connect/damage_notes.py`). `run/logs/rebuild.py` decides what it takes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from headrace.connect.sources import connector_of
from headrace.model.damage import DamagedFile, FileDamage
from headrace.model.feed_names import is_decisions
from headrace.model.log import Lease, Log, Piece
from headrace.model.notes import LogKeys, SourceLoading, note_keys, read_notes
from headrace.model.plan_events import SourcesReread
from headrace.model.words import name_ids
from headrace.run.capture.spool import SPOOL
from headrace.run.compile.columns import serving_log
from headrace.run.logs.rebuild import Rebuild, find_concerned, plan_rebuild
from headrace.run.logs.rebuilding import forget_damaged, make_forgetting_commit, rebuild_indexes
from headrace.run.logs.upkeep import Upkeep
from headrace.run.ports import Ledger, Store
from headrace.run.program import Ingest, Program
from headrace.run.source_port import SourceDatabase
from headrace.site.journal import Journal
from headrace.site.push_state import PushState
from headrace.site.running import Running
from headrace.site.sources.sources import Sources
from headrace.site.troubles import DAMAGE, Troubles
from headrace.site.turns import Turns
from headrace.site.unloaded import Unloaded

log = logging.getLogger("headrace.service")

MEND_FILE = (
    "it is being rebuilt, you need to do nothing; if it happens again, check the disk, and who else writes to .headrace"
)
MEND_LOST = (
    "nobody else has these rows: put the file back from a backup, which is noticed within a minute; or go on without"
    " all earlier rows: headrace sources reread {source}"
)
LOOK_AGAIN_S = 30.0
"""How often a file that only a person can put back is looked at."""
LOAD_AGAIN = "a file that held its rows was damaged: it is being loaded again"
READ_AGAIN = "a file that held its rows was damaged"


@dataclass(slots=True)
class Repairs:
    """`look` is for the thread that audits, `mend` for the one that does upkeep."""

    ledger: Ledger
    lease: Lease
    store: Store
    turns: Turns
    sources: Sources
    unloaded: Unloaded
    troubles: Troubles
    journal: Journal
    clock: Callable[[], int]
    concerned: Mapping[str, str] = field(default_factory=dict)
    """By contract, what is wrong with a file that its view needs; swapped whole."""
    _lost: Mapping[str, str] = field(default_factory=dict)
    """Sources by the names of damaged files that hold rows which nobody else has; swapped whole."""
    _looked_at: float = 0.0

    # What is wrong

    def look(self, state: PushState | None) -> None:
        """Reports the files that are damaged, and the contracts that they concern."""
        damaged = self.store.damaged()
        if not damaged and not self.concerned and not any(key.startswith(DAMAGE) for key in self.troubles.all()):
            return
        logs = self.ledger.logs() if damaged else {}
        known = self._report(damaged, logs)
        for key in [key for key in self.troubles.all() if key.startswith(DAMAGE)]:
            if key.removeprefix(DAMAGE) not in {one.name for one in known}:
                self.troubles.clear(key)
        self.concerned = {} if state is None else _find_contracts(known, state, logs)

    def _report(self, damaged: Sequence[FileDamage], logs: Mapping[str, Log]) -> list[FileDamage]:
        """Reports damaged files as far as a log names them; which they are."""
        named = _find_logs(damaged, logs)
        known = [one for one in damaged if one.name in named]
        for one in known:
            source = self._lost.get(one.name)
            hint = MEND_FILE if source is None else MEND_LOST.format(source=source)
            self.troubles.report(DAMAGE + one.name, say_damage(one, named[one.name]), hint, since=one.since)
        return known

    def _plan(
        self, damaged: Sequence[FileDamage], program: Program, databases: Iterable[SourceDatabase]
    ) -> tuple[Rebuild, Mapping[str, Log]]:
        logs, reading = self.ledger.logs(), note_keys(self.ledger, SourceLoading)
        only_copies = find_only_copies(databases)
        rebuild = plan_rebuild(damaged, program, logs, reading, only_copies)
        if more := self._find_damaged_rows(rebuild, logs):
            rebuild = plan_rebuild((*damaged, *more), program, logs, reading, only_copies)
        self._lost = {
            f"{logs[name].site}/{piece.file}": _name_source(name, program)
            for name, pieces in rebuild.lost.items()
            for piece in pieces
        }
        return rebuild, logs

    def _find_damaged_rows(self, rebuild: Rebuild, logs: Mapping[str, Log]) -> list[FileDamage]:
        """What else is damaged of logs whose indexes are to be built again, from rows that nobody may have looked at:
        an index and rows can be one file with two names. An index is given up only for one that can be built.
        """
        found = []
        for log in map(logs.__getitem__, rebuild.indexes):
            for piece in log.contents:
                try:
                    _check_file(self.store, log.site, piece)
                except DamagedFile as error:
                    found.append(error.damage)
        return found

    def _look_at_lost(self, rebuild: Rebuild, logs: Mapping[str, Log]) -> None:
        """Forgets that files are damaged which somebody has put back. Reads all of them, so not too often."""
        if time.monotonic() - self._looked_at < LOOK_AGAIN_S:
            return
        self._looked_at = time.monotonic()
        for name, pieces in rebuild.lost.items():
            for piece in pieces:
                with suppress(DamagedFile):
                    if _check_file(self.store, logs[name].site, piece):
                        self.store.forget_damage(logs[name].site, piece.file)

    # Mending

    def forget_before_start(self, programs: Iterable[Program], databases: Collection[SourceDatabase]) -> bool:
        """Forgets what damaged files held, before anything runs; whether there was any. What is missing is then made.

        Nobody pushes or compacts yet.
        """
        damaged = self.store.damaged()
        needed = self._report(damaged, self.ledger.logs()) if damaged else []
        for program in programs if needed else ():
            rebuild, logs = self._plan(needed, program, databases)
            self._look_at_lost(rebuild, logs)
            if rebuild.sources:
                self.sources.captures.end_of(rebuild.sources)
                self.sources.forget_made_from(rebuild.sources, [program], self.lease)
            commit = make_forgetting_commit(rebuild, program, self.ledger.logs(), read_notes(self.ledger, LogKeys))
            self.ledger.commit(self.lease, commit)
        named = self.ledger.files() if damaged else ()
        for one in damaged:
            if one.name not in named:
                self.store.forget_damage(one.site, one.file)
        if needed:
            log.warning("what damaged files held is made again: %s", ", ".join(one.name for one in needed))
        return bool(needed)

    def mend(self, upkeep: Upkeep, running: Running) -> None:
        """The caller has the turn for upkeep. While somebody goes over to a plan, nothing is mended."""
        damaged = self.store.damaged()
        if not damaged:
            return
        with self.turns.try_plan() as ours:
            if ours:
                rebuild, logs = self._plan(damaged, upkeep.engine.program, running.databases)
                self._report(damaged, logs)  # here as well: what is mended within a second is told all the same
                self._look_at_lost(rebuild, logs)
                self._carry_out(rebuild, upkeep, running)

    def _carry_out(self, rebuild: Rebuild, upkeep: Upkeep, running: Running) -> None:
        """Once no log names a file, the note about it goes with the next call."""
        for one in rebuild.unneeded:
            self.store.forget_damage(one.site, one.file)
        if rebuild.sources:
            self._read_again(rebuild.sources, upkeep, running)
        with self.turns.pushing:
            gone = forget_damaged(upkeep.engine, rebuild)
        if gone:
            log.warning("loaded again, because a file is damaged: %s", ", ".join(gone))
            self.unloaded.leave_out(running.plan, upkeep.engine.program, gone, LOAD_AGAIN)
        if rebuild.indexes:
            log.warning("indexed again, because a file is damaged: %s", ", ".join(sorted(rebuild.indexes)))
            rebuild_indexes(upkeep, rebuild.indexes)

    def _read_again(self, sources: Collection[str], upkeep: Upkeep, running: Running) -> None:
        """Upkeep loads the views again once the sources are read."""
        log.warning("read again, because a file is damaged: %s", ", ".join(sorted(sources)))
        self.journal.emit(SourcesReread(self.clock(), tuple(sorted(sources)), reason=READ_AGAIN))
        self.sources.captures.end_of(sources)
        with self.turns.pushing:
            made = self.sources.forget_made_from(sources, [upkeep.engine.program], self.lease)
        self.unloaded.leave_out(running.plan, upkeep.engine.program, made, LOAD_AGAIN)
        self.sources.note_shapes(running, self.lease)
        self.sources.capture_only(running)


def find_only_copies(databases: Iterable[SourceDatabase]) -> set[str]:
    """Sources whose rows nobody else has. What is stored ahead of a feed is decided again if it is lost."""
    written = (one.sources for one in databases if connector_of(one.kind).is_only_copy)
    return {source for sources in written for source in sources if not is_decisions(source)}


def _name_source(log: str, program: Program) -> str:
    step = None if log.startswith(SPOOL) else program.tasks[log].step
    return (step.spool if isinstance(step, Ingest) else log).removeprefix(SPOOL)


def _check_file(store: Store, site: str, piece: Piece) -> bool:
    """Reads a whole file; whether it is what was written. Raises `DamagedFile` if it is not."""
    checking = store.check_slowly(site, piece.stored)
    while True:
        try:
            next(checking)
        except StopIteration as end:
            return end.value is not None


def say_damage(damage: FileDamage, logs: Sequence[str]) -> str:
    """Says which file is damaged, what is wrong with it, and what it holds."""
    spools = [f"captured changes of {name.removeprefix(SPOOL)}" for name in logs if name.startswith(SPOOL)]
    others = name_ids(name for name in logs if not name.startswith(SPOOL))
    return f'the file ".headrace/data/{damage.name}" {damage.why}; it holds {", ".join([*spools, *others])}'


def _find_logs(damaged: Sequence[FileDamage], logs: Mapping[str, Log]) -> dict[str, list[str]]:
    """The logs that name each damaged file."""
    names = {one.name for one in damaged}
    found: dict[str, list[str]] = {}
    for one in logs.values():
        for file in {f"{one.site}/{piece.file}" for piece in one.pieces} & names:
            found.setdefault(file, []).append(one.name)
    return found


def _find_contracts(damaged: Sequence[FileDamage], state: PushState, logs: Mapping[str, Log]) -> dict[str, str]:
    found = find_concerned(damaged, state.program, logs)
    serving = {entry.contract: serving_log(state.program, entry) for entry in state.running.plan.contracts}
    return {
        contract: f'the file ".headrace/data/{found[name].name}" {found[name].why}'
        for contract, name in serving.items()
        if name in found
    }
