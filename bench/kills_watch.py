"""Looks at the status of a project that is being killed: when it keeps all promises, and when it does not."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.beside import Beside

LOOK_EVERY_S = 0.25
OLD_AFTER_S = 3.0
"""A status that is older was written by nobody who lives, or by somebody who hangs."""
AROUND_S = 30.0
"""How long after a kill a promise may be broken because of it."""


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen at a time (seconds since 1970): why not all is well, None if it is; lags as shares of promises."""

    at: float
    wrong: str | None
    lags: dict[str, float]

    @property
    def late(self) -> list[str]:
        return [name for name, share in self.lags.items() if share > 1.0]


@dataclass(frozen=True, slots=True)
class Episode:
    """A contract that was late, from when on."""

    contract: str
    at: float


@dataclass
class Watch(Beside):
    status: Path
    looks: list[Look] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__("watch")

    def run(self) -> None:
        while not self.stopping.wait(LOOK_EVERY_S):
            self.looks.append(self.look())

    def write(self, file: Path) -> None:
        """Prints a line for each look, for people who want details."""
        file.write_text("".join(json.dumps(asdict(look)) + "\n" for look in self.looks))

    def look(self) -> Look:
        now = time.time()
        try:
            found = json.loads(self.status.read_bytes())
        except (OSError, ValueError):
            return Look(now, "there is no status", {})
        return judged(now, found)

    def wait_until_well(self, within_s: float) -> bool:
        until = time.monotonic() + within_s
        while time.monotonic() < until:
            if self.looks and self.looks[-1].wrong is None:
                return True
            time.sleep(LOOK_EVERY_S)
        return False

    def recovery_s(self, killed_at: float, until: float) -> float:
        """From a kill until all was well and stayed so; infinite if it was not before `until`."""
        seen = [look for look in self.looks if killed_at <= look.at < until]
        wrong = [look.at for look in seen if look.wrong is not None]
        if not seen or seen[-1].wrong is not None:
            return float("inf")
        return wrong[-1] + LOOK_EVERY_S - killed_at if wrong else 0.0

    def worst(self, killed_at: float, until: float) -> tuple[float, str]:
        """The largest lag, as a share of its promise, and whose it was."""
        shares = [
            (share, name) for look in self.looks if killed_at <= look.at < until for name, share in look.lags.items()
        ]
        return max(shares, default=(0.0, "nobody"))


def judged(now: float, status: dict[str, Any]) -> Look:
    """What a status document says; of one that is old, nothing but that."""
    service, contracts = status["service"], status["contracts"]
    if now - service["written"] > OLD_AFTER_S:
        return Look(now, "the service is gone", {})
    lags = {one["id"]: one["lag_s"] / one["freshness_s"] for one in contracts if one["lag_s"] is not None}
    if service["state"] != "running" or not contracts:
        return Look(now, f"the service is {service['state']}", lags)
    wrong = [f"{one['id']} is {one['state']}" for one in contracts if one["state"] != "kept"]
    return Look(now, ", ".join(wrong) or None, lags)


def episodes(looks: Iterable[Look]) -> Iterator[Episode]:
    """When contracts began to be late."""
    late: set[str] = set()
    for look in looks:
        if look.lags:
            yield from (Episode(name, look.at) for name in look.late if name not in late)
            late = set(look.late)


def elsewhere(found: Iterable[Episode], kills: list[float]) -> list[Episode]:
    """Episodes that no kill explains."""
    return [one for one in found if not any(0.0 <= one.at - at <= AROUND_S for at in kills)]
