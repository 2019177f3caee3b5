"""Events of feeds: pairs that change sides, and prices that are measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from headrace.model.amounts import format_seconds
from headrace.model.happening import Happening


@dataclass(frozen=True, slots=True)
class FeedHappening(Happening):
    """What events of feeds have in common."""

    feed: str

    @property
    def about(self) -> Mapping[str, tuple[str, ...]]:
        return {"feeds": (self.feed,)}


@dataclass(frozen=True, slots=True)
class PairsFlipped(FeedHappening):
    """Some pairs of a feed are stored ahead from now on, and others are read; `pairs` there are in all, of which
    `ahead` are stored ahead now. Rates are sums over all producers and all consumers, `latency_s` that of the target
    that is missed by most.
    """

    name: ClassVar[str] = "pairs flipped"
    started: int
    ended: int
    pairs: int
    ahead: int
    events_per_s: float
    reads_per_s: float
    latency_s: float
    lag_s: float
    shed: int = 0

    @property
    def text(self) -> str:
        moved = f"{self.started:,} more stored ahead, {self.ended:,} back on read"
        return f'feed "{self.feed}": {moved}; {self.ahead:,} of {self.pairs:,} pairs are stored ahead now'


@dataclass(frozen=True, slots=True)
class FeedCalibrated(FeedHappening):
    """Prices were measured: seconds of a core, with the errors of H and L."""

    name: ClassVar[str] = "calibrated"
    entry_s: float
    entry_error_s: float
    pull_s: float
    pull_error_s: float
    took_s: float

    @property
    def text(self) -> str:
        said = f"{format_seconds(self.entry_s)} to store an entry, {_say_pull(self.pull_s)}"
        return f'feed "{self.feed}" is calibrated: {said}'


@dataclass(frozen=True, slots=True)
class CalibrationFailed(FeedHappening):
    """The prices of before stay in use; it is tried again later."""

    name: ClassVar[str] = "calibration failed"
    is_warning: ClassVar[bool] = True

    @property
    def text(self) -> str:
        return f'the prices of feed "{self.feed}" could not be measured; those of before stay in use'


@dataclass(frozen=True, slots=True)
class StoreLeft(FeedHappening):
    """What a feed has in an earlier store is not dropped, and nobody looks after it any more."""

    name: ClassVar[str] = "store left"
    is_warning: ClassVar[bool] = True
    store: str
    address: str | None

    @property
    def text(self) -> str:
        where = "the project's own" if self.address is None else self.address
        return f'the earlier {self.store} store of feed "{self.feed}" in {where} is left as it is'


def _say_pull(seconds: float) -> str:
    way = "more" if seconds >= 0 else "less"
    return f"{format_seconds(abs(seconds))} {way} to fetch a producer than to find it stored ahead"
