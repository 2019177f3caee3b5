"""Mends damaged files while the service runs: says which they are, and has what they held made again.

The store notes damage, whoever finds it (`connect/damage_notes.py`). `run/logs/rebuild.py` decides what it takes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.model.damage import FileDamage
from headrace.model.log import Lease, Log
from headrace.model.notes import LogKeys, SourceLoading, note_keys, read_notes
from headrace.model.plan_events import SourcesReread
from headrace.model.words import name_ids
from headrace.run.capture.spool import SPOOL
from headrace.run.compile.columns import serving_log
from headrace.run.logs.rebuild import Rebuild, find_concerned, plan_rebuild
from headrace.run.logs.rebuilding import forget_damaged, make_forgetting_commit, rebuild_indexes
from headrace.run.logs.upkeep import Upkeep
from headrace.run.ports import Ledger, Store
from headrace.run.program import Program
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
            self.troubles.report(DAMAGE + one.name, say_damage(one, named[one.name]), MEND_FILE, since=one.since)
        return known

    # Mending

    def forget_before_start(self, programs: Iterable[Program]) -> bool:
        """Forgets what damaged files held, before anything runs; whether there was any. What is missing is then made.

        Nobody pushes or compacts yet.
        """
        damaged = self.store.damaged()
        needed = self._report(damaged, self.ledger.logs()) if damaged else []
        for program in programs if needed else ():
            logs, reading = self.ledger.logs(), note_keys(self.ledger, SourceLoading)
            rebuild = plan_rebuild(needed, program, logs, reading)
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
                logs, reading = self.ledger.logs(), note_keys(self.ledger, SourceLoading)
                self._report(damaged, logs)  # here as well: what is mended within a second is told all the same
                self._carry_out(plan_rebuild(damaged, upkeep.engine.program, logs, reading), upkeep, running)

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
