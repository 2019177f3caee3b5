"""Reads the log of a NATS server as it grows: what it refused to whom, and whether it took a new configuration.

A broker acknowledges what it refuses, since MQTT 3.1.1 has no way to say no; only its log tells.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

MOST_AT_ONCE = 1 << 20
"""Bytes that are read at a time: a log may grow faster than anybody reads it."""


class Violation(StrEnum):
    """What the broker refuses."""

    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"
    SIGN_IN = "sign in"


@dataclass(frozen=True, slots=True)
class BrokerRefusal:
    """`client` is the MQTT client id of whoever tried, which only a device with its token can have (`client_id_of`);
    of somebody who may not sign in it is whatever they say.
    """

    what: Violation
    client: str


_CLIENT = r'mid:\d+ - "(?P<client>.*?)" - '
_REFUSALS = {
    Violation.PUBLISH: re.compile(_CLIENT + "Publish Violation"),
    Violation.SUBSCRIBE: re.compile(_CLIENT + "Subscription Violation"),
    Violation.SIGN_IN: re.compile(_CLIENT + "authentication error"),
}


def read_refusal(line: str) -> BrokerRefusal | None:
    if "[ERR]" not in line:
        return None
    for what, pattern in _REFUSALS.items():
        found = pattern.search(line)
        if found is not None:
            return BrokerRefusal(what, found["client"])
    return None


class GrowingLog:
    """Lines that are added to a log from now on (or from its beginning), also after it was renamed and begun anew."""

    def __init__(self, file: Path, from_start: bool = False) -> None:
        self._file = file
        self._opened = self._open()
        self._rest = b""
        if self._opened is not None and not from_start:
            self._opened.seek(0, os.SEEK_END)

    def lines(self) -> Iterator[str]:
        """Whole lines since the last call."""
        yield from self._read()
        if self._is_replaced():
            yield from self._read()  # what came before it was renamed
            self.close()
            self._opened = self._open()
            yield from self._read()

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
        self._opened, self._rest = None, b""

    def _open(self) -> BinaryIO | None:
        try:
            return self._file.open("rb")
        except FileNotFoundError:
            return None

    def _read(self) -> Iterator[str]:
        while self._opened is not None and (some := self._opened.read(MOST_AT_ONCE)):
            *whole, self._rest = (self._rest + some).split(b"\n")
            yield from (line.decode(errors="replace") for line in whole)

    def _is_replaced(self) -> bool:
        try:
            found = self._file.stat()
        except FileNotFoundError:
            return False
        if self._opened is None:
            return True
        ours = os.fstat(self._opened.fileno())
        return (found.st_ino, found.st_dev) != (ours.st_ino, ours.st_dev) or found.st_size < self._opened.tell()
