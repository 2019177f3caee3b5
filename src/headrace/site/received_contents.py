"""Receives the rows of a copy at a time from another site, part by part.

Parts that have come are in files. Whoever asks again, after a kill or because something else went wrong, asks for the
next part alone. If the copy is to start at a later time by then, the changes in between are asked for as well; or all
rows once more, where these are not all by which they change.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from headrace.connect.wire.rows import read_rows
from headrace.connect.wire.snapshot_files import SnapshotFiles, SnapshotPart
from headrace.model.errors import ConnectError
from headrace.model.log import NEVER
from headrace.model.wish import CopyWish
from headrace.model.words import name_id
from headrace.run.push.engine import NotThereYet
from headrace.run.push.exports import ChangesGone, SentChanges
from headrace.run.rows.changes import contents

log = logging.getLogger("headrace.service")

ANSWER_WITHIN_S = 5.0
YOUNG_S = 60.0
"""A snapshot that is whole and older than this is not gone on with."""
CAUGHT_UP_WITHIN_S = 60.0
"""How long the other site may take to bring changes up to the time at which a copy starts."""


class ContentsPeer(Protocol):
    """Another site that is asked for the rows of a copy. Raises `ChangesGone` if they are not kept any more."""

    def read_part(self, copy: str, t: int, number: int) -> SnapshotPart: ...

    def read_changes(self, copy: str, after: int, wish: CopyWish, within_s: float) -> SentChanges: ...


@dataclass(frozen=True, slots=True)
class ReceivedContents:
    files: SnapshotFiles
    clock: Callable[[], int]
    _turns: dict[str, threading.Lock] = field(default_factory=dict)

    def find_time(self, copy: str) -> int:
        """The time of the rows that have begun to come, before every time if there are none."""
        held = self.files.find(copy)
        return NEVER if held is None else held.t

    def read(self, peer: ContentsPeer, copy: str, t: int, is_whole: bool) -> pa.Table:
        """The rows of a copy at a time. Goes on with a snapshot that has been begun: of that time, or of an earlier one
        if the copy `is_whole`. The changes of others are not all by which their rows have changed since.
        """
        with self._turns.setdefault(copy, threading.Lock()):
            held = self.files.find(copy)
            # One that is whole was used before, for a copy that went since: changes from then on may be much more.
            is_old = held is not None and held.there == held.of and t - held.t > YOUNG_S * 1e6
            if held is not None and (held.t == t or (is_whole and held.t < t and not is_old)):
                try:
                    return self._read_from(peer, copy, held.t, t)
                except (ChangesGone, _Unreadable) as error:
                    log.info("the rows of %s are read from their beginning: %s", copy, error)
            self.files.forget(copy)
            try:
                return self._read_from(peer, copy, t, t)
            except (ChangesGone, _Unreadable) as error:
                raise NotThereYet(f"the rows of {name_id(copy)} did not come whole: {error}") from error

    def _read_from(self, peer: ContentsPeer, copy: str, start: int, t: int) -> pa.Table:
        held = self.files.look(copy, start)
        number, of = held.there, held.of
        while of is None or number < of:
            part = peer.read_part(copy, start, number)
            if part.number != number or part.of != (of or part.of):
                raise ChangesGone("what is sent is another snapshot by now")
            self.files.add(copy, start, part)
            number, of = number + 1, part.of
        rows = pa.concat_tables(self._read_parts(copy, start, of))
        return rows if start == t else contents([rows, *self._read_changes(peer, copy, start, t)], t)

    def _read_parts(self, copy: str, t: int, of: int) -> Iterator[pa.Table]:
        for number in range(of):
            part = self.files.read(copy, t, number)
            if part is None:
                raise _Unreadable(f"part {number} is gone")
            try:
                yield read_rows(part.body)
            except ConnectError as error:
                raise _Unreadable(str(error)) from error

    def _read_changes(self, peer: ContentsPeer, copy: str, start: int, t: int) -> Iterator[pa.Table]:
        after, until = start, time.monotonic() + CAUGHT_UP_WITHIN_S
        while after < t:
            if time.monotonic() > until:
                raise NotThereYet(f"changes of {name_id(copy)} do not come as far as views start")
            sent = peer.read_changes(copy, after, CopyWish(t, self.clock()), ANSWER_WITHIN_S)
            yield sent.segment.rows
            after = sent.segment.upto


class _Unreadable(RuntimeError):
    """A part that has come is not there, or not whole: a loss of power may have taken some of it."""
