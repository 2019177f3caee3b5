"""Pushes that run beside others: which vertices are pushed, and which files must not be deleted meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from headrace.run.ports import Runner
from headrace.run.push.items import ItemOutcome
from headrace.run.push.slices import run_sliced
from headrace.run.push.work import Produced, WorkItem


@dataclass(frozen=True, slots=True)
class _Kept:
    vertex: str
    files: frozenset[str]


@dataclass(slots=True)
class InWork:
    """May be used by several threads at once. What it holds is replaced whole, never changed."""

    _kept: Mapping[int, _Kept] = field(default_factory=dict)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    @property
    def vertices(self) -> frozenset[str]:
        return frozenset(one.vertex for one in self._kept.values())

    @property
    def files(self) -> frozenset[str]:
        """Named as `SITE/FILE`: what pushes read, and what they made that is not committed yet."""
        return frozenset(file for one in self._kept.values() for file in one.files)

    @contextmanager
    def holding(self, item: WorkItem) -> Iterator[None]:
        """Begin this while nobody else pushes: the files that the item names are then those of its logs."""
        self._set(item, _Kept(item.name, item.files))
        try:
            yield
        finally:
            self._set(item, None)

    def run(self, runner: Runner[Produced], item: WorkItem) -> ItemOutcome[Produced]:
        """Runs an item that is held; what it makes is held as well, until it is committed."""
        (outcome,) = run_sliced(runner, [item])
        # New files are held before anybody commits them: until then no log names them, and garbage collection would
        # take them for garbage.
        if outcome.value is not None:
            kept = self._kept[id(item)]
            self._set(item, replace(kept, files=kept.files | item.files_of(outcome.value)))
        return outcome

    def _set(self, item: WorkItem, kept: _Kept | None) -> None:
        # The lock is for writers alone. Readers take `_kept` once and get all of it, as it was before or after.
        with self._turn:
            others = {key: one for key, one in self._kept.items() if key != id(item)}
            self._kept = others if kept is None else {**others, id(item): kept}
