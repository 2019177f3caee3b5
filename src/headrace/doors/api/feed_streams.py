"""Streams of feeds: server-sent events for everything that changes on a consumer's pages.

    open      the time from which on changes are told
    entry     an entry that is new or was edited, as pages show it; it replaces one with its producer and id
    gone      producer, time and id of an entry that pages no longer show: deleted, or not among the newest any more
    reread    changes until now cannot be told: read a page, and go on from here
    end       why the stream ends

All streams of a feed are looked at together, in one request to its store. A stream whose client is slow to take what
was found is left out meanwhile, so that nothing piles up; and each waits in the event loop, without a thread.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from starlette.types import Receive, Send

from headrace.app.feed_serving import (
    FeedChanges,
    FeedDoor,
    StreamPlace,
    allow_open_files,
    read_micros,
    tell_micros,
)
from headrace.model.errors import ConnectError, UnknownName

log = logging.getLogger("headrace.http")

LOOK_EVERY_S = 0.5
KEEP_ALIVE_S = 10.0
"""An event without data tells the client how far it is, well within the time for which changes are kept."""
TAKE_WITHIN_S = 30.0
"""A client that takes nothing for so long is gone."""
MOST_STREAMS = 1000
OTHER_FILES = 500
"""Files and connections that a process has open besides streams, at most: pages, stores, logs."""
AT_ONCE = 250
"""Streams that are looked at in one request."""
NOW = StreamPlace(2**62)
FAILED = "the server failed"
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]

Run = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs something in a thread."""


class StreamEnds(Exception):
    """A stream is over, for a reason that its client is told."""


@dataclass(eq=False, slots=True)
class FeedStream:
    """`found` is set while it waits for changes, and done once there are some."""

    feed: str
    consumer: str
    place: StreamPlace
    found: asyncio.Future[FeedChanges] | None = None

    @property
    def waits(self) -> bool:
        return self.found is not None and not self.found.done()

    def take(self, changes: FeedChanges) -> None:
        """Wakes the stream if there is something to tell; else it only moves on."""
        if self.found is None or self.found.done():
            return
        if changes.changes or not changes.is_complete:
            self.found.set_result(changes)
        elif changes.t > self.place.t:
            self.place = StreamPlace(changes.t)

    def end(self, reason: str) -> None:
        if self.found is not None and not self.found.done():
            self.found.set_exception(StreamEnds(reason))

    def expect(self) -> asyncio.Future[FeedChanges]:
        self.found = asyncio.get_running_loop().create_future()
        return self.found

    def move(self, place: StreamPlace) -> None:
        self.place = place


class FeedStreams:
    """All streams of a process. Used by its event loop alone."""

    def __init__(self, door: FeedDoor, run: Run) -> None:
        self._door = door
        self._run = run
        self._streams: dict[str, set[FeedStream]] = {}
        self._looking: dict[str, asyncio.Task[None]] = {}
        self._ended: str | None = None
        self._most = find_most_streams()

    @property
    def count(self) -> int:
        """How many streams there are, with those that are about to begin."""
        return sum(self.counts.values())

    @property
    def counts(self) -> dict[str, int]:
        """How many streams there are, by feed."""
        return {feed: len(streams) for feed, streams in self._streams.items()}

    async def begin(self, feed: str, consumer: str, last_id: str, after: str | None) -> FeedStream:
        """A stream from a place on: after the last event that a client has, after a page, or from now on. It has to
        be served at once.

        Raises `ConnectError` if there are too many, or the store is away, and `WrongCursor`.
        """
        if self._ended is not None or self.count >= self._most:
            raise ConnectError("this server has as many streams as it can serve", "try again, or start more servers")
        place = NOW
        if last_id:
            place = self._door.pages.read_place(last_id, feed, consumer)
        elif after is not None:
            place = StreamPlace(read_micros(after))
        stream = FeedStream(feed, consumer, place)
        self._add(stream)  # before anything is waited for: whoever asks meanwhile has to know
        try:
            (found,) = await self._run(lambda: self._door.pages.read_changes(feed, [(consumer, place)]))
            if found is None:
                raise ConnectError(f'feed "{feed}" is being filled', "try again in a moment")
        except BaseException:
            self._remove(stream)
            raise
        if place is NOW:
            stream.move(StreamPlace(found.t))
        return stream

    async def serve(
        self, stream: FeedStream, ends_at: float | None, is_allowed: Callable[[], bool], receive: Receive, send: Send
    ) -> None:
        """Tells changes until the client leaves, the token ends or the server does."""
        gone = asyncio.ensure_future(_leave(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            await self._tell(stream, send, self._write(stream, "open", {"as_of": tell_micros(stream.place.t)}))
            while not gone.done():
                await self._tell_next(stream, ends_at, is_allowed, gone, send)
        except StreamEnds as end:
            await self._tell_end(stream, str(end), send)
        except TimeoutError:
            pass  # whoever takes nothing is gone
        except Exception as error:  # the answer has begun: all that can be told is that it ends
            log.error("a stream of feed %s failed", stream.feed, exc_info=error)
            await self._tell_end(stream, FAILED, send)
        finally:
            gone.cancel()
            self._remove(stream)
        if not gone.done() or gone.cancelled():
            await send({"type": "http.response.body", "body": b""})

    def close(self, reason: str = "the server ends") -> None:
        """Ends all streams."""
        self._ended = reason
        for stream in [stream for some in self._streams.values() for stream in some]:
            stream.end(reason)

    async def _tell_next(
        self,
        stream: FeedStream,
        ends_at: float | None,
        is_allowed: Callable[[], bool],
        gone: asyncio.Future[None],
        send: Send,
    ) -> None:
        found = stream.expect()
        if self._ended is not None:
            raise StreamEnds(self._ended)
        left_s = KEEP_ALIVE_S if ends_at is None else min(KEEP_ALIVE_S, max(0.0, ends_at - time.time()))
        either: list[asyncio.Future[Any]] = [found, gone]
        await asyncio.wait(either, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        if (ends_at is not None and time.time() >= ends_at) or not is_allowed():
            raise StreamEnds("the token is no longer valid")
        if found.done():
            await self._tell_changes(stream, found.result(), send)
        elif not gone.done():
            place = self._door.pages.write_place(stream.place, stream.feed, stream.consumer)
            await self._tell(stream, send, f": keep-alive\nid: {place}\n\n")

    async def _tell_changes(self, stream: FeedStream, found: FeedChanges, send: Send) -> None:
        if not found.is_complete:
            stream.move(StreamPlace(found.t))
            await self._tell(stream, send, self._write(stream, "reread", {"as_of": tell_micros(found.t)}))
            return
        written = []
        for position, change in enumerate(found.changes):
            stream.move(found.place_after(position))
            told = self._door.pages.tell_entry(stream.feed, change.entry)
            if change.is_gone:
                told.pop("body")
            written.append(self._write(stream, "gone" if change.is_gone else "entry", told))
        await self._tell(stream, send, "".join(written))

    def _write(self, stream: FeedStream, event: str, told: object) -> str:
        place = self._door.pages.write_place(stream.place, stream.feed, stream.consumer)
        # JSON has no line breaks of its own, which would end the event.
        return f"event: {event}\nid: {place}\ndata: {json.dumps(told, ensure_ascii=False)}\n\n"

    async def _tell(self, stream: FeedStream, send: Send, text: str) -> None:
        body = text.encode(errors="replace")
        async with asyncio.timeout(TAKE_WITHIN_S):
            await send({"type": "http.response.body", "body": body, "more_body": True})

    async def _tell_end(self, stream: FeedStream, reason: str, send: Send) -> None:
        with suppress(Exception):  # whoever cannot be told sees the answer end
            await self._tell(stream, send, self._write(stream, "end", {"reason": reason}))

    # Looking

    def _add(self, stream: FeedStream) -> None:
        self._streams.setdefault(stream.feed, set()).add(stream)
        if stream.feed not in self._looking:
            self._looking[stream.feed] = asyncio.create_task(self._look_at(stream.feed))

    def _remove(self, stream: FeedStream) -> None:
        others = self._streams[stream.feed]
        others.discard(stream)
        if not others:  # names of feeds that never were must not pile up
            del self._streams[stream.feed]

    async def _look_at(self, feed: str) -> None:
        """Looks for changes as long as somebody listens."""
        try:
            while feed in self._streams:
                await asyncio.sleep(LOOK_EVERY_S)
                waiting = [stream for stream in self._streams.get(feed, ()) if stream.waits]
                for start in range(0, len(waiting), AT_ONCE):
                    await self._look_for(feed, waiting[start : start + AT_ONCE])
        finally:
            del self._looking[feed]

    async def _look_for(self, feed: str, some: list[FeedStream]) -> None:
        asked = [(stream.consumer, stream.place) for stream in some]
        try:
            found = await self._run(lambda: self._door.pages.read_changes(feed, asked))
        except ConnectError:
            return  # while the store is away there is nothing to tell, and streams are kept alive
        except Exception as error:
            is_gone = isinstance(error, UnknownName)
            if not is_gone:
                log.error("looking for changes of feed %s failed", feed, exc_info=error)
            for stream in some:
                stream.end(f'feed "{feed}" is no longer kept' if is_gone else FAILED)
            return
        for stream, changes in zip(some, found, strict=True):
            if changes is not None:
                stream.take(changes)


def find_most_streams() -> int:
    """How many streams this process can serve. Each has a connection, of which it may have only so many open."""
    most = min(MOST_STREAMS, max(1, allow_open_files(MOST_STREAMS + OTHER_FILES) - OTHER_FILES))
    if most < MOST_STREAMS:
        log.warning("at most %d streams are served at once: see `ulimit -Hn`", most)
    return most


async def _leave(receive: Receive) -> None:
    """Returns when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
