"""All that people do with feeds, for whoever serves them: the service itself, or a feed server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.model.catalogue import Catalogue
from headrace.model.errors import UnknownName, UsageError
from headrace.run.feeds.tokens import DEFAULT_S
from headrace.site.feeds.apps import FeedApps, FeedCaller, tell_minted
from headrace.site.feeds.pages import FeedPages, HiddenKind
from headrace.site.feeds.posting import change_follows, delete_events, post_events, read_posts
from headrace.site.folder import Folder


@dataclass(slots=True)
class FeedDoor:
    """`catalogue` is of the plan that runs. May be used by any thread."""

    pages: FeedPages
    folder: Folder
    catalogue: Callable[[], Catalogue]
    apps: FeedApps

    def read(self, feed: str, consumer: str, limit: int | None = None, before: str | None = None) -> dict[str, Any]:
        """A page; `before` is the cursor of the page before it."""
        return self.pages.read(feed, consumer, limit, before)

    def count_unread(self, feed: str, consumer: str) -> dict[str, Any]:
        return {"unread": self.pages.count_unread(feed, consumer)}

    def mark_seen(self, feed: str, consumer: str, seen: Mapping[str, Any]) -> dict[str, Any]:
        """`seen` is the time and id of an entry, or nothing: then all that is there now."""
        time, id_ = seen.get("time"), seen.get("id")
        if (time is None) is not (id_ is None):
            raise UsageError("an entry is named by its `time` and its `id`", "send both, or neither")
        self.pages.mark_seen(feed, consumer, None if time is None or id_ is None else (time, id_))
        return {"feed": feed, "consumer": consumer, "seen": True}

    def hide(self, feed: str, consumer: str, producer: str, kind: HiddenKind, undo: bool) -> dict[str, Any]:
        """Mutes or blocks a producer for a consumer, or takes that back."""
        self.pages.hide(feed, consumer, producer, kind, undo)
        return {"feed": feed, "consumer": consumer, "producer": producer, f"{kind.value}s": not undo}

    def post(self, feed: str, posted: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """Events as documents: producer, id, time (now if there is none) and body."""
        posts = read_posts(posted)
        post_events(self.folder, self.catalogue(), feed, posts)
        return {"feed": feed, "posted": len(posts)}

    def delete(self, feed: str, producer: str, id_: str) -> dict[str, Any]:
        delete_events(self.folder, self.catalogue(), feed, [(producer, id_)])
        return {"feed": feed, "producer": producer, "id": id_, "deleted": True}

    def follow(self, feed: str, consumer: str, producer: str, undo: bool) -> dict[str, Any]:
        """Has a consumer follow a producer, or no longer."""
        pair = [(consumer, producer)]
        change_follows(self.folder, self.catalogue(), feed, *(([], pair) if undo else (pair, [])))
        return {"feed": feed, "consumer": consumer, "producer": producer, "follows": not undo}

    def mint(self, caller: FeedCaller, feed: str, consumer: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        """A token for a consumer. With the service's own token, `asked` names the app that it counts for."""
        if feed not in self.catalogue().feeds:
            raise UnknownName(f'no feed "{feed}" runs', "`headrace status` says which feeds are kept")
        named = asked.get("app")
        if caller.app is None and named is None:
            raise UsageError("a token is minted for an app", "send its token, or name it as `app`")
        if caller.app is not None and named not in (None, caller.app.name):
            raise UsageError(f'this is the token of app "{caller.app.name}"', f'send that of "{named}"')
        app = caller.app or self.apps.find(str(named))
        token, expires = self.apps.mint(app, feed, consumer, asked.get("expires_in_s", DEFAULT_S))
        return tell_minted(token, expires, app.name, feed, consumer)
