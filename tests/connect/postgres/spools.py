"""What spools mean, row by row in plain Python: the tables that the spool's rows lead to, at every time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.meaning.zset import normal
from headrace.model.log import PieceKind
from headrace.run.capture.spool import CapturedTable
from headrace.run.ports import Ledger, Store

Bag = Counter[tuple[Any, ...]]


def spool_rows(captured: CapturedTable, ledger: Ledger, store: Store) -> list[dict[str, Any]]:
    """All rows of a spool in order, columns without the name of the source."""
    log = ledger.logs([captured.log]).get(captured.log)
    if log is None:
        return []
    rows = []
    for piece in log.of_kind(PieceKind.CHANGE):
        table = store.read(log.site, piece.stored)
        assert table.num_rows == piece.rows
        for row in table.to_pylist():
            assert piece.after < row["__t"] <= piece.upto <= log.t
            rows.append({name.removeprefix(f"{captured.source}."): value for name, value in row.items()})
    rows.sort(key=lambda row: (row["__t"], row["__n"]))
    assert len({(row["__t"], row["__n"]) for row in rows}) == len(rows)
    return rows


@dataclass
class Replay:
    """The contents of one table as its spool is applied."""

    captured: CapturedTable
    by_key: dict[tuple[Any, ...], dict[str, Any]] = field(default_factory=dict)
    bag: Bag = field(default_factory=Counter)
    seen: set[tuple[Any, ...]] | None = None
    before: dict[str, Any] | None = None
    unfilled: int = 0

    def apply(self, row: Mapping[str, Any]) -> None:
        values = {name: hashable(row[name]) for name in self.captured.names}
        key = tuple(values[name] for name in self.captured.key)
        moved, self.before = self.before, None
        match row["__op"]:
            case "u":
                old = self.by_key.get(key) if moved is None else moved
                for name in row["__kept"] or ():
                    self.unfilled += old is None
                    values[name] = (old or {}).get(name)
                self.by_key[key] = values
                if self.seen is not None:
                    self.seen.add(key)
            case "d":
                gone = self.by_key.pop(key, None)
                self.before = (gone or {}) if row["__kept"] else None
            case "i":
                self.bag[tuple(values.values())] += 1
            case "r":
                self.bag[tuple(values.values())] -= 1
            case "t":
                self.by_key.clear()
                self.bag.clear()
            case "b":
                self.seen = set()
            case "e":
                assert self.seen is not None
                self.by_key = {key: row for key, row in self.by_key.items() if key in self.seen}
                self.seen = None
            case other:
                raise AssertionError(other)

    @property
    def contents(self) -> Bag:
        return Counter(tuple(row.values()) for row in self.by_key.values()) + self.bag


def replay(captured: CapturedTable, ledger: Ledger, store: Store) -> Iterator[tuple[int, Bag]]:
    """The contents after each time at which the table changed."""
    state = Replay(captured)
    rows = spool_rows(captured, ledger, store)
    for position, row in enumerate(rows):
        state.apply(row)
        if position + 1 == len(rows) or rows[position + 1]["__t"] != row["__t"]:
            yield row["__t"], state.contents


def contents_now(captured: CapturedTable, ledger: Ledger, store: Store) -> Bag:
    states = [found for _, found in replay(captured, ledger, store)]
    return +states[-1] if states else Counter()


def hashable(value: Any) -> Any:
    return tuple(map(hashable, value)) if isinstance(value, list) else normal(value)


def bag(rows: Sequence[Sequence[Any]]) -> Bag:
    return Counter(tuple(map(hashable, row)) for row in rows)
