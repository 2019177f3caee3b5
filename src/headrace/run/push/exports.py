"""What a site gives to others: changes of its logs, and their contents at a time, as the copies of others have them.

A copy at another site has a log of its own name here, without files: its time is how far the other site has it, so that
changes after it are kept. It moves on when the other site asks for what comes next, which says that it has the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from headrace.model.errors import Conflict
from headrace.model.log import Commit, Edit, Log
from headrace.model.words import name_id
from headrace.run.capture.spool import SPOOL
from headrace.run.load.load import DatasetLoad
from headrace.run.operators.reading import schema_of
from headrace.run.program import Ingest, Program, RecomputeStep, SiteCopy
from headrace.run.push.engine import Engine, NotThereYet
from headrace.run.push.push_items import make_item
from headrace.run.push.work import make_rows
from headrace.run.rows.changes import contents

SEGMENT_BYTES = 2 * 1024 * 1024
"""Changes that are sent together, as they are kept here: both sides hold them in memory, and what does not arrive whole
is sent again.
"""


class ChangesGone(RuntimeError):
    """What a copy lacks is not kept any more: it has to start anew."""


class NotForReader(RuntimeError):
    """A site asks for rows that the plan does not give to it."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Changes of a copy with after < t <= upto; there may be later ones."""

    after: int
    upto: int
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class SentChanges:
    """Changes of a copy that were sent, and how many bytes that took."""

    segment: Segment
    bytes: int


@dataclass(frozen=True, slots=True)
class Exports:
    """What others have of one site. Its engine is that of the program which runs, or is loaded."""

    engine: Engine

    def find_starts(self, site: str) -> dict[str, int]:
        """The times after which changes are kept of all that a site has of us; what is not loaded yet is missing."""
        copies = [copy for copy in self.engine.program.exports.values() if copy.site == site]
        logs = self.engine.ledger.logs({read for copy in copies for read in copy.task.reads})
        there = [copy for copy in copies if all(read in logs for read in copy.task.reads)]
        # A view in full is known at the times of its pushes alone: the last one is the earliest known to be one.
        return {
            copy.name: max(logs[read].t if copy.task.follows else logs[read].start for read in copy.task.reads)
            for copy in there
        }

    def reach(self, site: str) -> dict[str, int]:
        """How far all that a site has of us can be brought now."""
        copies = [copy for copy in self.engine.program.exports.values() if copy.site == site]
        return {copy.name: self.engine.watermark(copy.task.reads) for copy in copies}

    def count_waiting(self) -> dict[str, int]:
        """Bytes of changes that each other site has not asked for yet, by site."""
        copies = self.engine.program.exports.values()
        logs = self.engine.ledger.logs({one for copy in copies for one in (copy.name, *copy.task.reads)})
        found: dict[str, int] = {}
        for copy in copies:
            cursor, reads = logs.get(copy.name), [logs[read] for read in copy.task.reads if read in logs]
            # A copy that lacks more than is kept starts anew when it asks: what is kept is all that is known of it.
            kept = (log.changes(max(cursor.t, log.start), log.t) for log in reads if cursor is not None)
            waiting = sum(piece.bytes for pieces in kept for piece in pieces)
            found[copy.site] = found.get(copy.site, 0) + waiting
        return found

    def read_changes(self, name: str, after: int, most_bytes: int = SEGMENT_BYTES) -> Segment:
        """What a copy lacks that is there, from the oldest on; about so many bytes of it, if there is more. Asking for
        it says that the copy has everything up to `after`.

        Raises ChangesGone.
        """
        copy = self.find(name)
        logs = self.engine.ledger.logs(copy.task.reads)
        if any(read not in logs or logs[read].start > after for read in copy.task.reads):
            raise ChangesGone(f"changes of {name_id(name)} that site {copy.site} lacks are not kept any more")
        self._move_cursor(copy, after)
        upto = min(log.t for log in logs.values())
        if upto <= after:
            return Segment(after, after, schema_of(copy.spec.columns).empty_table())
        upto = choose_end(logs.values(), after, upto, most_bytes)
        there = {**logs, name: Log(name, copy.site, after, after)}
        # Files that nobody names any more stay for a minute, so that nobody needs to hold them meanwhile.
        item = make_item(self._with(copy), self.engine.store, name, upto, there)
        schema = schema_of(copy.spec.columns)
        return Segment(after, upto, make_rows(item).select(schema.names).cast(schema))

    def read_contents(self, name: str, t: int) -> pa.Table:
        """The rows of a copy at a time, stamped with it. Changes after that are kept for the copy from now on.

        Raises NotThereYet if not everything is captured up to then.
        """
        copy, engine = self.find(name), self.engine
        program = self._with(copy)
        upstream = program.upstream([name])
        in_full = _find_in_full(program, upstream)
        self._bring_sources(copy, t)
        self._push_in_full(in_full, t)
        self._move_cursor(copy, t)
        kept = (*program.imports_of([name]), *program.remembered(upstream), *in_full.values())
        logs = engine.ledger.logs([*upstream, *kept])
        return DatasetLoad(program, t, lambda vertex: self._read_kept(program, logs, vertex, t)).contents(name)

    def check_reader(self, name: str, site: str) -> None:
        """Raises NotForReader, or NotThereYet for what nobody here knows: others may have a later plan."""
        program = self.engine.program
        copy = program.exports.get(name)
        if copy is None and name not in program.logs and not name.startswith(SPOOL):
            raise NotThereYet(f"{name_id(name)} is not part of the plan here")
        if copy is None or copy.site != site:
            raise NotForReader(f'the plan does not give {name_id(name)} to site "{site}"')

    def find(self, name: str) -> SiteCopy:
        found = self.engine.program.exports.get(name)
        if found is None:
            raise NotThereYet(f"{name_id(name)} is not part of the plan here")
        return found

    def _with(self, copy: SiteCopy) -> Program:
        """The program as if the copy were made here."""
        program = self.engine.program
        tasks, logs = {**program.tasks, copy.name: copy.task}, {**program.logs, copy.name: copy.spec}
        return replace(program, tasks=tasks, logs=logs)

    def _bring_sources(self, copy: SiteCopy, t: int) -> None:
        """Contents are made from those of sources, whatever else is not loaded or not pushed that far."""
        engine = self.engine
        needed, tasks = engine.upstream(copy.task.reads), engine.program.tasks
        sources = [name for name in needed if isinstance(tasks[name].step, Ingest)]
        times = engine.ledger.times()
        if any(name not in times for name in sources) or engine.captured(sources, times) < t:
            raise NotThereYet(f"not everything that {name_id(copy.name)} is made of is captured that far")
        if any(times[name] < t for name in sources):
            engine.bring_sources(sources, t)
        behind = [name for name in engine.program.remembered(needed).values() if times.get(name, t) < t]
        if behind:
            engine.bring_sources(behind, t)

    def _push_in_full(self, in_full: Mapping[str, str], t: int) -> None:
        """What follows in the log of a view in full begins at its pushes: one of them has to be at this time."""
        times = self.engine.ledger.times()
        for vertex in in_full:
            if vertex not in times:
                raise NotThereYet(f"{name_id(vertex)} is not loaded yet")
            if times[vertex] < t:
                self.engine.bring([vertex], t)

    def _read_kept(self, program: Program, logs: Mapping[str, Log], vertex: str, t: int) -> pa.Table | None:
        task = program.tasks.get(vertex)
        if task is not None and isinstance(task.step, RecomputeStep):
            return self._read_kept(program, logs, task.step.state, t)  # what its log goes on from
        log, spec = logs.get(vertex), program.logs[vertex]
        if log is not None and spec.has_contents and log.t >= t and (log.base_t is None or log.base_t <= t):
            schema = schema_of(spec.columns)
            tables = [self.engine.store.read(log.site, piece.stored, schema.names) for piece in log.contents]
            return contents([schema.empty_table(), *tables], t)
        is_state = log is not None and vertex not in program.tasks and vertex not in program.imports
        if is_state or (vertex in program.tasks and isinstance(program.tasks[vertex].step, Ingest)):
            raise NotThereYet(f"rows of {name_id(vertex)} at that time are not kept any more: ask for a later time")
        if vertex in program.imports:
            assert self.engine.neighbours is not None, "nobody knows other sites"
            return self.engine.neighbours.read_contents(vertex, t)
        return None

    def _move_cursor(self, copy: SiteCopy, t: int) -> None:
        ledger, lease = self.engine.ledger, self.engine.lease
        log = ledger.logs([copy.name]).get(copy.name)
        if log is not None and log.t > t:  # it starts anew
            ledger.commit(lease, Commit(forget=(copy.name,)))
            log = None
        if log is None or log.t < t:
            edit = Edit(copy.name, None if log is None else log.t, t, start=t, site=copy.site)
            try:
                ledger.commit(lease, Commit((edit,)))
            except Conflict:
                return  # the other site asks twice: whoever was first has said the same


def _find_in_full(program: Program, vertices: Iterable[str]) -> dict[str, str]:
    """Views in full among vertices, and the logs of what they hold."""
    steps = ((name, program.tasks[name].step) for name in vertices if name in program.tasks)
    return {name: step.state for name, step in steps if isinstance(step, RecomputeStep)}


def choose_end(logs: Iterable[Log], after: int, upto: int, most_bytes: int) -> int:
    """The latest time up to which changes have so many bytes at most, or up to which there is one piece of them.

    Pieces end where a commit does, so nobody sees half of a transaction.
    """
    pieces = sorted((piece for log in logs for piece in log.changes(after, upto)), key=lambda piece: piece.upto)
    end, size = None, 0
    for piece in pieces:
        size += piece.bytes
        if end is not None and size > most_bytes and piece.upto > end:
            return end
        end = min(piece.upto, upto)
    return upto
