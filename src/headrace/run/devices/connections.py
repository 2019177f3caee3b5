"""Decides whether a device is there, from what it says when a connection begins and what its last will says at the end.

The two come by different ways and may come late, or again after the broker was killed: `gone` of an earlier connection
is no sign that the device is away, and a `hello` of one that has ended is none that it is there.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Connections:
    """Connections of each device that began and are not known to have ended, and the last that ended.

    A number ends those below it, since a device has one connection at a time. One that is lower than another came late,
    or is of a clock that was set back: nothing tells which, so both count. 0 is one that the device did not tell.
    """

    _open: dict[str, frozenset[int]] = field(default_factory=dict)
    _ended: dict[str, int] = field(default_factory=dict)

    def is_another(self, device: str, connection: int) -> bool:
        """Whether this connection is new here: whatever was sent on an earlier one may be lost."""
        return connection not in self._open.get(device, ())

    def begin(self, device: str, connection: int) -> bool:
        """Whether the device is there by this connection: False if that has ended already."""
        if connection and self._ended.get(device) == connection:
            return False
        later = {one for one in self._open.get(device, ()) if one > connection}
        self._open[device] = frozenset({connection, *later})
        return True

    def end(self, device: str, connection: int) -> bool:
        """Whether the device is away now: False if it has another connection."""
        self._ended[device] = connection
        left = self._open.get(device, frozenset()) - {connection, 0} if connection else frozenset[int]()
        self._open[device] = left
        return not left
