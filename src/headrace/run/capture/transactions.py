"""From the messages of the log to transactions: who is open, which tables they mean, which parts were rolled back.

Small transactions come whole, when they are committed, in the order of their commits. Large ones come in parts while
they are open, mixed with others, each part inside a stream; their tables may look different to them than to others,
until they commit.
"""

from __future__ import annotations

from typing import Protocol

from headrace.run.capture.pgoutput import (
    Begin,
    CommitMessage,
    Message,
    Relation,
    RowChange,
    StreamAbort,
    StreamCommit,
    StreamStart,
    StreamStop,
    Truncate,
    decode,
)


class Receiver(Protocol):
    """Takes the transactions. What has `open_` as its name belongs to a transaction that may still be rolled back."""

    def begin(self, begin: Begin) -> None: ...
    def change(self, relation: Relation, change: RowChange) -> None: ...
    def truncate(self, relation: Relation) -> None: ...
    def message(self, message: Message) -> None: ...
    def commit(self, commit: CommitMessage) -> None: ...
    def open_change(self, xid: int, relation: Relation, change: RowChange) -> None: ...
    def open_truncate(self, xid: int, relation: Relation, part: int) -> None: ...
    def open_message(self, xid: int, message: Message) -> None: ...
    def open_pause(self, xid: int) -> None: ...
    def open_abort(self, xid: int, part: int) -> None: ...
    def open_commit(self, commit: StreamCommit) -> None: ...


class Transactions:
    """Reads messages in the order of the log. `inside` is whether a transaction that comes whole is not complete."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._relations: dict[int, Relation] = {}
        self._own_relations: dict[int, dict[int, Relation]] = {}
        self._stream: int | None = None
        self.inside = False

    def feed(self, data: bytes) -> None:
        message = decode(data, self._stream is not None)
        if isinstance(message, RowChange):
            self._take_change(message)
        elif isinstance(message, Relation):
            self._current_relations()[message.oid] = message
        elif isinstance(message, Truncate):
            self._truncate(message)
        elif isinstance(message, Message):
            if message.transactional and self._stream is None:
                self._receiver.message(message)
            elif message.transactional and self._stream is not None:
                self._receiver.open_message(self._stream, message)
        elif message is not None:
            self._boundary(message)

    def _current_relations(self) -> dict[int, Relation]:
        return self._relations if self._stream is None else self._own_relations.setdefault(self._stream, {})

    def _relation(self, oid: int) -> Relation:
        if self._stream is not None:
            own = self._own_relations.get(self._stream, {}).get(oid)
            if own is not None:
                return own
        return self._relations[oid]

    def _take_change(self, change: RowChange) -> None:
        if self._stream is None:
            self._receiver.change(self._relations[change.relation], change)
        else:
            self._receiver.open_change(self._stream, self._relation(change.relation), change)

    def _truncate(self, truncate: Truncate) -> None:
        for oid in truncate.relations:
            if self._stream is None:
                self._receiver.truncate(self._relations[oid])
            else:
                self._receiver.open_truncate(self._stream, self._relation(oid), truncate.xid)

    def _boundary(self, message: Begin | CommitMessage | StreamStart | StreamStop | StreamCommit | StreamAbort) -> None:
        match message:
            case Begin():
                self.inside = True
                self._receiver.begin(message)
            case CommitMessage():
                self.inside = False
                self._receiver.commit(message)
            case StreamStart():
                self._stream = message.xid
            case StreamStop():
                assert self._stream is not None
                self._receiver.open_pause(self._stream)
                self._stream = None
            case StreamCommit():
                self._relations.update(self._own_relations.pop(message.xid, {}))
                self._receiver.open_commit(message)
            case StreamAbort():
                if message.xid == message.part:
                    self._own_relations.pop(message.xid, None)
                self._receiver.open_abort(message.xid, message.part)
