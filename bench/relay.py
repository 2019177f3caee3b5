"""A port that passes on to another one, slowly, late or not at all: a link for those who may not make networks.

Everything that one end sends arrives after a latency, and no faster than a rate; while the relay is cut, bytes wait and
nobody is told. Runs in a thread of its own.
"""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass, field
from types import TracebackType

CHUNK = 16384
LOOK_EVERY_S = 0.05
STARTED_WITHIN_S = 10.0


@dataclass(slots=True)
class Way:
    """One direction: `rate` is bytes/s, None if nothing limits it. `carried` are the bytes that have arrived."""

    latency_s: float = 0.0
    rate: float | None = None
    is_cut: bool = False
    carried: int = 0
    _free_at: float = 0.0

    def take(self, size: int, now: float) -> float:
        """When bytes that are sent now arrive, if nothing is cut."""
        self._free_at = max(self._free_at, now) + (size / self.rate if self.rate else 0.0)
        return self._free_at + self.latency_s


@dataclass
class Relay:
    """Listens on loopback at `port` (0 is any that is free) and passes on to `target`."""

    target: tuple[str, int]
    port: int = 0
    out: Way = field(default_factory=Way)
    """What goes to the target: requests."""
    back: Way = field(default_factory=Way)
    """What the target answers."""

    def __enter__(self) -> Relay:
        self._loop = asyncio.new_event_loop()
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
        self._thread.start()
        assert self._is_up.wait(STARTED_WITHIN_S), "the relay does not listen"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STARTED_WITHIN_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._pass_on, "127.0.0.1", self.port))
        self.port = server.sockets[0].getsockname()[1]
        self._is_up.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*asyncio.all_tasks(self._loop), return_exceptions=True))
        self._loop.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there_reader, there_writer = await asyncio.open_connection(*self.target)
        except OSError:
            writer.close()
            return
        ways = ((reader, there_writer, self.out), (there_reader, writer, self.back))
        try:
            await asyncio.gather(*(self._carry(*way) for way in ways))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            there_writer.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way) -> None:
        arriving: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(64)
        sending = asyncio.create_task(self._deliver(arriving, writer, way))
        try:
            while data := await reader.read(CHUNK):
                await arriving.put((way.take(len(data), time.monotonic()), data))
            await arriving.put((0.0, b""))
            await sending
        finally:
            sending.cancel()

    async def _deliver(
        self, arriving: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter, way: Way
    ) -> None:
        while True:
            at, data = await arriving.get()
            await asyncio.sleep(max(0.0, at - time.monotonic()))
            while way.is_cut:
                await asyncio.sleep(LOOK_EVERY_S)
            if not data:
                writer.write_eof()
                return
            way.carried += len(data)  # first: who has got them may look at once
            writer.write(data)
            await writer.drain()
