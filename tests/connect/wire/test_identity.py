"""Certificates of a project's own authority, at times that are passed in."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from headrace.connect.wire.contexts import AUTHORITY, CERTIFICATE, IDENTITY_FOLDER, KEY
from headrace.connect.wire.identity import (
    LASTS,
    Authority,
    fingerprint,
    has_run_out,
    is_due,
    is_signed_by,
    make_authority,
    make_key,
    read_owner,
    request_certificate,
    sign_request,
)
from headrace.connect.wire.identity_files import give_certificate, open_authority, read_instance
from headrace.connect.wire.names import WireName, read_uris
from headrace.model.errors import ConnectError

NOW = datetime.datetime(2026, 11, 18, 12, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return make_authority("shop", NOW)


def test_a_certificate_lasts_seven_days_and_is_due_after_two_thirds_of_that(authority: Authority) -> None:
    made = sign_request(authority, request_certificate(make_key()), WireName("eu", "a"), NOW)
    assert x509.load_pem_x509_certificate(made).not_valid_after_utc == NOW + datetime.timedelta(days=7)
    due = NOW + LASTS * 2 / 3
    assert not is_due(made, due - HOUR) and is_due(made, due) and is_due(made, due + HOUR)
    assert is_due(b"what is no certificate", NOW)


def test_an_authority_knows_what_it_has_signed(authority: Authority) -> None:
    other = make_authority("shop", NOW)
    made = sign_request(authority, request_certificate(make_key()), WireName("eu", "a"), NOW)
    assert is_signed_by(made, authority.certificate) and not is_signed_by(made, other.certificate)
    assert fingerprint(authority.certificate) != fingerprint(other.certificate)


def test_the_owner_of_a_certificate_that_has_run_out_is_known_by_its_key(authority: Authority) -> None:
    key, name = make_key(), WireName("eu", "a")
    made = sign_request(authority, request_certificate(key), name, NOW)
    assert not has_run_out(made, NOW + LASTS - HOUR) and has_run_out(made, NOW + LASTS) and has_run_out(b"", NOW)
    assert read_owner(made, authority.certificate, request_certificate(key)) == name
    assert read_owner(made, authority.certificate, request_certificate(make_key())) is None, "another's key"
    assert read_owner(made, make_authority("shop", NOW).certificate, request_certificate(key)) is None
    assert read_owner(b"nothing", authority.certificate, request_certificate(key)) is None
    assert read_owner(made, authority.certificate, b"nothing") is None


def test_a_certificate_counts_for_a_site_whose_clock_was_set_back(authority: Authority) -> None:
    """Otherwise the site would not trust whoever got a certificate a moment ago."""
    made = sign_request(authority, request_certificate(make_key()), WireName("eu", "a"), NOW)
    for one in (made, authority.certificate):
        assert x509.load_pem_x509_certificate(one).not_valid_before_utc <= NOW - datetime.timedelta(days=2)


def test_what_is_no_request_is_refused(authority: Authority) -> None:
    with pytest.raises(ConnectError, match="cannot be read"):
        sign_request(authority, b"-----BEGIN CERTIFICATE REQUEST-----\n", WireName("eu", "a"), NOW)


@given(site=st.text(min_size=1) | st.none(), instance=st.text(min_size=1))
def test_any_name_is_read_as_it_was_written(site: str | None, instance: str) -> None:
    try:
        name = WireName(site, instance)
        uris = name.to_uris()
    except UnicodeEncodeError:  # halves of characters, which no project file can hold
        return
    assert all(one.isascii() for one in uris)
    assert read_uris(uris) == name


def test_a_site_cannot_be_called_so_that_it_is_taken_for_the_coordinator() -> None:
    assert read_uris(WireName("coordinator", "a").to_uris()) == WireName("coordinator", "a")
    assert read_uris(["headrace:site:eu", "headrace:site:us", "headrace:instance:a"]) is None
    assert read_uris(["headrace:site:eu"]) is None and read_uris(["https://example.com"]) is None


def test_files_are_for_their_owner_alone_and_change_only_when_it_is_time(tmp_path: Path) -> None:
    authority, root = open_authority(tmp_path, "shop", NOW), tmp_path / "eu"
    assert open_authority(tmp_path, "shop", NOW) == authority
    give_certificate(authority, root, "eu", NOW)
    files = [root / IDENTITY_FOLDER / name for name in (KEY, CERTIFICATE, AUTHORITY)]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    before, instance = [file.read_bytes() for file in files], read_instance(root)
    give_certificate(authority, root, "eu", NOW + LASTS / 2)
    assert [file.read_bytes() for file in files] == before
    give_certificate(authority, root, "eu", NOW + LASTS * 0.7)
    after = [file.read_bytes() for file in files]
    assert after[0] == before[0] and after[1] != before[1], "the key stays"
    assert not is_due(after[1], NOW + LASTS) and read_instance(root) == instance
