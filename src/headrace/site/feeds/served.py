"""The feeds of a project for a process that only serves them: what runs, as the project's folder says it now.

The folder is looked at every second. When another plan runs, or the project's own store has another address, all that
is known of feeds is made anew and swapped whole; until then requests see what was known before.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headrace.connect.feed_targets import watch_own_store
from headrace.model.catalogue import Catalogue
from headrace.model.errors import ConnectError
from headrace.run.compile.compile_plan import compile_plan
from headrace.run.feeds.batch import FeedSizes
from headrace.run.ports import FeedTarget, Ledger, Store
from headrace.site.feeds.find import KeptFeed, find_feeds
from headrace.site.folder import Folder

log = logging.getLogger("headrace.feeds")

OWN_STORE = "feeds"
"""The folder of the PostgreSQL that keeps feeds which name no store."""
LOOK_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the folder said: `version` is of the plan, `own` the address of the project's own store if it runs."""

    version: int | None = None
    own: str | None = field(default=None, repr=False)
    catalogue: Catalogue | None = None
    feeds: Mapping[str, tuple[KeptFeed, FeedTarget | None]] = field(default_factory=dict)


@dataclass(slots=True)
class ServedFeeds:
    """`trouble` says why what is known may be old; None if it is not. May be used by any thread."""

    folder: Folder
    environment: Mapping[str, str]
    trouble: str | None = None
    _seen: _Seen = field(default_factory=_Seen)
    ledger: Ledger = field(init=False)
    store: Store = field(init=False)
    _find_own: Callable[[], str | None] = field(init=False)

    def __post_init__(self) -> None:
        self.ledger, self.store = self.folder.ledger(), self.folder.store()
        self._find_own = watch_own_store(self.folder.root / OWN_STORE)

    def find(self, feed: str) -> tuple[KeptFeed, FeedTarget | None] | None:
        self._check()
        return self._seen.feeds.get(feed)

    def progress(self) -> dict[str, tuple[int | None, FeedSizes | None]]:
        """Nothing is known of that here: the service knows."""
        return dict.fromkeys(self._seen.feeds, (None, None))

    def catalogue(self) -> Catalogue:
        self._check()
        assert self._seen.catalogue is not None
        return self._seen.catalogue

    def follow(self, end: threading.Event) -> None:
        """Looks again and again until it ends."""
        while not end.wait(LOOK_EVERY_S):
            self.look()

    def look(self) -> None:
        """What cannot be read is told, and tried again."""
        try:
            version, own = self.folder.running_version, self._find_own()
            if (version, own) != (self._seen.version, self._seen.own) or self.trouble is not None:
                self._seen = self._read(version, own)
            self.trouble = None
        except Exception as error:  # whatever it is: who serves an earlier plan must say so
            self._tell(next(iter(str(error).splitlines()), type(error).__name__))

    def _tell(self, trouble: str) -> None:
        if trouble != self.trouble:
            log.warning("what runs cannot be read: %s", trouble)
        self.trouble = trouble

    def _read(self, version: int | None, own: str | None) -> _Seen:
        plan = self.folder.running()
        if plan is None:
            return _Seen(version, own)
        kept = find_feeds(plan, compile_plan(plan), self.folder.project, self.environment)
        found = {one.feed.name: (one, _find_target(one, own)) for one in kept}
        return _Seen(version, own, plan.catalogue, found)

    def _check(self) -> None:
        if self._seen.catalogue is None:
            raise ConnectError("the project does not run yet", "try again in a moment")


def _find_target(kept: KeptFeed, own: str | None) -> FeedTarget | None:
    """Nowhere while the project's own store is away."""
    return None if kept.address is None and own is None else kept.find_target(lambda: own or "")
