"""Changes of rows in the log to rows of a spool, and the keys they touch."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass

from headrace.run.capture.pgoutput import KEPT, Relation, RowChange, Text, Tuple, UntouchedValue
from headrace.run.capture.spool import CapturedTable, SpoolRows, TextRow


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the declared columns and the key stand in the log's rows of a table.

    Values at `padded` are of type char(n). The spaces that fill them up mean nothing: PostgreSQL compares and casts
    such values without them, and so do we.
    """

    captured: CapturedTable
    columns: tuple[int, ...]
    key: tuple[int, ...]
    padded: tuple[int, ...] = ()

    def row(self, values: Tuple) -> TextRow:
        return tuple([values[position] for position in self.columns])  # type: ignore[misc]

    def key_of(self, values: Tuple) -> TextRow:
        return tuple([values[position] for position in self.key])  # type: ignore[misc]


def layout_of(captured: CapturedTable, relation: Relation, padded: Set[str] = frozenset()) -> Layout:
    """The layout of a table that has all declared columns; `padded` are the names of those of type char(n)."""
    positions = {column.name: position for position, column in enumerate(relation.columns)}
    return Layout(
        captured,
        tuple(positions[name] for name in captured.names),
        tuple(positions[name] for name in captured.key),
        tuple(positions[name] for name in captured.names if name in padded),
    )


def _unpad(change: RowChange, layout: Layout) -> RowChange:
    if not layout.padded:
        return change
    return change._replace(old=_unpad_row(change.old, layout.padded), new=_unpad_row(change.new, layout.padded))


def _unpad_row(values: Tuple | None, padded: tuple[int, ...]) -> Tuple | None:
    if values is None:
        return None
    found = list(values)
    for position in padded:
        value = found[position]
        found[position] = value.rstrip(b" ") if isinstance(value, bytes) else value
    return found


def add_change(rows: SpoolRows, layout: Layout, change: RowChange, stamp: int) -> None:
    captured, change = layout.captured, _unpad(change, layout)
    if change.kind == "I":
        assert change.new is not None
        rows.add(stamp, "u" if captured.keyed else "i", layout.row(change.new))
    elif captured.appends:
        return
    elif captured.keyed:
        _add_keyed(rows, layout, change, stamp)
    else:
        assert change.old is not None and not change.key_only, f'"{captured.table}" has no REPLICA IDENTITY FULL'
        rows.add(stamp, "r", layout.row(change.old))
        if change.new is not None:
            rows.add(stamp, "i", layout.row(_fill_row(change.new, change)))


def _add_keyed(rows: SpoolRows, layout: Layout, change: RowChange, stamp: int) -> None:
    captured = layout.captured
    if change.new is None:
        assert change.old is not None
        rows.add(stamp, "d", captured.key_row(layout.key_of(change.old)))
        return
    new = _fill_row(change.new, change)
    kept: tuple[str, ...] = ()
    values: list[Text] = [new[position] for position in layout.columns]
    if KEPT in values:
        kept = tuple(name for name, value in zip(captured.names, values, strict=True) if value is KEPT)
        values = [None if value is KEPT else value for value in values]
    if change.old is not None and layout.key_of(change.old) != layout.key_of(new):
        rows.add(stamp, "d", captured.key_row(layout.key_of(change.old)), kept)
    rows.add(stamp, "u", tuple(values), kept)  # type: ignore[arg-type]


def _fill_row(new: Tuple, change: RowChange) -> Tuple:
    """The new row, with what the log has of the old one in place of what it leaves out of the new one."""
    old = change.old
    if old is None or KEPT not in new:
        return new
    return [
        before if value is KEPT and not (change.key_only and before is None) else value
        for value, before in zip(new, old, strict=True)
    ]


def find_touched(layout: Layout, change: RowChange) -> Iterator[tuple[TextRow, bool]]:
    """The keys whose rows a change concerns, and whether all values of the row after it are known."""
    change = _unpad(change, layout)
    if change.old is not None:
        yield layout.key_of(change.old), True
    if change.new is not None:
        new = _fill_row(change.new, change)
        yield layout.key_of(new), not any(isinstance(new[position], UntouchedValue) for position in layout.columns)
