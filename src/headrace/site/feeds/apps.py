"""Apps that may use the feeds of a project, each with a token of its own, and whose token a request has.

Tokens of apps are random, and only their hashes are kept, in a file for the owner's eyes. An app's token allows
everything on its feeds. A consumer's token, which an app mints, allows what a consumer does with its own feed
(`run/feeds/tokens.py`).

    feed_apps.json    name, id, hash, feeds (null: all of them) and the time at which each app was added
"""

from __future__ import annotations

import datetime as dt
import fcntl
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from headrace.model.errors import UnknownName, UsageError, nearest_name
from headrace.run.feeds.tokens import APP_PREFIX, DEFAULT_S, LONGEST_S, ConsumerClaims, read_token, write_token
from headrace.site.folder import Folder

FILE, LOCK = "feed_apps.json", "feed_apps.lock"
LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class FeedApp:
    """`id` is its own even if an app of the same name was revoked before; `feeds` None means all of them."""

    name: str
    id: str
    hash: str = field(repr=False)
    feeds: tuple[str, ...] | None
    added: float

    def may_use(self, feed: str) -> bool:
        return self.feeds is None or feed in self.feeds


@dataclass(frozen=True, slots=True)
class FeedCaller:
    """Who asks: whoever has the service's own token if there is no `app`, else an app, or a consumer with a token that
    the app has minted.
    """

    app: FeedApp | None
    claims: ConsumerClaims | None = None

    def refuse(self, feed: str, consumer: str | None) -> str | None:
        """Why the caller may not do something; None if it may. `consumer` is whose own feed it is about, None if it is
        nothing that a consumer does with its own feed.
        """
        if self.app is not None and not self.app.may_use(feed):
            return f'this token is of app "{self.app.name}", which may not use feed "{feed}"'
        if self.claims is None:
            return None
        if self.claims.feed != feed:
            return f'this token is for feed "{self.claims.feed}" only'
        if consumer is None:
            return "a consumer's token reads one feed, marks it seen, mutes and blocks; it allows nothing else"
        if self.claims.consumer != consumer:
            return "this token is for the feed of another consumer"
        return None


@dataclass(slots=True)
class FeedApps:
    """The apps of a project as their file says now. May be used by any thread."""

    folder: Folder
    key: Callable[[], bytes]
    clock_s: Callable[[], float] = time.time
    _read: tuple[tuple[int, int] | None, tuple[FeedApp, ...]] = (None, ())

    def all(self) -> tuple[FeedApp, ...]:
        version = _find_version(self.folder.root / FILE)
        known, apps = self._read
        if version != known:
            apps = read_apps(self.folder)
            self._read = version, apps
        return apps

    def find_caller(self, token: str) -> FeedCaller | None:
        """Whose token it is; None if it is nobody's, or no longer."""
        if token.startswith(APP_PREFIX):
            given = _hash(token)
            found = [app for app in self.all() if hmac.compare_digest(app.hash, given)]
            return FeedCaller(found[0]) if found else None
        claims = read_token(token, self.key())
        if claims is None or claims.expires <= self.clock_s():
            return None
        app = next((app for app in self.all() if app.id == claims.app), None)
        return None if app is None else FeedCaller(app, claims)

    def mint(self, app: FeedApp, feed: str, consumer: str, seconds: int = DEFAULT_S) -> tuple[str, int]:
        """A consumer's token, and when it ends (seconds since 1970)."""
        if not 1 <= seconds <= LONGEST_S:
            raise UsageError(f"a token holds for 1 s to 30 days ({LONGEST_S} s), not {seconds} s")
        if not app.may_use(feed):
            raise UsageError(f'app "{app.name}" may not use feed "{feed}"', "add an app that may")
        expires = int(self.clock_s()) + seconds
        return write_token(ConsumerClaims(feed, consumer, expires, app.id), self.key()), expires

    def find(self, name: str) -> FeedApp:
        """Raises `UnknownName`."""
        apps = {app.name: app for app in self.all()}
        if name not in apps:
            hint = nearest_name(name, apps) or "`headrace feeds tokens list` shows the apps that there are"
            raise UnknownName(f'there is no app "{name}"', hint)
        return apps[name]


def add_app(folder: Folder, name: str, feeds: Sequence[str] | None) -> str:
    """The token of a new app. Nobody can find it out later."""
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise UsageError("an app needs a name that can be read", f"of at most {LONGEST_NAME} characters")
    token = APP_PREFIX + secrets.token_urlsafe(32)
    limited = None if feeds is None else tuple(sorted(set(feeds)))
    with _changing(folder):
        apps = read_apps(folder)
        if any(app.name == name for app in apps):
            raise UsageError(f'there is an app "{name}" already', f"`headrace feeds tokens revoke {name}` removes it")
        _write(folder, (*apps, FeedApp(name, secrets.token_hex(8), _hash(token), limited, time.time())))
    return token


def revoke_app(folder: Folder, name: str) -> None:
    """Its token, and all that were minted with it, are worth nothing from now on. Raises `UnknownName`."""
    with _changing(folder):
        apps = read_apps(folder)
        left = tuple(app for app in apps if app.name != name)
        if len(left) == len(apps):
            hint = nearest_name(name, [app.name for app in apps]) or "`headrace feeds tokens list` shows all apps"
            raise UnknownName(f'there is no app "{name}"', hint)
        _write(folder, left)


def tell_minted(token: str, expires: int, app: str, feed: str, consumer: str) -> dict[str, Any]:
    ends = dt.datetime.fromtimestamp(expires, dt.UTC).replace(tzinfo=None)
    return {"token": token, "feed": feed, "consumer": consumer, "app": app, "expires": f"{ends.isoformat()}Z"}


def read_apps(folder: Folder) -> tuple[FeedApp, ...]:
    """Raises `UnreadableState` if the file is damaged."""
    found = folder.read_json(FILE)
    try:
        rows = [] if found is None else found["apps"]
        return tuple(FeedApp(**{**row, "feeds": _read_names(row["feeds"])}) for row in rows)
    except (TypeError, KeyError) as error:
        raise folder.unreadable(FILE, "it does not say which apps there are") from error


def _read_names(feeds: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if feeds is None else tuple(feeds)


def _write(folder: Folder, apps: Sequence[FeedApp]) -> None:
    # Durable: an app that was revoked must not be back after a loss of power.
    folder.write_json(FILE, {"apps": [asdict(app) for app in apps]}, is_durable=True)


@contextmanager
def _changing(folder: Folder) -> Iterator[None]:
    """One process at a time: of two who add apps, neither loses the other's."""
    folder.prepare()
    lock = folder.root / LOCK
    lock.touch(0o600)
    with lock.open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def _find_version(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns
