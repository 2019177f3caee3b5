"""Every door of a live service shows the same lag, violations and money: those of the look that it names."""

from __future__ import annotations

import json
import os
import re
import signal
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from headrace.doors.cli import main
from tests.running.running_project import RunningProject, children, until

CONTRACT = "counts"
METRICS = {
    "headrace_measured_timestamp_seconds": "measured_at",
    "headrace_lag_seconds": "lag_s",
    "headrace_violations_total": "violations",
    "headrace_cost_dollars_per_hour": "cost_h",
}


def fetch(project: RunningProject, path: str) -> str:
    process = project.process()
    request = urllib.request.Request(
        f"http://127.0.0.1:{process['port']}{path}", headers={"Authorization": f"Bearer {process['token']}"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return str(answer.read().decode())


def say(project: RunningProject, *arguments: str) -> Any:
    """What a command answers, whether a promise was broken or not."""
    command, *names = arguments
    project.out.readouterr()
    main.run([command, *names, str(project.folder), "--json"])
    return json.loads(project.out.readouterr().out)


def of_contract(document: Mapping[str, Any]) -> Any:
    return next((one for one in document["contracts"] if one["id"] == CONTRACT), {})


def of_metrics(text: str) -> dict[str, float]:
    found = re.findall(rf'^(\w+){{contract="{CONTRACT}"}} (\S+)$', text, re.MULTILINE)
    return {METRICS[name]: float(value) for name, value in found if name in METRICS}


DOORS: Mapping[str, Callable[[RunningProject], Any]] = {
    "status": lambda project: of_contract(say(project, "status")),
    "why": lambda project: say(project, "why", CONTRACT)["answers"][0]["measured"],
    "audit": lambda project: of_contract(say(project, "audit")),
    "show": lambda project: say(project, "show", CONTRACT),
    "/status": lambda project: of_contract(json.loads(fetch(project, "/status"))),
    "/audit": lambda project: of_contract(json.loads(fetch(project, "/audit"))),
    "/views": lambda project: json.loads(fetch(project, f"/views/{CONTRACT}")),
    "/why": lambda project: json.loads(fetch(project, f"/why/{CONTRACT}"))["answers"][0]["measured"],
    "/metrics": lambda project: of_metrics(fetch(project, "/metrics")),
}
SHOWN = {"lag_s": "lag_s", "violations": "violations", "episodes": "violations", "cost_h": "cost_h"}
"""What a number is called in documents, and what it is."""


@dataclass
class Comparison:
    """Numbers by the look that they are of, and the doors that showed each look."""

    numbers: dict[float, dict[str, float | None]] = field(default_factory=lambda: defaultdict(dict))
    doors: dict[float, set[str]] = field(default_factory=lambda: defaultdict(set))

    def ask_all(self, project: RunningProject) -> None:
        for door, ask in DOORS.items():
            answer = ask(project)
            at = answer["measured_at"]
            self.doors[at].add(door)
            for name, meaning in SHOWN.items():
                if name in answer:
                    told = self.numbers[at].setdefault(meaning, answer[name])
                    assert told == answer[name], f"{door} says otherwise: {meaning} is {answer[name]}, not {told}"

    def is_compared(self) -> bool:
        """Whether each door showed a look that another showed, too."""
        return {door for doors in self.doors.values() if len(doors) > 1 for door in doors} == DOORS.keys()

    def broken(self) -> list[dict[str, float | None]]:
        return [one for one in self.numbers.values() if (one.get("lag_s") or 0.0) > 4.0 and "violations" in one]


@contextmanager
def captures_stand_still(project: RunningProject) -> Iterator[None]:
    stopped = children(project.process()["pid"])
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)


def test_all_doors_show_the_same_numbers_and_a_lag_above_the_promise_is_a_violation(project: RunningProject) -> None:
    project.declare("counts", "by_pid")
    project.up()
    seen = Comparison()

    def ask(is_enough: Callable[[], bool]) -> bool:
        seen.ask_all(project)
        return is_enough()

    until(lambda: ask(seen.is_compared), "each door showed a look that another showed, too")
    with captures_stand_still(project):
        until(lambda: ask(lambda: bool(seen.broken())), "the promise is broken")
    assert all((one["violations"] or 0) >= 1 for one in seen.broken())
