"""Checks what we hold of sources against the sources, a range of rows at a time, and has those read anew that differ.

Keys that differ in a pass (`run/check/source_pass.py`) are suspects: they are read again in a second snapshot, and
judged once everything that this snapshot shows has been captured and pushed (`run/check/judge_rows.py`).
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.connect.sources import connector_of
from headrace.model.catalogue import Source
from headrace.model.errors import ConnectError, HeadraceError
from headrace.model.log import NEVER, Commit, Log
from headrace.model.notes import (
    CapturedUpTo,
    LogKeys,
    SourceDiffers,
    SourceLoading,
    SourceMissed,
    SourceObsolete,
    SourceStopped,
    note_keys,
    read_note,
)
from headrace.model.source_clock import clock_of
from headrace.run.check.held_source import HeldSource, find_base
from headrace.run.check.judge_rows import judge_rows, say_wrong
from headrace.run.check.mend import Mend, choose_mend
from headrace.run.check.rota import CheckFinding, CheckRecord
from headrace.run.check.source_pass import (
    WHOLE_AT_MOST,
    PassPiece,
    count_rows_at_once,
    look_at_contents,
    look_at_source,
    needs_source,
)
from headrace.run.program import Program
from headrace.run.rows.arrow import rows_of_arrow
from headrace.run.source_port import SeenRows, SourceSight
from headrace.site.push_state import PushState
from headrace.site.sources.databases import place_of

if TYPE_CHECKING:
    from headrace.site.service import Service

log = logging.getLogger("headrace.service")

NOT_HELD = (SourceLoading, SourceMissed, SourceObsolete, SourceStopped)
"""Notes about sources of which we do not claim to hold what they hold."""
AWAY_FOR_S = 10.0
"""How long a source that could not be looked at is left alone."""


@dataclass(frozen=True, slots=True)
class Suspects:
    """Keys whose rows differed from those of a snapshot. Before it, our rows were at time `after`.

    Transactions with numbers of `begun` and above are not in what we held then. `seen` are the rows of the second
    snapshot, once read; all that this one shows was captured by time `upto`, once it was. Keys that were judged wrong
    `before` are wrong if they are again.
    """

    keys: pa.Table
    after: int
    begun: int
    seen: SeenRows | None = None
    upto: int | None = None
    before: bool = False


@dataclass(slots=True)
class SourceChecks:
    """One thread uses this. `bytes` and `asked_s` count what was read, and how long sources worked for that."""

    service: Service
    reread: Callable[[str], object]
    bytes: int = 0
    asked_s: float = 0.0
    suspects: dict[str, Suspects] = field(default_factory=dict)
    _away_until: dict[str, float] = field(default_factory=dict)
    _row_bytes: dict[str, float] = field(default_factory=dict)
    _mended: dict[str, list[float]] = field(default_factory=dict)

    def check(self, state: PushState, name: str, record: CheckRecord, now: float) -> CheckRecord:
        """One piece. Returns the record of the source afterwards."""
        source = state.running.plan.catalogue.sources[name]
        assert source.origin is not None, "it is captured"
        if name in note_keys(self.service.ledger, SourceDiffers):
            self._mend(name, now)
            return record.postpone(now)
        if (why := connector_of(source.origin.kind).find_unchecked(source)) is not None:
            return record.begin(now, "").end(now, CheckFinding.UNCHECKED, f"it {why}")
        held = self._hold(state.program, source)
        if held is None:
            self.suspects.pop(name, None)
            return replace(record, place=None).postpone(now)
        if self._is_away(name, now) or (name in self.suspects and not self._can_judge(state, name)):
            return record.postpone(now)
        try:
            return self._check(state, source, held, record, now)
        except ConnectError as error:
            # Locked, slow or away, or upkeep has just replaced a file: another time. Captures tell what lasts.
            self._away_until[name] = now + AWAY_FOR_S
            log.info("check of source %s: %s", name, error.message)
            return replace(record.postpone(now), why=f"it could not be looked at: {error.message}")

    def find_urgent(self, state: PushState, now: float) -> str | None:
        """A source that can be mended now, or whose suspects can be judged; None if there is none."""
        differing = [name for name in note_keys(self.service.ledger, SourceDiffers) if self._may_mend(name, now)]
        ready = (name for name in self.suspects if name in state.running.sources and self._can_judge(state, name))
        return next((name for name in (*differing, *ready) if not self._is_away(name, now)), None)

    def _is_away(self, name: str, now: float) -> bool:
        return 0 < self._away_until.get(name, 0.0) - now <= AWAY_FOR_S

    def _can_judge(self, state: PushState, name: str) -> bool:
        """Whether suspects can be read again, or judged: what the snapshot showed was captured and pushed."""
        found, source = self.suspects[name], state.running.plan.catalogue.sources[name]
        if found.seen is None:
            return True
        if found.upto is None:
            assert source.origin is not None
            captured = read_note(self.service.ledger, CapturedUpTo, clock_of(source))
            if captured is None or not connector_of(source.origin.kind).has_passed(found.seen.position, captured):
                return False
            # Kept: captures go on, and what is pushed never comes to where they are by then.
            found = self.suspects[name] = replace(found, upto=captured.t)
        return self.service.ledger.times().get(find_base(state.program, name), NEVER) >= (found.upto or 0)

    def _hold(self, program: Program, source: Source) -> HeldSource | None:
        """What we hold of a source; None while it is being read or indexed, or is stopped."""
        ledger = self.service.ledger
        if any(source.name in note_keys(ledger, kind) for kind in NOT_HELD):
            return None
        base, key = find_base(program, source.name), tuple(f"{source.name}.{column}" for column in source.key)
        held = ledger.logs([base]).get(base)
        indexed = read_note(ledger, LogKeys, base)
        if held is None or (key and (indexed is None or key not in indexed.keys or _lacks_index(held, key))):
            return None  # upkeep builds the index first
        return HeldSource(self.service.store, held, program.logs[base].columns, key)

    def _check(
        self, state: PushState, source: Source, held: HeldSource, record: CheckRecord, now: float
    ) -> CheckRecord:
        if source.name not in self.suspects and not needs_source(record):
            return self._take(source.name, held, None, look_at_contents(held, record, now), now)
        assert source.origin is not None
        project = state.running.plan.catalogue.project
        place = place_of(project, self.service.folder.project, self.service.environment)
        with connector_of(source.origin.kind).open_sight(source, place) as sight:
            try:
                if source.name in self.suspects:
                    return self._examine(source, held, sight, record, now)
                if record.place is None:
                    mark = _mark_of(held, sight.find_mark())
                    if mark and record.is_unchanged(now, mark):
                        return record.skip(now)
                    record = record.begin(now, mark)
                limit = count_rows_at_once(self._row_bytes.get(source.name))
                return self._take(source.name, held, sight, look_at_source(held, sight, record, limit, now), now)
            finally:
                self.bytes, self.asked_s = self.bytes + sight.bytes, self.asked_s + sight.asked_s

    def _take(
        self, source: str, held: HeldSource, sight: SourceSight | None, piece: PassPiece, now: float
    ) -> CheckRecord:
        """Notes what a piece found. Returns the record of the source afterwards."""
        self.bytes += piece.bytes
        if piece.row_bytes is not None:
            self._row_bytes[source] = piece.row_bytes
        if piece.suspects is not None and sight is not None:
            self.suspects[source] = Suspects(piece.suspects, held.log.t, sight.count_transactions())
        return self._tell_difference(source, piece.wrong, piece.record, now) if piece.wrong else piece.record

    # Suspects

    def _examine(
        self, source: Source, held: HeldSource, sight: SourceSight, record: CheckRecord, now: float
    ) -> CheckRecord:
        """Reads suspects again, or judges them."""
        found = self.suspects[source.name]
        if found.seen is None:
            sight.count_transactions()
            seen = sight.read_keys(rows_of_arrow(found.keys)) if held.key else sight.read_first(WHOLE_AT_MOST + 1)
            # A commit is visible a little later than it is in the log, and much later if it waits for a standby. So we
            # may have held what this snapshot does not show yet. Then all that we know of the past counts.
            unseen = any(number < found.begun for number in seen.running)
            self.suspects[source.name] = replace(found, seen=seen, after=NEVER if unseen else found.after)
            return record
        del self.suspects[source.name]
        too_many = not held.key and found.seen.rows.num_rows > WHOLE_AT_MOST
        if too_many or NEVER < found.after < held.log.start:
            return replace(record, place=None)  # not all is there that it takes to judge them: from the start
        wrong = self._judge(found.keys, found.seen, held, found.after)
        if wrong and not held.key and not found.before:
            # Transactions that add and remove equal rows need not follow each other: this may have been between two.
            self.suspects[source.name] = Suspects(found.keys, held.log.t, sight.count_transactions(), before=True)
            return record
        return self._tell_difference(source.name, wrong, record, now) if wrong else record

    def _judge(self, keys: pa.Table, seen: SeenRows, held: HeldSource, after: int) -> str:
        """What is wrong with suspects, in words; nothing if nothing is. Our index must say what our files do."""
        places = [held.names.index(name) for name in held.identity]
        rows = rows_of_arrow(seen.rows.select(held.names))
        wrong = judge_rows(rows_of_arrow(keys), places, rows, held.read_keys(keys), held.read_history(keys, after))
        if wrong:
            return say_wrong(wrong, [name.partition(".")[2] for name in held.key])
        return ""

    # What is found

    def _tell_difference(self, source: str, what: str, record: CheckRecord, now: float) -> CheckRecord:
        said = f'what is held of source "{source}" differs from the source: {what}'
        note = SourceDiffers(source, said, round(now * 1e6))
        self.service.ledger.commit(self.service.lease, Commit(notes=(note,)))
        return record.end(now, CheckFinding.DIFFERENT, said)

    def _may_mend(self, source: str, now: float) -> bool:
        return choose_mend(self._mended.get(source, ()), now) is not Mend.NOT_NOW

    def _mend(self, source: str, now: float) -> None:
        """Has a source read anew; the note goes with what was read before. Somebody else's plan may be on its way."""
        if self._may_mend(source, now):
            try:
                self.reread(source)
                self._mended.setdefault(source, []).append(now)
            except HeadraceError as error:
                self._away_until[source] = now + AWAY_FOR_S
                log.warning("source %s cannot be read again now: %s", source, error)


def _lacks_index(log: Log, key: tuple[str, ...]) -> bool:
    """Whether a log has rows, but no index by a key."""
    return bool(log.contents) and not log.indexes(key)


def _mark_of(held: HeldSource, theirs: str | None) -> str:
    """Stands for what the source was like, and the files that we hold; empty if the source cannot tell."""
    if theirs is None:
        return ""
    files = sorted(piece.file for piece in (*held.log.contents, *held.log.indexes(held.key)))
    return hashlib.sha256("\n".join((theirs, *files)).encode()).hexdigest()[:16]
