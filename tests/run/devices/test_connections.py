"""Whether a device is there, whatever order its hello and its last will come in."""

from __future__ import annotations

from itertools import permutations

import pytest

from headrace.run.devices.connections import Connections


def test_a_late_end_of_an_earlier_connection_is_no_absence():
    connections = Connections()
    assert connections.begin("1", 10) and connections.begin("1", 20)
    assert not connections.end("1", 10)
    assert connections.end("1", 20)


@pytest.mark.parametrize("order", tuple(permutations((("hello", 1), ("gone", 1), ("hello", 2)))))
def test_in_any_order_a_device_whose_second_connection_began_is_there(order: tuple[tuple[str, int], ...]):
    connections, is_there = Connections(), False
    for what, connection in order:
        if what == "hello":
            is_there = connections.begin("1", connection) or is_there
        elif connections.end("1", connection):
            is_there = False
    assert is_there


def test_a_hello_that_comes_after_its_connection_ended_says_nothing():
    connections = Connections()
    assert connections.end("1", 10)
    assert not connections.begin("1", 10) and connections.begin("1", 11)


def test_a_hello_that_is_delivered_again_with_its_end_does_not_send_the_device_away():
    connections = Connections()
    assert connections.begin("1", 10) and connections.begin("1", 11)
    assert connections.begin("1", 10) and not connections.end("1", 10)
    assert connections.end("1", 11)


def test_a_clock_that_was_set_back_begins_connections_with_lower_numbers():
    connections = Connections()
    assert connections.begin("1", 10_000_000) and not connections.end("1", 9_000_000)
    assert connections.is_another("1", 9_900_000) and connections.begin("1", 9_900_000)
    assert not connections.end("1", 10_000_000) and connections.end("1", 9_900_000)


def test_devices_that_tell_no_connections_are_taken_at_their_word():
    connections = Connections()
    assert connections.begin("1", 0) and connections.end("1", 0) and connections.begin("1", 0)
