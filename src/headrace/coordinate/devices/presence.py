"""Which devices are there, and since when each has been there or away.

Kept in a small file, so that a device's absence is told also if the service was restarted meanwhile. A device is
forgotten only after an absence that one service has seen from its beginning to its end: nobody can connect while none
runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.model.device_messages import Hello


@dataclass(frozen=True, slots=True)
class SeenDevice:
    """`since_s` (since 1970) is when it came, or when it went away. `hello` is what it said last."""

    is_online: bool
    since_s: float
    hello: Hello | None = None


@dataclass(slots=True)
class Presence:
    """Devices that were ever seen, unless they were forgotten."""

    seen: dict[str, SeenDevice] = field(default_factory=dict)
    began_s: float | None = None
    """When this service could be reached first (since 1970): before that, nobody can say who was away."""

    def hear(self, device: str, hello: Hello, now_s: float) -> bool:
        """Whether it was away, or is new."""
        before = self.seen.get(device)
        came = before is None or not before.is_online
        since_s = now_s if before is None or came else before.since_s
        self.seen[device] = SeenDevice(True, since_s, hello)
        return came

    def leave(self, device: str, now_s: float) -> None:
        before = self.seen.get(device)
        if before is not None and before.is_online:
            self.seen[device] = replace(before, is_online=False, since_s=now_s)

    def is_online(self, device: str) -> bool:
        return device in self.seen and self.seen[device].is_online

    def is_known(self, device: str) -> bool:
        return device in self.seen

    def find_absent(self, for_s: float, now_s: float) -> list[str]:
        """Devices that have been away for so long, with this service there to see them all the time."""
        if self.began_s is None or now_s - self.began_s < for_s:
            return []
        return sorted(device for device, one in self.seen.items() if not one.is_online and now_s - one.since_s >= for_s)

    def begin(self, now_s: float) -> None:
        """Devices can connect from now on."""
        if self.began_s is None:
            self.began_s = now_s

    def forget(self, device: str) -> None:
        self.seen.pop(device, None)

    def to_json(self) -> dict[str, Any]:
        return {device: [one.is_online, one.since_s] for device, one in sorted(self.seen.items())}

    @staticmethod
    def from_json(found: Mapping[str, Any], ended_s: float) -> Presence:
        """Whoever was there when an earlier service ended has been away since, as far as anybody knows."""
        return Presence(
            {
                str(device): SeenDevice(False, ended_s if is_online else float(since_s))
                for device, (is_online, since_s) in found.items()
            }
        )
