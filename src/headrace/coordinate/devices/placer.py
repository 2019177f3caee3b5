"""Decides again and again where the pairs of templates run, from rows, rates and who is there; nothing acts here.

    rows of `per`, members     which pairs there are, and what their devices can hold
    hello, counts              who is there, and how often each stream has rows
    every period               what runs costs more than the best: once that has cost as much as moving, pairs move
                               (`plan/place/redeploy.py`). New pairs are placed at once, and with them others of
                               their devices, which are told something in any case
    handover                   says in which order: documents, answers, rows, documents

Pairs with a device that is away stay where they are, since nobody can take over what is not there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from headrace.coordinate.devices.presence import Presence
from headrace.model.cloud_messages import CountedMessages
from headrace.model.device_messages import CLOUD, Document, Hello
from headrace.observe.device_rates import DeviceRates
from headrace.plan.exact_numbers import Exact
from headrace.plan.place.demands import (
    PER,
    MovesTogether,
    StreamDemand,
    Traffic,
    count_traffic,
    price_traffic,
    split_moves,
    weigh_demands,
    weigh_streams,
)
from headrace.plan.place.device_documents import DocumentTerms, Every
from headrace.plan.place.explain_running import RunningPair, round_measured
from headrace.plan.place.group import GroupPlacement
from headrace.plan.place.handover import Dropped, Handover, TemplatePair
from headrace.plan.place.instance import Device
from headrace.plan.place.redeploy import PlacementPart, Redeployment, after_period

MOVED = 1.2
"""A rate has changed when it is by this factor more or less than it was when it was last decided."""
DOCUMENTS_PER_HOST = 2
"""Of moves. A host is told to run a pair, and then to send no more; its partner sends as before."""
MANY_DOCUMENTS, MANY_ROWS = 5, 50
WITHOUT_PAIRS_S, WITHOUT_PARTNERS_S = 5.0, 60.0
"""How long a device is there before it is told that there is nothing to do: soon if no pair names it, and else only
when it is clear that its partners do not come. A device that runs shortly would end with what it is told, and would not
have sent its row to a partner that comes a little later.
"""
USUAL_DOCUMENT, USUAL_MESSAGE = 2_000.0, 60.0
"""Bytes, until some were sent."""


@dataclass(frozen=True, slots=True)
class Redeployed:
    """What a period showed of a group of devices, and what was decided: costs are per second, in the unit of prices.

    `loss` is what staying has cost those pairs that move now, or else all that would, and `moving` what moving them
    takes.
    """

    group: str
    cost_s: float
    best_s: float
    loss: float
    moving: float
    moves: int
    bound: float | None
    ratio: float | None


@dataclass(slots=True)
class _Group:
    placement: GroupPlacement
    used: dict[tuple[str, str], float] = field(default_factory=dict)
    """Rates of streams by device, as they were last decided with."""
    weights: dict[str, float] = field(default_factory=dict)
    """What a message of each stream costs, as it was last decided with, in messages of the narrowest."""
    measured: dict[str, float] = field(default_factory=dict)
    """Bytes of a message of each stream, of those that were seen."""
    redeployment: Redeployment = field(default_factory=Redeployment)
    decided_s: float | None = None


@dataclass(slots=True)
class Placer:
    """Times are seconds of one clock that nobody sets, but for those in `presence`."""

    terms: DocumentTerms
    presence: Presence = field(default_factory=Presence)
    rates: DeviceRates = field(default_factory=DeviceRates)
    handover: Handover = field(default_factory=Handover)
    document_bytes: float = USUAL_DOCUMENT
    message_bytes: float = USUAL_MESSAGE
    _groups: dict[str, _Group] = field(default_factory=dict)
    _new: set[TemplatePair] = field(default_factory=set)
    _waiting: set[TemplatePair] = field(default_factory=set)
    """Pairs that were new while a device of them was away: they are new again when it comes."""
    _of_device: dict[str, set[TemplatePair]] = field(default_factory=dict)
    _untold_s: dict[str, float] = field(default_factory=dict)
    """Devices that are there and were told nothing, and since when that is known."""

    # What there is

    def use_terms(self, terms: DocumentTerms, kinds: Mapping[str, Device]) -> list[TemplatePair]:
        """Goes over to another plan; `kinds` are prices by group. Pairs of templates that are gone, with rows."""
        gone = [pair for pair in self.handover.standing if pair.template not in terms.templates]
        with_rows = self.remove_pairs(gone)
        same_groups = {name for name, one in terms.groups.items() if self.terms.groups.get(name) == one}
        changed = {
            name
            for name, one in terms.templates.items()
            if self.terms.templates.get(name) != one or one.devices not in same_groups
        }
        self.terms = replace(terms, every=self.terms.every, group_of=self.terms.group_of)
        for name in [name for name in self._groups if name not in kinds]:
            del self._groups[name]
        for name, group in self._groups.items():
            group.used = {key: rate for key, rate in group.used.items() if key[1] in terms.groups[name].streams}
        for name, kind in kinds.items():
            if name not in self._groups or self._groups[name].placement.default != kind:
                self._groups[name] = _Group(GroupPlacement(kind))
                changed |= {one.name for one in terms.templates.values() if one.devices == name}
        again = [pair for pair in self.handover.standing if pair.template in changed]
        self._new.update(again)  # what they read may have changed, and so may what they cost
        self.handover.touch(again)
        return with_rows

    def resume_pairs(self, standing: Mapping[TemplatePair, str], every: Every) -> None:
        """Goes on with where pairs run as the ledger says; every device is told anew."""
        self.terms = replace(self.terms, every={**self.terms.every, **every})
        self.handover.resume(standing)
        self._note_pairs(standing)

    def add_pairs(self, pairs: Collection[TemplatePair], every: Every) -> None:
        """Pairs that are new; and what these and others ask for, where that is new."""
        self.terms = replace(self.terms, every={**self.terms.every, **every})
        self.handover.add(pairs)
        self._note_pairs(pairs)
        changed = [pair for pair in every if pair in self.handover.standing]
        self._new.update(changed)
        self.handover.touch(changed)

    def remove_pairs(self, pairs: Collection[TemplatePair]) -> list[TemplatePair]:
        """Pairs that are gone; those that may have a row of placement, which is to be deleted."""
        for name, group in self._groups.items():
            mine = [pair for pair in pairs if self.terms.templates[pair.template].devices == name]
            group.placement.change_pairs(removed=mine)
        for pair in pairs:
            self._new.discard(pair)
            self._waiting.discard(pair)
            for device in pair.ids:
                self._of_device.get(device, set()).discard(pair)
        gone = set(pairs)
        self.terms = replace(self.terms, every={one: own for one, own in self.terms.every.items() if one not in gone})
        return self.handover.remove(pairs)

    def lose_devices(self, devices: Collection[str]) -> list[TemplatePair]:
        """Devices that are gone for good take their pairs with them; those that may have a row of placement."""
        lost = frozenset(devices)
        pairs = sorted({pair for device in lost for pair in self.find_pairs(device)})
        for group in self._groups.values():
            group.placement.lose_devices(lost)
            group.used = {key: rate for key, rate in group.used.items() if key[0] not in lost}
            losses = {host: loss for host, loss in group.redeployment.losses.items() if host not in lost}
            group.redeployment = replace(group.redeployment, losses=losses)
        with_rows = self.remove_pairs(pairs)
        for device in lost:
            self.presence.forget(device)
            self.rates.forget(device)
            self.handover.forget_device(device)
        return with_rows

    def use_members(self, group: str, ids: frozenset[str]) -> None:
        """Who the devices of a group are, so that a document without duties has the streams of the right group."""
        others = {device: name for device, name in self.terms.group_of.items() if name != group}
        self.terms = replace(self.terms, group_of={**others, **dict.fromkeys(ids, group)})

    def use_capacities(self, group: str, kinds: Mapping[str, Device]) -> None:
        """What devices can hold, of those where that has changed."""
        if kinds:
            self._groups[group].placement.change_pairs(kinds=kinds)

    def hear(self, device: str, hello: Hello, now_s: float) -> bool:
        """Whether the device was away, or is new. One that says twice on one connection that it runs an earlier
        document than the last one has not got that: it is told again.
        """
        before, told = self.presence.seen.get(device), self.handover.told.get(device)
        if before is not None and before.hello is not None and told is not None:
            is_repeated = before.hello.connection == hello.connection
            if is_repeated and max(before.hello.plan, hello.plan) < told.plan:
                self.handover.forget_told(device)
        return self.presence.hear(device, hello, now_s)

    def find_pairs(self, device: str) -> frozenset[TemplatePair]:
        return frozenset(self._of_device.get(device, ()))

    def _note_pairs(self, pairs: Iterable[TemplatePair]) -> None:
        for pair in pairs:
            self._new.add(pair)
            for device in pair.ids:
                self._of_device.setdefault(device, set()).add(pair)

    # What is decided

    def decide(self, now_s: float, is_period: bool = True) -> list[Redeployed]:
        """Places new pairs; at the end of a period also moves others, if that pays. What is decided of each group."""
        came = {pair for pair in self._waiting if self._are_online(pair)}
        new = came | {pair for pair in self._new if self._can_be_decided(pair)}
        self._new -= new
        self._waiting -= came
        self._waiting |= {pair for pair in new if not self._are_online(pair)}
        told = []
        for name, group in self._groups.items():
            mine = {pair for pair in new if self.terms.templates[pair.template].devices == name}
            self._use_rates(name, group, mine)
            wanted = {pair: self._find_wanted(group, pair) for pair in group.placement.demands}
            at_once = {pair: wanted[pair] for pair in mine if pair in wanted} | self._find_urgent(group, wanted)
            self.handover.want(at_once | self._find_free(group, wanted, mine - self._waiting), now_s)
            if group.decided_s is None and wanted:
                group.decided_s = now_s
            if is_period:
                told.append(self._judge(name, group, wanted, now_s))
        return told

    def _can_be_decided(self, pair: TemplatePair) -> bool:
        """While a device has never been seen, nobody has to send anything for its pairs."""
        return all(self.presence.is_known(device) for device in pair.ids)

    def _are_online(self, pair: TemplatePair) -> bool:
        return all(self.presence.is_online(device) for device in pair.ids)

    def _use_rates(self, name: str, group: _Group, new: set[TemplatePair]) -> None:
        """Pairs that are new, and those of devices whose streams have other rates than before, are decided again."""
        touched = set(new)
        weights = weigh_streams(self._find_sizes(name, group))
        if any(self._has_moved(group.weights.get(stream, 0.0), weight) for stream, weight in weights.items()):
            group.weights = weights
            touched |= group.placement.demands.keys()
        for device, stream in list(group.used):
            if self._has_moved(group.used[device, stream], self.rates.find_rate(device, stream)):
                touched |= {pair for pair in self.find_pairs(device) if pair in group.placement.demands}
        for pair in touched:
            for device in pair.ids:
                for stream in self.terms.groups[name].streams:
                    group.used[device, stream] = self.rates.find_rate(device, stream)
        if touched:
            added = {pair: self._find_messages(group, pair) for pair in sorted(touched)}
            group.placement.change_pairs(added={pair: weigh_demands(one, group.weights) for pair, one in added.items()})

    def _find_messages(self, group: _Group, pair: TemplatePair) -> tuple[StreamDemand, ...]:
        """What the pair needs, by the rates that were last decided with."""
        return self.terms.find_demands(pair, lambda device, stream: group.used[device, stream])

    def _find_sizes(self, name: str, group: _Group) -> Mapping[str, float]:
        """Bytes of a message of each stream: as measured, or else as its columns say."""
        return {**self.terms.groups[name].sizes, **group.measured}

    @staticmethod
    def _has_moved(used: float, now: float) -> bool:
        return now > MOVED * used or used > MOVED * now

    def _find_wanted(self, group: _Group, pair: TemplatePair) -> str:
        """Where it costs least; where it is while a device is away; the cloud, if its device refuses the program."""
        if not self._are_online(pair):
            return self.handover.standing[pair]
        best = group.placement.place_of(pair)
        return CLOUD if (pair.template, best) in self.handover.refused else best

    def _find_urgent(self, group: _Group, wanted: Mapping[TemplatePair, str]) -> dict[TemplatePair, str]:
        """Pairs that cannot stay where they are, whatever that costs: refused, or more than a device can hold."""
        held: dict[str, list[TemplatePair]] = {}
        for pair in wanted:
            at = self.handover.standing[pair]
            if at != CLOUD:
                held.setdefault(at, []).append(pair)
        kinds, default = group.placement.kinds, group.placement.default
        found: dict[TemplatePair, str] = {}
        for device, pairs in held.items():
            capacity = kinds.get(device, default).capacity
            is_full = capacity is not None and len(pairs) > capacity
            found |= {one: wanted[one] for one in pairs if is_full or (one.template, device) in self.handover.refused}
        return {pair: to for pair, to in found.items() if to != self.handover.standing[pair]}

    def _find_free(
        self, group: _Group, wanted: Mapping[TemplatePair, str], new: set[TemplatePair]
    ) -> dict[TemplatePair, str]:
        """Pairs that move for nothing: all their hosts are told something now, since they are in new pairs.

        A service that starts sees its devices come one by one, and would keep to what was best for the first of them.
        """
        told = {device for pair in new for device in pair.ids}
        # All pairs of a host decide what it costs, so those of these devices are enough, however many there are.
        near = {pair: wanted[pair] for device in told for pair in self.find_pairs(device) if pair in wanted}
        parts = [part for part in self._split_moves(near) if part.hosts <= told]
        costs = self._price_both(group, near)
        gaining = (part for part in parts if sum(_find_gains(part, *costs).values()) > 0)
        return {pair: wanted[pair] for part in gaining for pair in part.pairs}

    def _split_moves(self, wanted: Mapping[TemplatePair, str]) -> list[MovesTogether]:
        """What would have to move, without what moves already, and whatever depends on that."""
        standing, moving = self.handover.standing, self.handover.moves
        parts = split_moves({pair: standing[pair] for pair in wanted}, wanted)
        return [part for part in parts if not any(pair in moving for pair in part.pairs)]

    def _price_both(
        self, group: _Group, wanted: Mapping[TemplatePair, str]
    ) -> tuple[Mapping[str, Exact], Mapping[str, Exact]]:
        """What each device costs in `PER` seconds, as pairs run and as they are wanted: right for devices all of whose
        pairs are among these.
        """
        placement = group.placement
        demands = {pair: placement.demands[pair] for pair in wanted}
        now, best = (
            price_traffic(count_traffic(demands, at), placement.default, placement.kinds)
            for at in (self.handover.standing, wanted)
        )
        return now, best

    def _judge(self, name: str, group: _Group, wanted: Mapping[TemplatePair, str], now_s: float) -> Redeployed:
        now, best = self._price_both(group, wanted)
        parts = self._split_moves(wanted)
        priced = [
            PlacementPart(
                {host: Fraction(gain) / PER for host, gain in _find_gains(part, now, best).items()},
                self._price_moving(name, part, wanted),
            )
            for part in parts
        ]
        length_s = Fraction(0) if group.decided_s is None else Fraction(round(1000 * (now_s - group.decided_s)), 1000)
        group.decided_s = now_s
        best_s = Fraction(sum(best.values(), start=Fraction(0))) / PER
        group.redeployment, judged = after_period(group.redeployment, length_s, best_s, priced)
        pairs = [pair for part, one in zip(parts, judged, strict=True) if one.moves for pair in part.pairs]
        told = [one for one in judged if one.moves] or [one for one in judged if one.part.gain > 0]
        state = group.redeployment
        self.handover.want({pair: wanted[pair] for pair in pairs}, now_s)
        return Redeployed(
            name,
            float(sum(now.values(), start=Fraction(0)) / PER),
            float(best_s),
            float(sum(one.loss for one in told)),
            float(sum(one.part.moving for one in told)),
            len(pairs),
            None if state.bound is None else float(state.bound),
            None if state.ratio is None else float(state.ratio),
        )

    def note_message_bytes(self, mean: float) -> None:
        self.message_bytes = mean

    def note_stream_bytes(self, name: str, stream: str, counted: CountedMessages) -> None:
        """What rows of a stream of a group took: few of them change what is known a little."""
        group, count = self._groups.get(name), max(counted.rows, counted.messages)
        if group is not None and count and stream in self.terms.groups[name].streams:
            mean, share = counted.bytes / count, count / (count + MANY_ROWS)
            before = group.measured.get(stream, self.terms.groups[name].sizes.get(stream, mean))
            group.measured[stream] = (1 - share) * before + share * mean

    def note_document_bytes(self, size: int, count: int) -> None:
        """What so many documents took. Of many the mean counts, few change what is known a little."""
        mean = size / count
        self.document_bytes = mean if count >= MANY_DOCUMENTS else 0.9 * self.document_bytes + 0.1 * mean

    def _price_moving(self, name: str, moves: MovesTogether, wanted: Mapping[TemplatePair, str]) -> Exact:
        """Documents and the latest rows of partners, as messages that would be as large."""
        sizes = self._find_sizes(name, self._groups[name])
        unit = min(sizes.values()) if len(sizes) > 1 else self.message_bytes
        programs = {(pair.template, wanted[pair]) for pair in moves.pairs if wanted[pair] != CLOUD}
        size = DOCUMENTS_PER_HOST * len(moves.hosts) * self.document_bytes + len(moves.pairs) * self.message_bytes
        size += sum(len(self.terms.templates[template].program) for template, _ in programs)
        return Fraction(round(size / max(1.0, unit))) * self._groups[name].placement.default.down

    # What is to be done

    def next_documents(self, now_s: float) -> dict[str, Document]:
        return self.handover.next_documents(self.terms.describe, now_s)

    def tell_unplaced(self, now_s: float) -> None:
        """Has members told that wait for a document and have no duties: without one a device does not know what its
        streams look like, and keeps rows and says hello for ever. To be called only when the rows of all pairs are
        known.
        """
        groups, told = self.terms.group_of, self.handover.told
        waiting = [one for one in groups if self.presence.is_online(one) and one not in told]
        self._untold_s = {device: self._untold_s.get(device, now_s) for device in waiting}
        for device, since_s in self._untold_s.items():
            if now_s - since_s >= (WITHOUT_PARTNERS_S if self.find_pairs(device) else WITHOUT_PAIRS_S):
                self.handover.tell(device)

    def drop_late(self, now_s: float) -> list[Dropped]:
        return self.handover.drop_late(now_s)

    # What is told

    def count_traffic(self, template: str) -> tuple[Traffic, Traffic]:
        """Messages of one template alone: as it runs, and if everything ran in the cloud."""
        group = self._groups.get(self.terms.templates[template].devices)
        if group is None:
            return Traffic({}, {}), Traffic({}, {})
        placed = (pair for pair in group.placement.demands if pair.template == template)
        mine = {pair: self._find_messages(group, pair) for pair in placed}
        return count_traffic(mine, self.handover.standing), count_traffic(mine, {})

    def describe_pair(self, pair: TemplatePair) -> RunningPair | None:
        """What decides where a pair runs, with rates as they are measured now; None if there is no such pair."""
        handover = self.handover
        if pair not in handover.standing:
            return None
        near = {one for device in pair.ids for one in self.find_pairs(device)}
        group = self._groups[self.terms.templates[pair.template].devices]
        placement = group.placement
        move = handover.moves.get(pair)
        return RunningPair(
            pair,
            {one: weigh_demands(self.terms.find_demands(one, self._find_rounded_rate), group.weights) for one in near},
            {one: handover.standing[one] for one in near},
            placement.default,
            placement.kinds,
            None if move is None else move.to,
            tuple(device for device in pair.ids if not self.presence.is_online(device)),
            {
                device: why
                for (name, device), why in handover.refused.items()
                if name == pair.template and device in pair.ids
            },
        )

    def _find_rounded_rate(self, device: str, stream: str) -> float:
        return round_measured(self.rates.find_rate(device, stream))


def _find_gains(part: MovesTogether, now: Mapping[str, Exact], best: Mapping[str, Exact]) -> dict[str, Exact]:
    """What each host of a part saves, from what devices cost now and at best."""
    return {host: now.get(host, 0) - best.get(host, 0) for host in sorted(part.hosts)}
