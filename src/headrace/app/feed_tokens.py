"""Tokens of apps and consumers, for whoever owns a project's folder; nothing has to run.

This module imports little, because people wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.declare.units import DURATION, Unreadable, read_amount
from headrace.model.errors import UsageError
from headrace.model.options import SitesMode
from headrace.site.feeds.apps import FeedApp, FeedApps, add_app, read_apps, revoke_app, tell_minted
from headrace.site.feeds.signing import find_key
from headrace.site.folder import Folder
from headrace.site.membership import read_membership
from headrace.site.site_folders import find_site_of_feed, read_sites_mode

__all__ = ["FeedApp", "add_feed_app", "list_feed_apps", "mint_feed_token", "read_duration", "revoke_feed_app"]


def add_feed_app(directory: Path, name: str, feeds: Sequence[str]) -> str:
    """The token of a new app, which may use some feeds, or all if none are named."""
    return add_app(_find_folder(directory), name, feeds or None)


def list_feed_apps(directory: Path) -> tuple[FeedApp, ...]:
    return read_apps(_find_folder(directory))


def revoke_feed_app(directory: Path, name: str) -> None:
    revoke_app(_find_folder(directory), name)


def mint_feed_token(directory: Path, app: str, feed: str, consumer: str, seconds: int) -> dict[str, Any]:
    """A consumer's token, as an app gets it over HTTP."""
    folder = _find_folder(directory)
    apps = FeedApps(folder, lambda: find_key(find_site_of_feed(folder, feed).root))
    found = apps.find(app)
    token, expires = apps.mint(found, feed, consumer, seconds)
    return tell_minted(token, expires, found.name, feed, consumer)


def read_duration(text: str) -> int:
    """Whole seconds, from what people write: `1 h`, `30 days`."""
    try:
        return round(read_amount(text, DURATION))
    except Unreadable as error:
        raise UsageError(error.message, error.hint) from error


def _find_folder(directory: Path) -> Folder:
    folder = Folder(directory)
    if not (directory / "headrace.yml").is_file() and read_membership(folder) is None:
        raise UsageError(f'there is no project in "{directory}"', "name its folder, or change to it")
    if read_sites_mode(folder) is SitesMode.AGENTS:
        what = "the sites that keep feeds joined from elsewhere, and know who may use them"
        raise UsageError(what, "run the command in the folder of the site's agent, where it runs")
    return folder
