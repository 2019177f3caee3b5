"""How pairs move between devices and the cloud while results are read: the new place is ready before the old one ends.

    sending      devices whose streams the new place reads are told to send them, and say that they do
    hosting      a device that is to run the pair is told so, gets what it reads, and says that it runs it
    ready        the row of `TEMPLATE/placement` is to be written. Apps read by that row, so it alone is the switch
    committing   the row is written, and not captured yet
    (done)       devices are told to end what nobody reads any more

Nothing is switched to a device that has not said that it runs the pair, and no device ends what apps may still read. A
device that says nothing in time keeps things as they are: its move is dropped. Documents say all that a device is to
do, so losing one, or this state, loses nothing: what stands is in the ledger, and newer documents have larger numbers.
(RACE, section 4.5, deploys in one step; results would be missing or there twice meanwhile.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from headrace.model.device_messages import CLOUD, Document

ANSWER_WITHIN_S = 30.0
MOST_LOST, LARGEST_NUMBER = 1_000_000, 1 << 53
"""Documents that may have been made after the copy that this state was restored from, and ever."""


class TemplatePair(NamedTuple):
    """A row of a template's `per` table: the devices of its sides. A template of one side has one."""

    template: str
    ids: tuple[str, ...]


class MoveStage(StrEnum):
    SENDING = "sending"
    HOSTING = "hosting"
    READY = "ready"
    COMMITTING = "committing"


@dataclass(slots=True)
class Move:
    """A pair on its way. `waits_for` are the documents that have to be taken first, by device; None before these are
    made. Nobody has to keep up what a pair that `is_new` did before.
    """

    to: str
    is_new: bool
    until_s: float
    stage: MoveStage = MoveStage.SENDING
    waits_for: Mapping[str, int] | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for devices, and may still be dropped."""
        return self.stage in (MoveStage.SENDING, MoveStage.HOSTING)


@dataclass(frozen=True, slots=True)
class Duties:
    """Pairs that a device runs, and pairs that run elsewhere and read its streams; both in order."""

    run: tuple[TemplatePair, ...]
    send: tuple[TemplatePair, ...]


Describe = Callable[[str, Duties], Document]
"""The document of a device with some duties, without number and MAC."""


@dataclass(frozen=True, slots=True)
class Dropped:
    pair: TemplatePair
    to: str
    silent: tuple[str, ...]
    """Devices that did not answer."""


@dataclass(slots=True)
class Handover:
    """What stands and what moves. No clock, no broker: the caller publishes documents and writes rows.

    `number` is that of the last document.
    """

    number: int = 0
    standing: dict[TemplatePair, str] = field(default_factory=dict)
    moves: dict[TemplatePair, Move] = field(default_factory=dict)
    told: dict[str, Document] = field(default_factory=dict)
    took: dict[str, int] = field(default_factory=dict)
    refused: dict[tuple[str, str], str] = field(default_factory=dict)
    """Why a template does not run on a device, by both."""
    _undecided: set[TemplatePair] = field(default_factory=set)
    _of_device: dict[str, set[TemplatePair]] = field(default_factory=dict)
    _touched: set[str] = field(default_factory=set)

    def begin_after(self, number: int) -> None:
        """Documents have higher numbers than this one, which some device may have seen."""
        self.number = max(self.number, number)

    def begin_after_told(self, number: int) -> bool:
        """Goes on after a number that a device tells, since this state may be of an earlier copy of the project. False
        if nobody can have made so many documents: one device must not use up the numbers of all.
        """
        if number > min(self.number + MOST_LOST, LARGEST_NUMBER):
            return False
        self.begin_after(number)
        return True

    # Pairs that there are

    def resume(self, standing: Mapping[TemplatePair, str]) -> None:
        """Goes on with what the ledger says. All devices are told anew what they are to do."""
        for pair, at in standing.items():
            self.standing[pair] = at
            self._index(pair)
            self._touch(pair)

    def add(self, pairs: Iterable[TemplatePair]) -> None:
        """Pairs that are new. They are the cloud's, and nobody sends anything for them until it is decided where they
        run.
        """
        for pair in pairs:
            if pair not in self.standing:
                self.standing[pair] = CLOUD
                self._undecided.add(pair)
                self._index(pair)

    def remove(self, pairs: Iterable[TemplatePair]) -> list[TemplatePair]:
        """Pairs that are no longer there. Those whose placement is, or may be, a row that is to be deleted."""
        with_rows = []
        for pair in pairs:
            at, move = self.standing.pop(pair, CLOUD), self.moves.pop(pair, None)
            if at != CLOUD or (move is not None and move.stage is MoveStage.COMMITTING):
                with_rows.append(pair)
            self._undecided.discard(pair)
            self._touch(pair)
            for device in pair.ids:
                self._of_device.get(device, set()).discard(pair)
        return with_rows

    def touch(self, pairs: Iterable[TemplatePair]) -> None:
        """What documents say of these pairs may have changed."""
        for pair in pairs:
            self._touch(pair)

    # Where they are to run

    def want(self, placement: Mapping[TemplatePair, str], now_s: float) -> list[TemplatePair]:
        """Begins moves to where pairs are wanted; which ones. A pair that is being switched stays what it becomes."""
        begun = []
        for pair, to in placement.items():
            at, move = self.standing.get(pair), self.moves.get(pair)
            if at is None or (move is not None and (not move.is_waiting or move.to == to)):
                continue
            self.moves.pop(pair, None)
            is_new = pair in self._undecided
            self._undecided.discard(pair)
            if at != to:
                self.moves[pair] = Move(to, is_new, now_s + ANSWER_WITHIN_S)
                begun.append(pair)
            if at != to or is_new or move is not None:
                self._touch(pair)
        return begun

    def drop_late(self, now_s: float) -> list[Dropped]:
        """Drops moves that nobody answered in time."""
        late = [pair for pair, move in self.moves.items() if move.is_waiting and move.until_s <= now_s]
        return [self._drop(pair) for pair in late]

    def _drop(self, pair: TemplatePair) -> Dropped:
        move = self.moves.pop(pair)
        self._touch(pair)
        silent = (device for device, plan in (move.waits_for or {}).items() if self.took.get(device, 0) < plan)
        return Dropped(pair, move.to, tuple(sorted(silent)))

    # Documents

    def next_documents(self, describe: Describe, now_s: float) -> dict[str, Document]:
        """Documents that are to be published now, by device: only of devices whose duties have changed."""
        made: dict[str, Document] = {}
        while self._touched:
            for device in sorted(self._touched):
                wanted, before = describe(device, self.find_duties(device)), self.told.get(device)
                if before is None or replace(before, plan=0) != wanted:
                    self.number += 1
                    made[device] = self.told[device] = replace(wanted, plan=self.number)
            near = {pair for device in self._touched for pair in self._of_device.get(device, ())}
            self._touched.clear()
            self._advance(near, now_s)
        return made

    def tell(self, device: str) -> None:
        """Has a device told what it is to do, even if that is nothing."""
        self._touched.add(device)

    def forget_device(self, device: str) -> None:
        """The device is gone for good: should it come back, it is told everything anew."""
        self.told.pop(device, None)
        self.took.pop(device, None)
        self._touched.discard(device)
        self._note_refused(device, {})

    def forget_told(self, device: str) -> None:
        """What a device was told counts no more, since it cannot believe it: it is told again."""
        if self.told.pop(device, None) is not None:
            self._touched.add(device)

    def find_duties(self, device: str) -> Duties:
        run, send = [], []
        for pair in sorted(self._of_device.get(device, ())):
            places = set(self._find_places(pair))
            if device in places and not self._waits_for_senders(pair, device):
                run.append(pair)
            if places - {device}:
                send.append(pair)
        return Duties(tuple(run), tuple(send))

    def _find_places(self, pair: TemplatePair) -> Iterator[str]:
        """Where a pair runs, and where it is to run."""
        move = self.moves.get(pair)
        if pair not in self._undecided and (move is None or not move.is_new):
            yield self.standing[pair]
        if move is not None:
            yield move.to

    def _waits_for_senders(self, pair: TemplatePair, device: str) -> bool:
        """A new host is told only when the others send: it then gets the newest of what it reads at once."""
        move = self.moves.get(pair)
        return move is not None and move.to == device and move.stage is MoveStage.SENDING

    def _find_senders(self, pair: TemplatePair, to: str) -> list[str]:
        return sorted(set(pair.ids) - {to})

    # Answers

    def hear(self, device: str, plan: int, refused: Mapping[str, str], now_s: float) -> list[TemplatePair]:
        """A device has taken a document, and all that it sent before that is captured; `refused` says why templates do
        not run there. Pairs whose moves failed by that.
        """
        if plan < self.took.get(device, 0):
            return []  # a later answer came first
        self.took[device] = plan
        self._note_refused(device, refused)
        mine = self._of_device.get(device, set())
        failed = [
            pair
            for pair in sorted(mine)
            if pair.template in refused
            and (move := self.moves.get(pair)) is not None
            and move.is_waiting
            and move.to == device
        ]
        for pair in failed:
            self._drop(pair)
        self._advance(mine, now_s)
        return failed

    def _note_refused(self, device: str, refused: Mapping[str, str]) -> None:
        for key in [key for key in self.refused if key[1] == device and key[0] not in refused]:
            del self.refused[key]
        self.refused |= {(template, device): why for template, why in refused.items()}

    def _advance(self, pairs: Iterable[TemplatePair], now_s: float) -> None:
        for pair in pairs:
            move = self.moves.get(pair)
            if move is None or not move.is_waiting:
                continue
            if move.waits_for is None:
                asked = [move.to] if move.stage is MoveStage.HOSTING else self._find_senders(pair, move.to)
                if any(device in self._touched or device not in self.told for device in asked):
                    continue  # their documents are not made yet
                move.waits_for = {device: self.told[device].plan for device in asked}
            self._go_on(pair, move, now_s)

    def _go_on(self, pair: TemplatePair, move: Move, now_s: float) -> None:
        assert move.waits_for is not None
        if any(self.took.get(device, 0) < plan for device, plan in move.waits_for.items()):
            return
        if move.stage is MoveStage.HOSTING or move.to == CLOUD:
            move.stage = MoveStage.READY
            return
        move.stage, move.waits_for, move.until_s = MoveStage.HOSTING, None, now_s + ANSWER_WITHIN_S
        self._touched.add(move.to)

    # The switch

    def next_rows(self) -> dict[TemplatePair, str]:
        """Placements that are to be written now: a row, or for the cloud none any more. Tell when they are captured."""
        ready = {pair: move.to for pair, move in sorted(self.moves.items()) if move.stage is MoveStage.READY}
        for pair in ready:
            self.moves[pair].stage = MoveStage.COMMITTING
        return ready

    def commit(self, pairs: Iterable[TemplatePair]) -> None:
        """The rows of these pairs are captured: they are switched, and their devices end what is no longer read."""
        for pair in pairs:
            move = self.moves.get(pair)
            if move is not None and move.stage is MoveStage.COMMITTING:
                self.standing[pair] = move.to
                del self.moves[pair]
                self._touch(pair)

    def _index(self, pair: TemplatePair) -> None:
        for device in pair.ids:
            self._of_device.setdefault(device, set()).add(pair)

    def _touch(self, pair: TemplatePair) -> None:
        self._touched.update(pair.ids)
