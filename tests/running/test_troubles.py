"""Troubles as parts of the service report them."""

from __future__ import annotations

import pytest

from headrace.site.troubles import Troubles


def test_a_trouble_lasts_since_it_was_reported_first_whatever_is_said_of_it_later() -> None:
    now = 100.0
    troubles = Troubles(lambda: now)
    troubles.report("capture:us", "connection refused", "start it")
    now = 130.0
    troubles.report("capture:us", "password wrong", "change it")
    (found,) = troubles.all().values()
    assert found.to_json() == {"what": "password wrong", "since": 100.0, "hint": "change it"}
    troubles.clear("capture:us")
    assert troubles.all() == {}
    troubles.report("capture:us", "connection refused", "start it")
    assert troubles.all()["capture:us"].since == 130.0


def test_what_is_left_out_of_a_full_report_of_its_kind_is_over() -> None:
    troubles = Troubles(lambda: 1.0)
    troubles.report("capture:us", "refused", "")
    troubles.report("capture:eu", "refused", "")
    troubles.report("source:users", "stopped", "")
    troubles.report_exactly("capture:", {"capture:eu": ("slow", "wait"), "capture:asia": ("refused", "")})
    assert set(troubles.all()) == {"capture:eu", "capture:asia", "source:users"}
    assert troubles.all()["capture:eu"].what == "slow"


def test_a_trouble_is_logged_when_it_begins_and_not_each_time_it_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    troubles = Troubles()
    with caplog.at_level("INFO", "headrace.events"):
        for _ in range(3):
            troubles.report("engine:", "Spark stands still", "")
        troubles.clear("engine:")
        troubles.clear("engine:")
    assert [record.getMessage() for record in caplog.records] == ["Spark stands still", "resolved: Spark stands still"]
