"""A token opens what it was minted for, until it ends; whatever else is said is refused."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.errors import UnknownName, UsageError
from headrace.run.feeds.signed import write_signed
from headrace.run.feeds.tokens import CONSUMER_PREFIX, LONGEST_S, ConsumerClaims, read_token, write_token
from headrace.site.feeds.apps import FILE, FeedApps, FeedCaller, add_app, read_apps, revoke_app
from headrace.site.folder import Folder

KEY = b"k" * 32
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12) | st.sampled_from(
    ["a/b", "%2F", "a b", "zoë", "why", "events", "..", "a\x00b", '"', "日本"]
)
all_claims = st.builds(ConsumerClaims, names, names, st.integers(0, 2**40), st.text("0123456789abcdef", max_size=16))


@given(all_claims)
def test_a_token_says_what_it_was_minted_for(claims: ConsumerClaims) -> None:
    token = write_token(claims, KEY)
    assert read_token(token, KEY) == claims
    assert token.isascii() and not set(token) & set(" /+=\r\n")
    assert read_token(token, b"another key" * 3) is None


@given(all_claims, st.data())
def test_a_token_that_was_changed_is_refused(claims: ConsumerClaims, data: st.DataObject) -> None:
    token = write_token(claims, KEY)
    at = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.characters())
    before, after = token[:at], token[at + 1 :]
    changed = data.draw(st.sampled_from([before + other + after, before + after, before + other + token[at:]]))
    assert (read_token(changed, KEY) is None) == (changed != token)


@given(st.text() | st.text().map(CONSUMER_PREFIX.__add__) | st.binary().map(lambda b: CONSUMER_PREFIX + b.hex()))
def test_a_text_that_nobody_has_minted_is_refused(text: str) -> None:
    assert read_token(text, KEY) is None


def test_what_was_signed_for_something_else_is_no_token() -> None:
    said = json.dumps(["home", "anna", 2**40, "app"]).encode()
    for about in (("cursor", "home", "anna"), ("stream", "home", "anna"), (), ("consumer token", "")):
        assert read_token(CONSUMER_PREFIX + write_signed(said, about, KEY), KEY) is None


@given(all_claims, names, names)
def test_a_consumer_may_use_its_own_feed_only(claims: ConsumerClaims, feed: str, consumer: str) -> None:
    caller = FeedCaller(None, claims)
    assert caller.refuse(claims.feed, claims.consumer) is None
    assert (caller.refuse(feed, claims.consumer) is None) == (feed == claims.feed)
    assert (caller.refuse(claims.feed, consumer) is None) == (consumer == claims.consumer)
    assert caller.refuse(claims.feed, None) is not None, "nothing that is not about its own feed"


@pytest.fixture
def apps(tmp_path: Path) -> FeedApps:
    return FeedApps(Folder(tmp_path), lambda: KEY, clock_s=lambda: 1_000.0)


def test_an_app_is_known_by_its_token_until_it_is_revoked(apps: FeedApps) -> None:
    token, other = add_app(apps.folder, "web", None), add_app(apps.folder, "phone", ["home"])
    found = apps.find_caller(token)
    assert found is not None and found.app is not None and (found.app.name, found.claims) == ("web", None)
    assert found.refuse("any", None) is None
    limited = apps.find_caller(other)
    assert limited is not None and limited.refuse("home", None) is None
    assert limited.refuse("wall", None) == 'this token is of app "phone", which may not use feed "wall"'
    revoke_app(apps.folder, "web")
    assert apps.find_caller(token) is None and apps.find_caller(other) == limited
    with pytest.raises(UnknownName, match='there is no app "web"'):
        revoke_app(apps.folder, "web")
    with pytest.raises(UsageError, match="there is an app"):
        add_app(apps.folder, "phone", None)


def test_an_app_that_was_revoked_stays_so_through_a_loss_of_power(apps: FeedApps, monkeypatch: Any) -> None:
    """Only what was synced is there afterwards: the file's new contents first, then its name in the folder."""
    token, file = add_app(apps.folder, "web", None), apps.folder.root / FILE
    before, synced = file.read_bytes(), dict[int, bytes]()
    on_disk = [before]

    def sync(handle: int) -> None:
        path = Path(f"/proc/self/fd/{handle}").resolve()
        if path == apps.folder.root:
            on_disk[0] = synced.get(file.stat().st_ino, b"")
        else:
            synced[os.fstat(handle).st_ino] = path.read_bytes()

    monkeypatch.setattr(os, "fsync", sync)
    revoke_app(apps.folder, "web")
    file.write_bytes(on_disk[0])
    assert on_disk[0] != before and apps.find_caller(token) is None


def test_revoking_an_app_revokes_what_it_has_minted_also_once_it_is_added_again(apps: FeedApps) -> None:
    add_app(apps.folder, "web", None)
    token, expires = apps.mint(apps.find("web"), "home", "a/b %", 60)
    assert expires == 1_060
    found = apps.find_caller(token)
    assert found is not None and found.claims is not None and found.claims.consumer == "a/b %"
    assert replace(apps, clock_s=lambda: 1_059.9).find_caller(token) is not None
    assert replace(apps, clock_s=lambda: 1_060.0).find_caller(token) is None, "it has ended"
    revoke_app(apps.folder, "web")
    assert apps.find_caller(token) is None
    add_app(apps.folder, "web", None)
    assert apps.find_caller(token) is None


def test_a_token_ends_within_thirty_days(apps: FeedApps) -> None:
    add_app(apps.folder, "web", ["home"])
    for seconds in (0, -1, LONGEST_S + 1):
        with pytest.raises(UsageError, match="30 days"):
            apps.mint(apps.find("web"), "home", "anna", seconds)
    with pytest.raises(UsageError, match='may not use feed "wall"'):
        apps.mint(apps.find("web"), "wall", "anna")


def test_only_hashes_of_tokens_are_kept_and_only_for_the_owner(apps: FeedApps) -> None:
    token = add_app(apps.folder, "web", None)
    file = apps.folder.root / FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert token not in file.read_text() and token not in repr(read_apps(apps.folder))
