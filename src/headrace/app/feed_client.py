"""A feed of a project that runs, for Python: `headrace.feed("home").page("anna")`."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from headrace.app.asking import count_unread, follow_in_feed, hide_in_feed, mark_seen, post_to_feed, read_feed


@dataclass(frozen=True, slots=True)
class RunningFeed:
    """Every call asks the service, and raises what it refuses: `ConnectError` while the feed's store is away."""

    name: str
    directory: Path

    def page(self, consumer: str, limit: int | None = None, before: str | None = None) -> dict[str, Any]:
        """The newest entries of everyone that a consumer follows; `before` is `next` of the page before."""
        return read_feed(self.directory, self.name, consumer, limit, before)

    def unread(self, consumer: str) -> int:
        """How many entries are newer than what the consumer has seen; 99 is 99 or more."""
        return int(count_unread(self.directory, self.name, consumer)["unread"])

    def mark_seen(self, consumer: str, time: str | None = None, id: str | None = None) -> None:  # noqa: A002
        """The consumer has seen the entry of this time and id, and what is older; without both, all that is there."""
        seen = {"time": time, "id": id}
        mark_seen(self.directory, self.name, consumer, {name: one for name, one in seen.items() if one is not None})

    def post(self, producer: str, body: Any, id: str | None = None, time: dt.datetime | None = None) -> str:  # noqa: A002
        """Posts an event of now, or of a time; its id. An event with the id of an earlier one takes its place."""
        posted = {"producer": producer, "id": id or uuid4().hex, "body": body}
        if time is not None:
            posted["time"] = time.isoformat()
        post_to_feed(self.directory, self.name, posted)
        return str(posted["id"])

    def follow(self, consumer: str, producer: str) -> None:
        follow_in_feed(self.directory, self.name, (consumer, producer), undo=False)

    def unfollow(self, consumer: str, producer: str) -> None:
        follow_in_feed(self.directory, self.name, (consumer, producer), undo=True)

    def mute(self, consumer: str, producer: str, undo: bool = False) -> None:
        hide_in_feed(self.directory, self.name, (consumer, producer), "mutes", undo)

    def block(self, consumer: str, producer: str, undo: bool = False) -> None:
        hide_in_feed(self.directory, self.name, (consumer, producer), "blocks", undo)


def feed(name: str, directory: str | Path = ".") -> RunningFeed:
    """A feed of the project that runs in a folder."""
    return RunningFeed(name, Path(directory))
