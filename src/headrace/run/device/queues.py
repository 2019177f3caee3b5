"""The queues of a device: rows of its streams and changes of its results, numbered, until the cloud has kept them.

A queue of a stream is called as the stream is, one of results `r/TEMPLATE`: the names by which they are acknowledged.

Numbers of a queue begin at the time, in ms since 1970: so a device that lost its state goes on with higher ones than it
had before, which is all that the cloud and its partners go by. Should its clock have lost the time as well, the cloud
acknowledges a number that was never given: what waits then gets numbers after that one.

When what waits is larger than the buffer, the oldest rows of `keep` streams are dropped, lowest priority first. The
latest row of another stream is all that it has, and stays. Changes of results are never dropped, or the cloud would
have wrong ones: the last change of a row stands for those before.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headrace.model.device_messages import Reported, StreamShape, write_reported
from headrace.run.device.engine import Change
from headrace.run.device.sending import Sending
from headrace.run.device.store import DeviceStore, Queue, WaitingRow

RESULTS = "r/"
RESULTS_FIRST = 1 << 31
"""Results go ahead of rows: there are fewer of them, and somebody waits for them."""
ROOM = 0.1
"""Part of the buffer that is freed at once, so that not every row has to look for some."""
ALL = 1 << 40

Shapes = Mapping[str, StreamShape]


class QueueMessage(NamedTuple):
    """`topic` are the levels below the device."""

    topic: tuple[str, str]
    body: str


class Queues:
    """All queues of a device, over its store."""

    def __init__(self, store: DeviceStore, queues: Mapping[str, Queue]) -> None:
        self._store, self._sending = store, Sending()
        self._queues = dict(queues)
        self._changed: set[str] = set()

    @property
    def dropped(self) -> dict[str, int]:
        return {name: queue.dropped for name, queue in sorted(self._queues.items()) if queue.dropped}

    def keep(self) -> None:
        """Stores the numbers that have changed: once in a step, however many rows there were."""
        for name in sorted(self._changed):
            self._store.keep_queue(name, self._queues[name])
        self._changed.clear()

    # What is put there

    def number(self, name: str, now_ms: int) -> int:
        """The next number of a queue."""
        queue = self._queues.setdefault(name, Queue())
        queue.given = queue.given + 1 if queue.given else max(1, now_ms)
        self._changed.add(name)
        return queue.given

    def put(self, name: str, seq: int, body: bytes, now_ms: int, alone: bool = False) -> None:
        self._queues[name].put = seq
        self._changed.add(name)
        self._store.put(name, WaitingRow(seq, body.decode(), now_ms), alone)

    def report(self, changes: Iterable[Change], now_ms: int) -> None:
        for one in changes:
            name = RESULTS + one.template
            seq = self.number(name, now_ms)
            reported = Reported(seq, now_ms, one.pair, one.weight, one.copy, one.row)
            self.put(name, seq, write_reported((reported,))[1:-1], now_ms)

    def make_room(self, bytes_: int, shapes: Shapes, now_ms: int) -> list[str]:
        """Stays below a size; what was lost for that, in words."""
        if self._store.waiting_bytes <= bytes_:
            return []
        target, told = int(bytes_ * (1 - ROOM)), []
        streams = [name for name in self._queues if name in shapes and shapes[name].keep_s]
        for name in sorted(streams, key=lambda one: (_priority(one, shapes), one)):
            too_much = self._store.waiting_bytes - target
            lost = self._store.drop_oldest(name, too_much) if too_much > 0 else 0
            if lost:
                self._queues[name].dropped += lost
                self._changed.add(name)
                told.append(f'the buffer of {bytes_:,} bytes is full: the oldest {lost:,} rows of "{name}" are lost')
        if self._store.waiting_bytes > target:
            for name in [one for one in self._queues if one.startswith(RESULTS)]:
                self._cancel(name)
        return told

    def _cancel(self, name: str) -> None:
        """Leaves out changes of results that were followed by another of the same row.

        The last one stays even if it takes the others back: the cloud may have one of those already.
        """
        last: dict[str, WaitingRow] = {}
        for one in self._store.waiting(name, 0, ALL):
            _, _, pair, _, copy, row = json.loads(one.text)
            last[json.dumps([pair, copy, row])] = one
        self._store.replace(name, sorted(last.values()))

    # What is sent

    def choose(self, shapes: Shapes, now_ms: int) -> list[QueueMessage]:
        found = self._sending.choose(self.ends(), lambda name: _priority(name, shapes), self._store.waiting, now_ms)
        return [QueueMessage(_topic_of(one.queue), one.body) for one in found]

    def reconnect(self) -> None:
        self._sending.reconnect()

    def acknowledge(self, name: str, seq: int) -> None:
        queue = self._queues.get(name)
        if queue is None:
            return
        if seq > queue.given:
            self._number_after(name, queue, seq)
        else:
            self._store.drop(name, seq)
            self._sending.acknowledge(name, seq)

    def give_up(self, name: str) -> None:
        """What waits is not sent any more: nobody would take it."""
        if name in self._queues:
            self._store.drop(name, self._queues[name].given)
            self._sending.start_again(name)

    def ends(self) -> dict[str, int]:
        """The last numbers that were put in each queue."""
        return {name: queue.put for name, queue in self._queues.items()}

    def end(self, name: str) -> int:
        return self._queues[name].put if name in self._queues else 0

    def find_results(self, marks: Mapping[str, int]) -> dict[str, int]:
        """Those of these numbers that are of results which wait, by template. What does not wait is in the cloud."""
        results = ((name, seq) for name, seq in marks.items() if name.startswith(RESULTS))
        return {name.removeprefix(RESULTS): seq for name, seq in results if self._store.waiting(name, 0, 1)}

    def are_sent(self, marks: Mapping[str, int]) -> bool:
        """Whether everything up to these numbers was sent on this connection, or needs not be."""
        return all(self._sending.last.get(name, 0) >= seq for name, seq in marks.items())

    def _number_after(self, name: str, queue: Queue, seq: int) -> None:
        moved = []
        for number, one in enumerate(self._store.waiting(name, 0, ALL), seq + 1):
            text = json.dumps([number, *json.loads(one.text)[1:]], separators=(",", ":"))
            moved.append(WaitingRow(number, text, one.put_ms))
        self._store.replace(name, moved)
        queue.given = queue.put = seq + len(moved)
        self._changed.add(name)
        self._sending.start_again(name)


def _priority(name: str, shapes: Shapes) -> int:
    if name.startswith(RESULTS):
        return RESULTS_FIRST
    return shapes[name].priority if name in shapes else 0


def _topic_of(name: str) -> tuple[str, str]:
    return ("r", name.removeprefix(RESULTS)) if name.startswith(RESULTS) else ("s", name)
