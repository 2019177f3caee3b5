"""What a device asks of the place where it keeps things, so that a restart loses nothing and reports nothing twice.

Everything that one event changes is kept in one `step`: all of it or nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from headrace.model.device_messages import Sent
from headrace.model.types import Row

Pair = tuple[str, ...]


class WaitingRow(NamedTuple):
    """Something to be sent: its number, its JSON, and when it was put there (ms since 1970)."""

    seq: int
    text: str
    put_ms: int


@dataclass(frozen=True, slots=True)
class Kept:
    """What a device knew before: `queues` are what to send up, by the name that it is acknowledged under."""

    document: bytes | None
    queues: Mapping[str, Queue]
    held: Sequence[tuple[str, str, Sent]]
    results: Mapping[str, dict[tuple[Pair, Row], int]]


@dataclass(slots=True)
class Queue:
    """Numbers of one queue: the last that was given, the last that was put there, and how many rows were lost."""

    given: int = 0
    put: int = 0
    dropped: int = 0


class DeviceStore(Protocol):
    """Where a device keeps things."""

    def step(self) -> AbstractContextManager[None]: ...

    def read(self) -> Kept: ...

    def keep_document(self, body: bytes) -> None: ...

    def keep_queue(self, name: str, queue: Queue) -> None: ...

    # Rows of streams, its own and others'

    def hold(self, stream: str, device: str, sent: Sequence[Sent], only_these: bool) -> None:
        """`only_these`: one row, in place of the one that was held like this before."""

    def forget(self, stream: str, device: str) -> None: ...

    def forget_older(self, stream: str, up_to_ms: int) -> None:
        """Rows of a stream of any device that are from then or before, but the newest: it says that there were some."""

    # Results

    def keep_result(self, template: str, pair: Pair, row: Row, count: int) -> None: ...

    # What waits to be sent

    @property
    def waiting_bytes(self) -> int: ...

    def put(self, queue: str, waiting: WaitingRow, alone: bool) -> None:
        """`alone`: whatever waited in the queue is not sent any more."""

    def waiting(self, queue: str, after: int, most: int) -> list[WaitingRow]: ...

    def drop(self, queue: str, up_to: int) -> None: ...

    def drop_oldest(self, queue: str, bytes_: int) -> int:
        """Drops so many bytes or a little more from the front; how many rows that were."""

    def replace(self, queue: str, waiting: Iterable[WaitingRow]) -> None: ...

    # Rows that came before it was known what they look like

    def put_early(self, stream: str, text: str, at_ms: int, most: int) -> int:
        """How many older ones were dropped for it."""

    def has_early(self) -> bool: ...

    def take_early(self) -> list[tuple[str, str, int]]: ...

    def close(self) -> None: ...
