"""The cloud as one device sees it, in memory: it takes no number twice, and acknowledges what it has.

An acknowledgement covers all numbers before it, so where messages may have been lost (`lose`), the cloud takes nothing
after a gap of a kept stream until the device begins anew with the oldest that it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.model.device_messages import (
    CLOUD,
    Document,
    Hello,
    Run,
    SendStream,
    Sent,
    StreamShape,
    Taken,
    TakeStream,
    Took,
    down_topic,
    read_hello,
    read_reported,
    read_sent,
    read_took,
    read_topic,
    sign,
    write_acks,
    write_document,
    write_taken,
)
from headrace.model.relation import Relation
from headrace.model.wire import write_wire
from headrace.run.device.agent import Agent, Identity, OutMessage
from tests.run.device.lifted import LOCATION

TOKEN = "hrd_1_secret"
ME = Identity("1", "town", TOKEN)
SHAPES = {"location": StreamShape(LOCATION), "visits": StreamShape(LOCATION, keep_s=3600.0)}
PARTNERS = ("2", "3")


def make_document(
    plan: int,
    programs: Mapping[str, Relation],
    send: Mapping[str, float] | None = None,
    partners: tuple[str, ...] = PARTNERS,
    **fields: Any,
) -> bytes:
    """A signed document: templates are called as their programs."""
    runs = tuple(Run(name, name, "a", partners, True) for name in programs)
    take = tuple(TakeStream(stream, partner, 0.0) for partner in partners for stream in SHAPES)
    told = Document(
        plan,
        {name: write_wire(program, "test") for name, program in programs.items()},
        runs,
        tuple(SendStream(stream, every_s) for stream, every_s in (send or {}).items()),
        (*take, TakeStream("offers", CLOUD, 0.0)),
        SHAPES,
    )
    return write_document(sign(replace(told, **fields), TOKEN))


def plan_topic() -> str:
    return down_topic("town", "1", "plan")


def rows_of(stream: str, device: str, *sent: Sent) -> tuple[str, bytes]:
    return down_topic("town", "1", "s"), write_taken([Taken(device, stream, one) for one in sent])


def no_rows_yet() -> tuple[str, bytes]:
    """What the cloud says of all partners of whom it has nothing."""
    nothing = [Taken(partner, stream, Sent(0, 0, ())) for partner in PARTNERS for stream in SHAPES]
    return down_topic("town", "1", "s"), write_taken([*nothing, Taken(CLOUD, "offers", Sent(0, 0, ()))])


@dataclass
class Cloud:
    """What the cloud has of one device."""

    last: dict[str, int] = field(default_factory=dict)
    streams: dict[str, list[Sent]] = field(default_factory=dict)
    results: dict[tuple[Any, ...], int] = field(default_factory=dict)
    hellos: list[Hello] = field(default_factory=list)
    tooks: list[Took] = field(default_factory=list)
    messages: int = 0
    knows_losses: bool = True
    _is_unsure: bool = False
    _after_gap: dict[str, int] = field(default_factory=dict)

    def lose(self) -> None:
        """Messages that were on their way did not come."""
        self._is_unsure = True

    def _follows(self, queue: str, first: int) -> bool:
        held = self._after_gap.get(queue)
        if first <= self.last.get(queue, 0) + 1 or (held is not None and first <= held):
            self._after_gap.pop(queue, None)
            return True
        if not self._is_unsure:
            return True
        self._after_gap.setdefault(queue, first)
        return False

    def receive(self, message: OutMessage) -> None:
        rest = read_topic(message[0]).rest
        self.messages += 1
        match rest:
            case ("hello",):
                self.hellos.append(read_hello(message[1]))
                if self.hellos[-1].plan == 0 and self.knows_losses:
                    self.last.clear()
                    self.results.clear()
            case ("took",):
                self.tooks.append(read_took(message[1]))
            case ("s", stream):
                rows = read_sent(message[1])
                if SHAPES.get(stream, SHAPES["location"]).keep_s and not self._follows(stream, rows[0].seq):
                    return
                for sent in rows:
                    if sent.seq > self.last.get(stream, 0):
                        self.last[stream] = sent.seq
                        self.streams.setdefault(stream, []).append(sent)
            case ("r", template):
                changes = read_reported(message[1])
                if not self._follows(f"r/{template}", changes[0].seq):
                    return
                for one in changes:
                    if one.seq > self.last.get(f"r/{template}", 0):
                        self.last[f"r/{template}"] = one.seq
                        key = (template, one.pair, one.copy, one.row)
                        self.results[key] = int(one.weight > 0)  # as rows with a key are written
            case _:
                raise AssertionError(rest)

    def acks(self) -> OutMessage:
        return down_topic("town", "1", "ack"), write_acks(self.last)

    def there(self) -> dict[tuple[Any, ...], int]:
        return {key: weight for key, weight in self.results.items() if weight}


def exchange(agent: Agent, cloud: Cloud, now_ms: int) -> None:
    """All messages of the device, and all acknowledgements, until nobody has anything to say."""
    for _ in range(100):
        found = agent.outgoing(now_ms)
        if not found:
            return
        for message in found:
            cloud.receive(message)
        agent.receive(*cloud.acks(), now_ms)
    raise AssertionError("it does not end")
