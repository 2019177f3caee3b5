"""A project in which something hangs says so, names it, and goes on with the rest."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.running.running_project import RunningProject, until

FUNCTION = """
import threading

def hold(number):
    if number == 7777:
        threading.Event().wait()
    return number
"""
DECLARED = """  held: {view: held, at: eu, freshness: 4 s}
functions:
  hold: {python: "holding:hold", arguments: [bigint], returns: bigint, deterministic: true}
"""


def health(project: RunningProject) -> tuple[int, dict[str, Any]]:
    url = f"http://127.0.0.1:{project.process()['port']}/healthz"
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def contract(project: RunningProject, name: str) -> dict[str, Any]:
    found: dict[str, Any] = {one["id"]: one for one in project.document("status")["contracts"]}[name]
    return found


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("engine", ["local", "spark"])
def test_a_function_that_never_returns_is_told_and_named_and_the_others_go_on(
    project: RunningProject, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(project.folder)
    (project.folder / "holding.py").write_text(FUNCTION)
    (project.folder / "views" / "held.sql").write_text(
        "SELECT hold(pid) AS h, count(*) AS n FROM posts GROUP BY hold(pid)"
    )
    project.declare("counts", more=DECLARED)
    project.up(engine)
    project.until_equal("counts")
    assert health(project) == (200, {"state": "running"})

    project.eu.execute("INSERT INTO posts VALUES (7777, 3, 'poison')")
    until(lambda: health(project)[0] == 503, "it says that it stands still", 240.0)
    assert "nothing was committed for" in health(project)[1]["reason"]
    until(lambda: "nothing is pushed for contract" in str(project.document("status")["troubles"]), "status says so")
    assert "nothing is pushed for contract" in project.headrace("doctor", status=1)

    until(lambda: contract(project, "held")["state"] == "failing", "it is named", 400.0)
    assert "it took longer than 60 s, and was ended" in contract(project, "held")["reason"]
    project.change_something(8000)
    project.until_equal("counts")
    until(lambda: health(project)[0] == 200, "the rest is kept again", 240.0)
    assert contract(project, "counts")["state"] in ("kept", "late")
