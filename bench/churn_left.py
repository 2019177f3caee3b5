"""What a service occupies, and what it holds although no vertex of its plan needs it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from bench.contracts_world import Kept
from bench.workloads.live_table1 import DATABASE
from headrace.model.note_texts import StoredNote
from headrace.model.notes import AuditRecord, ContractAccount, LogKeys, SourceLoaded, SourceLoading, note_keys
from headrace.run.capture.spool import SPOOL
from headrace.site.housekeeping import GRACE_S, TRIM_EVERY_S
from headrace.site.running import Running

SPARE = 8
"""Threads and open files may vary by so many: pools of libraries start theirs when they are first used."""

SHOWN = 30


@dataclass(frozen=True, slots=True)
class Footprint:
    """Amounts by what they are of."""

    amounts: Mapping[str, int]


def footprint(kept: Kept) -> Footprint:
    folder, ledger = kept.service.folder, kept.service.ledger
    files = list(kept.service.store.list())
    return Footprint(
        {
            "threads": threading.active_count(),
            "open files": len(list(Path("/proc/self/fd").iterdir())),
            "processes": len(_children(os.getpid())),
            "anonymous memory, bytes": _anonymous_bytes(os.getpid()),
            "with children, bytes": sum(map(_anonymous_bytes, (os.getpid(), *_children(os.getpid())))),
            "ledger, bytes": sum(map(_size, folder.root.glob("ledger.db*"))),
            "commit_marks": len(ledger.commit_marks(DATABASE.lower(), 0, 1 << 30)),
            "logs": len(ledger.times()),
            "files of logs": len(files),
            "files, bytes": sum(_size(folder.root / "data" / site / file) for site, file, _ in files),
        }
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _anonymous_bytes(pid: int) -> int:
    """Without mapped files, which the kernel takes back when it wants them."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon")), 0)


def _children(pid: int) -> list[int]:
    """Processes below this one, without those of the database server."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                stat, command = (entry / "stat").read_text(), (entry / "cmdline").read_text(errors="replace")
            except OSError:
                continue
            if "postgres" not in command or "headrace" in command:
                parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found, waiting = [], [pid]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


@dataclass
class Leftovers:
    """`found` says what is left, a line each, as of the last look."""

    kept: Kept
    first: Footprint
    found: list[str] = field(default_factory=list)
    _unnamed: dict[str, float] = field(default_factory=dict)

    def look(self) -> None:
        self.found = [*self._logs(), *self._notes(), *self._files(), *self._in_database(), *self._processes()]

    def text(self) -> str:
        return "\n".join(["left over:", *(f"  {line}" for line in self.found[:SHOWN] or ["nothing"])])

    @property
    def _running(self) -> Running:
        running = self.kept.service.running
        assert running is not None
        return running

    @property
    def _sources(self) -> frozenset[str]:
        return self._running.sources

    def _logs(self) -> Iterator[str]:
        program = self._running.program
        needed = {*program.logs, *(SPOOL + source for source in self._sources)}
        yield from (f"log {name}" for name in sorted(set(self.kept.service.ledger.times()) - needed))
        for name, log in sorted(self.kept.service.ledger.logs(program.logs).items()):
            keys = {key.columns for key in program.logs[name].keys}
            unused = {piece.key for piece in log.pieces if piece.key and piece.key not in keys}
            yield from (f"runs of log {name} by {', '.join(key)}" for key in sorted(unused))

    def _notes(self) -> Iterator[str]:
        service = self.kept.service
        contracts = {one.contract for one in self._running.plan.contracts}
        known: dict[type[StoredNote], set[str]] = {
            LogKeys: set(service.ledger.times()),
            SourceLoaded: set(self._sources),
            SourceLoading: set(),
            AuditRecord: contracts,
            ContractAccount: contracts,
        }
        for kind, keys in known.items():
            for key in sorted(note_keys(service.ledger, kind)):
                if key not in keys:
                    yield f"note {kind.name_of(key)}"

    def _files(self) -> Iterator[str]:
        """Files that had no name at every look for longer than upkeep needs."""
        service, now = self.kept.service, time.monotonic()
        listed = {f"{site}/{file}" for site, file, _ in service.store.list()}
        unnamed = listed - service.ledger.files()
        self._unnamed = {name: self._unnamed.get(name, now) for name in unnamed}
        old = [name for name, since in self._unnamed.items() if now - since > GRACE_S + 2 * TRIM_EVERY_S]
        yield from (f"file {name}" for name in sorted(old))

    def _in_database(self) -> Iterator[str]:
        wanted = {self._table(source) for source in self._sources}
        there = {one.contract for one in self._running.plan.contracts}
        with psycopg.connect(self.kept.dsn, autocommit=True) as connection:
            slots = [name for (name,) in connection.execute(_SLOTS)]
            published = [name for (name,) in connection.execute(_PUBLISHED)]
            noted = list(connection.execute(_DELIVERED)) if connection.execute(_HAS_DELIVERIES).fetchone() else []
            copies = [name for (name,) in connection.execute(_COPIES)]
        yield from (f"slot {name}" for name in slots[1:])
        yield from (f"published table {name}" for name in published if name not in wanted)
        yield from (f"delivery of contract {name}" for (name,) in noted if name not in there)
        yield from (f"delivered table {name}" for name in copies if name[5:].upper() not in there)

    def _table(self, source: str) -> str:
        origin = self._running.plan.catalogue.sources[source].origin
        return str(getattr(origin, "table", source))

    def _processes(self) -> Iterator[str]:
        now = footprint(self.kept)
        for what in ("threads", "open files", "processes"):
            if now.amounts[what] > self.first.amounts[what] + SPARE:
                yield f"{now.amounts[what] - self.first.amounts[what]} {what} more than at first"


_SLOTS = "SELECT slot_name FROM pg_replication_slots WHERE database = current_database() ORDER BY 1"
_PUBLISHED = "SELECT DISTINCT tablename FROM pg_publication_tables ORDER BY 1"
_HAS_DELIVERIES = "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE nspname = 'headrace'"
_DELIVERED = "SELECT contract FROM headrace.deliveries ORDER BY 1"
_COPIES = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'copy\\_%' ORDER BY 1"
