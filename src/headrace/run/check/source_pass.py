"""One pass over a source, a piece at a time: which rows are read, there and here, and which keys differ.

A pass over a table with a key has three stretches:

    theirs     ranges of the source's key: its rows are looked up in our index; finds rows that we lack
    ours       stretches of our index: their keys are asked for; finds rows that we have too many
    contents   stretches of our index against the files that it is made of; asks nobody

A small table without a key is read whole. Where a pass goes on is in its record, as texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from headrace.model.types import Row
from headrace.run.check.held_source import HeldSource, count_windows, find_differing_keys
from headrace.run.check.rota import CheckFinding, CheckRecord
from headrace.run.rows.arrow import rows_of_arrow
from headrace.run.rows.compare import add_weights
from headrace.run.source_port import SourceSight

ROWS_AT_ONCE, BYTES_AT_ONCE, FIRST_ROWS = 10_000, 1_000_000, 500
"""Rows of a range, at most and if nothing is known of their size; and the bytes that they may have."""
KEYS_AT_ONCE, PAIRS_AT_ONCE = 4_000, 500
"""Keys of one column, and of several, that are asked for together: databases take longer to plan the latter."""
HELD_AT_ONCE = 100_000
WHOLE_AT_MOST = 20_000
"""Rows of a table without a key that is read whole."""
SUSPECTS_AT_MOST = 200
NO_KEY = "it has no key and more than {most:,} rows; `headrace audit --recompute` compares it"


@dataclass(frozen=True, slots=True)
class PassPiece:
    """What a piece found: the record afterwards, keys whose rows differ from those of the source, and the bytes of ours
    that were read. `wrong` says what is wrong for certain.
    """

    record: CheckRecord
    suspects: pa.Table | None = None
    bytes: int = 0
    wrong: str = ""
    row_bytes: float | None = None


def needs_source(record: CheckRecord) -> bool:
    return not record.place or record.place[0] != "contents"


def count_rows_at_once(row_bytes: float | None) -> int:
    """How many rows of a size to read in one piece."""
    return FIRST_ROWS if row_bytes is None else max(1, min(ROWS_AT_ONCE, int(BYTES_AT_ONCE / max(1.0, row_bytes))))


def look_at_source(held: HeldSource, sight: SourceSight, record: CheckRecord, limit: int, now: float) -> PassPiece:
    """The next piece that needs the source; of a table with a key, `limit` rows."""
    if not held.key:
        return _look_at_all(held, sight, record, now)
    stretch, *rest = record.place or ("theirs",)
    if stretch == "theirs":
        return _look_at_theirs(held, sight, record, rest, limit)
    return _look_at_ours(held, sight, record, rest)


def _look_at_theirs(
    held: HeldSource, sight: SourceSight, record: CheckRecord, rest: Sequence[str], limit: int
) -> PassPiece:
    seen = sight.read_after(_read_key(rest[0], held) if rest else None, limit).rows
    ours, rows = held.look_up(seen.select(held.identity)), seen.num_rows
    if rows < limit:
        at_once = KEYS_AT_ONCE if len(held.key) == 1 else PAIRS_AT_ONCE
        after = record.advance(("ours", "0", str(count_windows(held.rows, at_once))), 0.45, rows)
    else:
        share = min(1.0, (record.counted + rows) / max(1, held.rows))
        last = _write_key(seen.slice(rows - 1).select(held.identity))
        after = record.advance(("theirs", last), 0.45 * share, rows)
    size = seen.nbytes / rows if rows else None
    return PassPiece(after, _find_suspects(held, seen, ours), ours.nbytes, row_bytes=size)


def _look_at_ours(held: HeldSource, sight: SourceSight, record: CheckRecord, rest: Sequence[str]) -> PassPiece:
    number, count = map(int, rest)
    ours = held.read_index(number, count)
    seen = sight.read_keys(rows_of_arrow(ours.select(held.identity))).rows if ours.num_rows else None
    if number + 1 < count:
        after = record.advance(("ours", str(number + 1), str(count)), 0.45 + 0.45 * (number + 1) / count, 0)
    else:
        after = record.advance(("contents", "0", str(count_windows(held.rows, HELD_AT_ONCE))), 0.9, 0)
    return PassPiece(after, None if seen is None else _find_suspects(held, seen, ours), ours.nbytes)


def _look_at_all(held: HeldSource, sight: SourceSight, record: CheckRecord, now: float) -> PassPiece:
    if record.place == ("looked",):  # its suspects were judged, if there were any
        return PassPiece(record.end(now, CheckFinding.EQUAL))
    seen = sight.read_first(WHOLE_AT_MOST + 1).rows
    if max(seen.num_rows, held.rows // 4) > WHOLE_AT_MOST:
        return PassPiece(record.end(now, CheckFinding.UNCHECKED, NO_KEY.format(most=WHOLE_AT_MOST)))
    ours = held.read_contents()
    after = record.advance(("looked",), 0.9, seen.num_rows)
    return PassPiece(after, _find_suspects(held, seen, ours), ours.nbytes)


def look_at_contents(held: HeldSource, record: CheckRecord, now: float) -> PassPiece:
    """Both sides are ours and of one instant: a difference needs no second look."""
    number, count = map(int, (record.place or ())[1:])
    ours, index = held.read_contents(number, count), held.read_index(number, count)
    size, differing = ours.nbytes + index.nbytes, find_differing_keys(ours, index, held.identity)
    if differing.num_rows:
        return PassPiece(record, None, size, f"{differing.num_rows} rows of our index are not those of our files")
    if number + 1 == count:
        return PassPiece(record.end(now, CheckFinding.EQUAL), None, size)
    after = record.advance(("contents", str(number + 1), str(count)), 0.9 + 0.1 * (number + 1) / count, 0)
    return PassPiece(after, None, size)


def _find_suspects(held: HeldSource, seen: pa.Table, ours: pa.Table) -> pa.Table | None:
    differing = find_differing_keys(add_weights(seen), ours, held.identity)
    return differing.slice(0, SUSPECTS_AT_MOST) if differing.num_rows else None


def _write_key(row: pa.Table) -> str:
    """A key as text, so that a pass goes on after a restart."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, row.schema) as writer:
        writer.write_table(row.combine_chunks())
    return str(sink.getvalue().to_pybytes().hex())


def _read_key(text: str, held: HeldSource) -> Row | None:
    """None for the text of another key: then the pass begins again."""
    try:
        with pa.ipc.open_stream(bytes.fromhex(text)) as reader:
            table = reader.read_all()
    except (ValueError, pa.ArrowInvalid):
        return None
    return rows_of_arrow(table)[0] if table.column_names == held.identity else None
