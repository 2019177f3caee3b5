"""Devices are forgotten for an absence that a service has seen, not for one of the service."""

from __future__ import annotations

from headrace.coordinate.devices.presence import Presence

DAY_S = 86_400.0


def test_devices_that_could_not_connect_are_not_forgotten():
    presence = Presence.from_json({"1": [True, 0.0], "2": [False, 0.0]}, ended_s=DAY_S)
    assert presence.find_absent(7 * DAY_S, 30 * DAY_S) == [], "no broker was there yet"
    presence.begin(30 * DAY_S)
    assert presence.find_absent(7 * DAY_S, 30 * DAY_S + 60.0) == []
    presence.begin(31 * DAY_S)
    assert presence.find_absent(7 * DAY_S, 37 * DAY_S) == ["1", "2"], "nobody came for seven days"
