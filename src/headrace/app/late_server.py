"""Serves the process of a site over HTTP from the first question on: few are ever asked, and what answers takes memory.

Until then a thread waits at the port, and nothing else. Whoever asks first waits a second longer.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from headrace.app.running import Server
from headrace.connect.first_question import ListeningPort

__all__ = ["BeginToServe", "LateServer", "ListeningPort"]

log = logging.getLogger("headrace.service")

END_WITHIN_S = 10.0

BeginToServe = Callable[[ListeningPort], Server]


class LateServer:
    """Listens at once, and has somebody `begin` to serve when the first question comes, until it is stopped."""

    def __init__(self, port: int, begin: BeginToServe) -> None:
        self._listening, self._begin = ListeningPort(port), begin
        self.port = self._listening.port
        self._server: Server | None = None
        self._thread = threading.Thread(target=self._wait, name="http waits", daemon=True)
        self._thread.start()

    @property
    def is_asked(self) -> bool:
        """Whether somebody has asked yet."""
        return self._server is not None

    def _wait(self) -> None:
        if not self._listening.wait_for_question():
            return
        try:
            self._server = self._begin(self._listening)
        except Exception:
            log.exception("what answers over HTTP could not begin: whoever asks is refused from now on")
            self._listening.close()

    def stop(self) -> None:
        self._listening.end_waiting()
        self._thread.join(END_WITHIN_S)
        if self._server is not None:
            self._server.stop()
        self._listening.close()
