"""How the benchmark that kills processes judges what it sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.kills_watch import LOOK_EVERY_S, Look, Watch, elsewhere, episodes, judged


def status(written: float, lag_s: float | None, state: str) -> dict[str, Any]:
    contract = {"id": "a", "lag_s": lag_s, "freshness_s": 10.0, "state": state}
    return {"service": {"state": "running", "written": written}, "contracts": [contract]}


def looks(*lags: float | None) -> list[Look]:
    """One a second, from 100 s on; None is a look at which the service was gone."""
    return [
        Look(100.0 + n, "gone" if lag is None else "late" if lag > 1 else None, {} if lag is None else {"a": lag})
        for n, lag in enumerate(lags)
    ]


def test_an_old_status_says_that_the_service_is_gone() -> None:
    assert judged(100.0, status(99.0, 5.0, "kept")) == Look(100.0, None, {"a": 0.5})
    assert judged(104.0, status(99.0, 5.0, "kept")).wrong == "the service is gone"
    assert judged(100.0, status(99.0, 15.0, "late")) == Look(100.0, "a is late", {"a": 1.5})
    assert judged(100.0, status(99.0, None, "loading")).wrong == "a is loading"


def test_recovery_is_over_when_all_stays_well() -> None:
    watch = Watch(Path(), looks(0.5, None, 1.5, 0.9, 1.2, 0.4, 0.5))
    assert watch.recovery_s(100.0, 200.0) == 4.0 + LOOK_EVERY_S
    assert watch.recovery_s(105.0, 200.0) == 0.0
    assert watch.recovery_s(100.0, 103.0) == float("inf"), "it was not well at the end"
    assert watch.worst(100.0, 200.0) == (1.5, "a")


def test_an_episode_begins_once_and_goes_on_while_nothing_is_seen() -> None:
    found = list(episodes(looks(0.5, 1.5, None, 1.6, 0.5, 1.1)))
    assert [one.at for one in found] == [101.0, 105.0]
    assert elsewhere(found, [100.0]) == []
    assert elsewhere(found, [103.0]) == found[:1], "a kill explains nothing that was before it"
    assert elsewhere(found, [70.0]) == found
