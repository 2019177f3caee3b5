"""A port that our processes share is theirs alone."""

from __future__ import annotations

import pytest

from headrace.connect.shared_port import is_loopback, reserve_port, share_port
from headrace.model.errors import UsageError


def test_a_port_is_reserved_shared_and_refused_to_others_who_would_share_it() -> None:
    with reserve_port("127.0.0.1", 0) as held:
        port = held.getsockname()[1]
        with share_port("127.0.0.1", port) as first, share_port("127.0.0.1", port) as second:
            first.listen()
            second.listen()
            with pytest.raises(UsageError, match=f'cannot listen at "127.0.0.1", port {port}: address already in use'):
                reserve_port("127.0.0.1", port, within_s=0.1)
        reserve_port("127.0.0.1", port, within_s=5.0).close()


def test_a_host_that_is_not_ours_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot listen"):
        share_port("192.0.2.1", 0)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_this_machine_alone_reaches_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", ""])
def test_others_may_reach_the_rest(host: str) -> None:
    assert not is_loopback(host)
