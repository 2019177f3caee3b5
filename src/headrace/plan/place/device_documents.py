"""What a device is to do as its document: programs, pairs, streams to send and streams to take.

A stream is sent, and taken, as often as the most demanding of the pairs that need it. The program of a template is
there once, however many pairs run. A derived stream is a program like that of a template, which runs on every device
with a pair that reads it. A document says all of this and nothing of before (`model/device_messages.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headrace.model.device_messages import CLOUD, Document, Run, SendStream, StreamShape, TakeStream
from headrace.plan.place.demands import StreamDemand, whole_rate
from headrace.plan.place.handover import Duties, TemplatePair

SIDES = ("a", "b")
EVERY_ROW = 0.0


@dataclass(frozen=True, slots=True)
class TemplateTerms:
    """What documents say of a template. `program` is its relation as text, known by its `fingerprint`.

    `streams` are those that its view reads, by side; `tables` are read by all pairs. `every` are seconds between two
    rows that a side asks for, where all pairs ask for the same.
    """

    name: str
    devices: str
    fingerprint: str
    program: str
    streams: Mapping[str, tuple[str, ...]]
    tables: tuple[str, ...] = ()
    every: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DerivedTerms:
    """What documents say of a stream that devices make of others: its program, and the tables that this reads."""

    fingerprint: str
    program: str
    tables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupTerms:
    """What documents say of a group of devices: what its streams are like, and how much may wait on a device. Streams
    that are `derived` are among them. `sizes` are bytes of a message of each stream, as its columns say.
    """

    streams: Mapping[str, StreamShape]
    buffer_bytes: int = 20_000_000
    derived: Mapping[str, DerivedTerms] = field(default_factory=dict)
    sizes: Mapping[str, float] = field(default_factory=dict)


RateOf = Callable[[str, str], float]
"""Rows per second of a stream of a device."""

Every = Mapping[TemplatePair, Mapping[str, float]]
"""Seconds between two rows that the sides of a pair ask for, where each pair says its own."""


@dataclass(frozen=True, slots=True)
class DocumentTerms:
    """What there is to say, of all templates and groups of devices, by name. `group_of` is the group of each device,
    as far as that is known.
    """

    templates: Mapping[str, TemplateTerms]
    groups: Mapping[str, GroupTerms]
    every: Every = field(default_factory=dict)
    group_of: Mapping[str, str] = field(default_factory=dict)

    def describe(self, device: str, duties: Duties) -> Document:
        """Its number and MAC are not there yet. Streams are there without duties, too: a device that does not know what
        they look like takes no rows, and cannot say how often it has some.
        """
        run = self._find_runs(device, duties)
        terms = [self.templates[one] for one in sorted({one.template for one in run})]
        derived = self._find_derived(device, duties)
        groups = [self.groups[name] for name in self._find_groups(device, duties)]
        return Document(
            0,
            {
                **{one.fingerprint: one.program for one in derived.values()},
                **{one.fingerprint: one.program for one in terms},
            },
            (*(Run(name, one.fingerprint, SIDES[0], (), report=False) for name, one in derived.items()), *run),
            self._find_sent(device, duties),
            self._find_taken(device, duties, derived),
            {name: shape for group in groups for name, shape in group.streams.items()},
            max((group.buffer_bytes for group in groups), default=20_000_000),
        )

    def _find_groups(self, device: str, duties: Duties) -> list[str]:
        about = {self.templates[pair.template].devices for pair in (*duties.run, *duties.send)}
        about |= {self.group_of[device]} & self.groups.keys() if device in self.group_of else set()
        return sorted(about or self.groups)

    def find_demands(self, pair: TemplatePair, rate: RateOf) -> tuple[StreamDemand, ...]:
        """The streams of its devices that a pair reads, and how often it needs a row of each."""
        terms = self.templates[pair.template]
        found: dict[tuple[str, str], int] = {}
        for side, device in zip(SIDES, pair.ids, strict=False):
            every_s = self._find_every(pair, side)
            for stream in terms.streams.get(side, ()):
                per_s = rate(device, stream)
                wanted = whole_rate(per_s if every_s <= 0.0 else min(per_s, 1.0 / every_s))
                found[device, stream] = max(wanted, found.get((device, stream), 0))
        return tuple(StreamDemand(device, stream, wanted) for (device, stream), wanted in found.items())

    def find_most_wanted(self, device: str, stream: str, pairs: tuple[TemplatePair, ...]) -> float:
        """The least seconds between two rows that any of these pairs asks for."""
        sides = ((pair, side) for pair in pairs for side, one in zip(SIDES, pair.ids, strict=False) if one == device)
        reading = (one for one in sides if stream in self.templates[one[0].template].streams.get(one[1], ()))
        return min((self._find_every(*one) for one in reading), default=EVERY_ROW)

    def _find_every(self, pair: TemplatePair, side: str) -> float:
        own = self.every.get(pair, {}).get(side)
        return self.templates[pair.template].every.get(side, EVERY_ROW) if own is None else own

    def _find_derived(self, device: str, duties: Duties) -> dict[str, DerivedTerms]:
        """Streams that the device makes of others, since a pair reads them: here, elsewhere or in the cloud."""
        found: dict[str, DerivedTerms] = {}
        for pair in (*duties.run, *duties.send):
            terms = self.templates[pair.template]
            derived = self.groups[terms.devices].derived
            for side, one in zip(SIDES, pair.ids, strict=False):
                if one == device:
                    found |= {name: derived[name] for name in terms.streams.get(side, ()) if name in derived}
        return dict(sorted(found.items()))

    def _find_runs(self, device: str, duties: Duties) -> tuple[Run, ...]:
        partners: dict[tuple[str, str], list[str]] = {}
        for pair in duties.run:
            side = SIDES[pair.ids.index(device)]
            others = pair.ids[:1] if side == "b" else pair.ids[1:]
            partners.setdefault((pair.template, side), []).extend(others)
        return tuple(
            Run(template, self.templates[template].fingerprint, side, tuple(sorted(found)), report=True)
            for (template, side), found in sorted(partners.items())
        )

    def _find_sent(self, device: str, duties: Duties) -> tuple[SendStream, ...]:
        sent: dict[str, float] = {}
        for pair in duties.send:
            for side, one in zip(SIDES, pair.ids, strict=False):
                if one == device:
                    self._ask(sent, self.templates[pair.template].streams.get(side, ()), self._find_every(pair, side))
        return tuple(SendStream(stream, every_s) for stream, every_s in sorted(sent.items()))

    def _find_taken(self, device: str, duties: Duties, derived: Mapping[str, DerivedTerms]) -> tuple[TakeStream, ...]:
        taken: dict[str, dict[str, float]] = {}
        for one in derived.values():
            self._ask(taken.setdefault(CLOUD, {}), one.tables, EVERY_ROW)
        for pair in duties.run:
            terms = self.templates[pair.template]
            self._ask(taken.setdefault(CLOUD, {}), terms.tables, EVERY_ROW)
            for side, other in zip(SIDES, pair.ids, strict=False):
                if other != device:
                    every_s = self._find_every(pair, side)
                    self._ask(taken.setdefault(other, {}), terms.streams.get(side, ()), every_s)
        return tuple(
            TakeStream(stream, other, every_s)
            for other, streams in sorted(taken.items())
            for stream, every_s in sorted(streams.items())
        )

    @staticmethod
    def _ask(found: dict[str, float], streams: tuple[str, ...], every_s: float) -> None:
        for stream in streams:
            found[stream] = min(every_s, found.get(stream, every_s))
