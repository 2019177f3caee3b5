"""Holds things back until rows that were written before them are captured.

Rows wait in an inbox as numbered files, and a file is gone once its rows are committed. So whatever is to happen after
some rows waits for the last file that was there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from headrace.connect.written.inbox import list_files

Held = TypeVar("Held")
EVERY_FILE = 1 << 40


@dataclass(slots=True)
class CapturedFirst(Generic[Held]):
    """Things come out in the order in which they went in, as far as each may."""

    _held: list[tuple[Held, Mapping[Path, str]]] = field(default_factory=list)

    def hold(self, thing: Held, inboxes: Iterable[Path]) -> None:
        """Keeps a thing until all that waits in these inboxes now is captured."""
        last = {inbox: found[-1] for inbox in inboxes if (found := list_files(inbox, EVERY_FILE))}
        self._held.append((thing, last))

    def release(self) -> list[Held]:
        """What need not wait any more. Raises ConnectError if an inbox cannot be read."""
        first: dict[Path, str | None] = {}
        for _, last in self._held:
            for inbox in last.keys() - first.keys():
                first[inbox] = next(iter(list_files(inbox, 1)), None)
        free = [all(_is_past(first[inbox], name) for inbox, name in last.items()) for _, last in self._held]
        found = [thing for (thing, _), is_free in zip(self._held, free, strict=True) if is_free]
        self._held = [one for one, is_free in zip(self._held, free, strict=True) if not is_free]
        return found

    def __len__(self) -> int:
        return len(self._held)


def _is_past(first: str | None, name: str) -> bool:
    """Whether a file is taken: the oldest that waits, if any does, came later. Names are numbers of one length."""
    return first is None or first > name
