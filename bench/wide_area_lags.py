"""Did anybody who stayed break a promise because others came or went? Lags are read every second, from the status."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class LagSample:
    """Of each contract whose lag was known at a time: how many times its promise the lag was."""

    at: float
    of_promise: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Turn:
    """A time during which queries came or went, and those that stayed."""

    began: float
    ended: float
    stayed: frozenset[str]


def find_interrupted(samples: Sequence[LagSample], turns: Sequence[Turn]) -> tuple[str, ...]:
    """Those that kept their promise when a turn began, and broke it before the turn was over."""
    found = set[str]()
    for turn in turns:
        before = [one for one in samples if one.at <= turn.began]
        kept = {name for name, lag in before[-1].of_promise.items() if lag <= 1.0} if before else set[str]()
        for sample in samples:
            if turn.began < sample.at <= turn.ended:
                found |= {name for name in kept & turn.stayed if sample.of_promise.get(name, 0.0) > 1.0}
    return tuple(sorted(found))


@dataclass
class LagWatch:
    """Reads lags in a thread of its own while it is open. `contracts` answers what the status says of each."""

    contracts: Callable[[], Mapping[str, Mapping[str, Any]]]
    samples: list[LagSample] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _failure: Exception | None = None

    def __enter__(self) -> LagWatch:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        assert self._thread is not None
        self._thread.join()
        if self._failure is not None:
            raise self._failure  # nobody looked from then on: that nobody was seen to be late says nothing

    def _watch(self) -> None:
        try:
            self._read_until_stopped()
        except Exception as error:
            self._failure = error

    def _read_until_stopped(self) -> None:
        while not self._stop.wait(EVERY_S):
            known = self.contracts()
            lags = {
                name: one["lag_s"] / one["freshness_s"] for name, one in known.items() if one.get("lag_s") is not None
            }
            self.samples.append(LagSample(time.monotonic(), lags))
