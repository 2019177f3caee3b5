"""A port at which somebody listens before there is anybody who answers: whoever asks first is waited for."""

from __future__ import annotations

import select
import socket
from contextlib import suppress

from headrace.model.errors import UsageError

LOOPBACK = "127.0.0.1"
WAITING = 64
"""Questions that may wait until the first is answered."""


class ListeningPort:
    """Listens on this machine only, from the start. Port 0 is any that is free. Raises UsageError if it is taken."""

    def __init__(self, port: int) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self.socket.bind((LOOPBACK, port))
            self.socket.listen(WAITING)
        except (OSError, OverflowError) as error:
            self.socket.close()
            what = f"port {port} of this machine is in use"
            raise UsageError(what, "choose another with --port, or leave --port out") from error
        self._end, self._told = socket.socketpair()

    @property
    def port(self) -> int:
        found: int = self.socket.getsockname()[1]
        return found

    def wait_for_question(self) -> bool:
        """Whether somebody asks, which may take for ever. False once the port is to be closed."""
        looking = select.poll()
        for one in (self.socket, self._told):
            looking.register(one, select.POLLIN)
        return all(number != self._told.fileno() for number, _ in looking.poll())

    def end_waiting(self) -> None:
        with suppress(OSError):
            self._end.send(b"0")

    def close(self) -> None:
        for one in (self.socket, self._end, self._told):
            one.close()
