"""How long to wait for an answer: as long as it takes to be made, and then as long as bytes of it keep coming.

A slow link may take minutes for what a quick one brings at once, so the time that a whole answer takes says nothing. A
link that brings no byte for a while is cut. Of a TLS record one gets all or nothing: the kernel knows what has arrived
of it.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headrace.connect.wire.tcp import read_tcp_info

STILL_WITHIN_S = 30.0
"""How long no byte may come while an answer is on its way."""
WHOLE_WITHIN_S = 3600.0
"""How long one answer may take in all."""
LOOK_EVERY_S = 0.5
LARGE = 4096
"""Answers of at least so many bytes hold up others on a slow link. What is smaller comes all the time, and says only
that the link is there.
"""


@dataclass(slots=True)
class LinkProgress:
    """When something of a large answer came last, over any connection to one other process."""

    clock: Callable[[], float] = time.monotonic
    heard_s: float = float("-inf")

    def note(self) -> None:
        self.heard_s = self.clock()


@dataclass(slots=True)
class AnswerPatience:
    """The wait for one answer, from now on. It begins within `within_s`; answers that come before it over the same
    link hold it up.
    """

    link: LinkProgress
    within_s: float
    whole_s: float = WHOLE_WITHIN_S
    _size: int | None = None
    """Bytes of the answer's body, once it has begun."""
    _received: int = 0
    """All that its connection has received."""
    _began_s: float = field(init=False)
    _until_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._began_s = self.link.clock()
        self._until_s = self._began_s + self.whole_s

    def begin_body(self, size: int, within_s: float) -> None:
        """The answer is made: from now on, bytes come within so many seconds of each other."""
        self._size, self.within_s, self._began_s = size, within_s, self.link.clock()

    def note(self) -> None:
        """Something has come."""
        if self._size is not None:
            self._began_s = self.link.clock()
            if self._size >= LARGE:
                self.link.note()

    def raise_if_over(self, connection: ssl.SSLSocket) -> None:
        """Raises TimeoutError if there is no reason to wait any longer."""
        known = read_tcp_info(connection)
        if known is not None and known.bytes_received > self._received:
            if self._received:
                self.note()
            self._received = known.bytes_received
        now = self.link.clock()
        if now >= self._until_s:
            raise TimeoutError(f"the answer did not come whole within {self.whole_s:.0f} s")
        if now - max(self._began_s, self.link.heard_s) >= self.within_s:
            what = "nothing came" if self._size is None else "nothing more of an answer came"
            raise TimeoutError(f"{what} for {self.within_s:.0f} s")


class PatientSocket(ssl.SSLSocket):
    """Waits for what comes as long as the question has patience; without one, for as long as its time limit says."""

    patience: AnswerPatience | None = None

    def recv_into(self, buffer: Any, nbytes: int | None = None, flags: int = 0) -> int:
        while True:
            try:
                received = super().recv_into(buffer, nbytes, flags)
            except TimeoutError:
                if self.patience is None:
                    raise
                self.patience.raise_if_over(self)
            else:
                if self.patience is not None:
                    self.patience.note()
                return received
