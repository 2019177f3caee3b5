"""Gives other sites the rows of a copy at a time: in parts, from files, so that each part can be asked for again.

The rows are made when the first part is asked for. From then on they are as they were, whatever is pushed or compacted
meanwhile, and changes after their time are kept for the copy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from pyarrow import types

from headrace.connect.wire.rows import write_rows
from headrace.connect.wire.snapshot_files import SnapshotFiles, SnapshotPart
from headrace.model.words import name_id
from headrace.run.program import LogSpec
from headrace.run.push.exports import ChangesGone

PART_ROWS, PART_BYTES = 65_536, 4 * 1024 * 1024
"""Most rows of a part, and about how many bytes it has before it is compressed: a slow link has to bring one within the
time for which snapshots are kept.
"""


@dataclass(frozen=True, slots=True)
class GivenContents:
    files: SnapshotFiles
    part_rows: int = PART_ROWS
    _turns: dict[str, threading.Lock] = field(default_factory=dict)
    """By copy: to make one of them, another site may ask for another."""

    def read_part(
        self, copy: str, t: int, number: int, spec: LogSpec, make_rows: Callable[[str, int], pa.Table]
    ) -> SnapshotPart:
        """Raises ChangesGone if it is not the first part, and the snapshot is not there any more."""
        with self._turns.setdefault(copy, threading.Lock()):
            if self.files.look(copy, t).of is None:
                if number:
                    raise ChangesGone(f"the rows of {name_id(copy)} at that time are not kept any more")
                self.files.write(copy, t, _split_rows(make_rows(copy, t), spec, self.part_rows))
            found = self.files.read(copy, t, number)
        if found is None:
            raise ChangesGone(f"{name_id(copy)} has no part {number} at that time")
        return found


def _split_rows(rows: pa.Table, spec: LogSpec, part_rows: int) -> Iterator[bytes]:
    """Parts in the order of a key, as they are sent; one if there are no rows."""
    key = next((key.columns for key in spec.keys if not key.computed), tuple(one.name for one in spec.columns))
    order = [(name, "ascending") for name in key if not types.is_nested(rows.schema.field(name).type)]
    ordered = rows.sort_by(order) if order else rows
    width = max(1, ordered.nbytes // max(1, ordered.num_rows))
    size = max(1, min(part_rows, PART_BYTES // width))
    for start in range(0, max(1, ordered.num_rows), size):
        yield write_rows(ordered.slice(start, size))
