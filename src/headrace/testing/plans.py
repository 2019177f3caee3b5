"""Runs a plan document on random data, and compares every view with its query evaluated directly.

Only the document is read. What it does not say (what a function in a predicate means, what an aggregate computes) is
made up, the same way for the plan and for the query.
Plans that lose, double or misplace a change give other rows than the query; so do plans that lose a condition.

A change is (timestamp, row, weight). A timestamp is (t, o): t is the time of the transaction, o the order of the alias,
so that of two changes that meet in a join one is always the later. Every vertex advances in intervals of its own.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.testing.plan_operators import (
    PAIRED,
    Change,
    Key,
    aggregate_rows,
    derive_rows,
    plain,
    reads_of,
    times,
)
from headrace.testing.plan_predicates import VALUES, predicates_of, value_of
from headrace.testing.plan_run import PlanRun


def simulate(document: Mapping[str, Any], seed: int = 0, changes: int = 40) -> list[str]:
    """The contracts whose views hold other rows than their queries give; empty if all is well."""
    world = PlannedWorld(document, random.Random(seed), changes)
    return [contract["id"] for contract in document["contracts"] if not world.agrees(contract)]


@dataclass
class PlannedWorld:
    """Sources with their histories, and what the plan makes of them."""

    document: Mapping[str, Any]
    rng: random.Random
    changes: int

    def __post_init__(self) -> None:
        self.views = {view["id"]: view for view in self.document["views"]}
        self.holds = predicates_of(self.document).holds
        self.history = dict(self._histories())
        self.end = self.changes + 1
        self.run = PlanRun(self.document, self.history, self.rng, self.end)

    # Sources

    def _histories(self) -> Iterator[tuple[str, list[Change]]]:
        """Inserts and deletes; several rows may change at one time. What never changes is there before everything."""
        for number, source in enumerate(self.document["catalogue"]["sources"]):
            present: list[Key] = []
            log: list[Change] = []
            for time in range(1, self.changes + 1) if not source.get("static") else [-1 - number] * 4:
                if self.rng.random() < 0.5 and not source.get("static"):
                    continue
                for _ in range(self.rng.choice((1, 1, 2))):
                    if present and self.rng.random() < 0.3:
                        log.append(((time, 0), present.pop(self.rng.randrange(len(present))), -1))
                    else:
                        row = tuple((column, self.rng.randrange(VALUES)) for column in sorted(source["cols"]))
                        present.append(row)
                        log.append(((time, 0), row, 1))
            yield source["id"], log

    # The query

    def agrees(self, contract: Mapping[str, Any]) -> bool:
        """The view at the end, and as of some earlier time."""
        log = self.run.logs[contract["vertex"]]
        for time in (self.end, self.rng.randrange(self.end)):
            kept: Counter[Key] = Counter()
            for (when, _), row, weight in log:
                if when <= time:
                    kept[plain(row)] += weight
            rows = self.evaluate(contract.get("block", contract["view"]), time)
            wanted = Counter({plain(row): weight for row, weight in rows.items()})
            if {k: w for k, w in kept.items() if w} != {k: w for k, w in wanted.items() if w}:
                return False
        return True

    def contents(self, name: str, time: int) -> Counter[Key]:
        """The rows of a source or block at a time; each as one alias named like it."""
        found: Counter[Key] = Counter()
        if name in self.views:
            for row, weight in self.evaluate(name, time).items():
                value = row[0][1] if len(row) == 1 and row[0][0] == name else row
                found[((name, value),)] += weight
        else:
            for (when, _), row, weight in self.history[name]:
                if when <= time:
                    found[((name, row),)] += weight
        return found

    def evaluate(self, name: str, time: int) -> Counter[Key]:
        view = self.views[name]
        derive = view.get("derive")
        if derive is not None and derive["kind"] in PAIRED:
            inputs = [self._filter_rows(view, alias, source, time) for alias, source in reads_of(view)]
            return derive_rows(name, derive, inputs)
        core: Counter[Key] = Counter({(): 1})
        for alias, source in reads_of(view):
            core = times(core, self._filter_rows(view, alias, source, time))
        core = Counter({row: weight for row, weight in core.items() if self._meets(view, row)})
        if view.get("aggregate") is not None:
            return aggregate_rows(name, view["aggregate"], core)
        return core if derive is None else derive_rows(name, derive, [core])

    def _filter_rows(self, view: Mapping[str, Any], alias: str, source: str, time: int) -> Counter[Key]:
        texts = [text for filtered, text, _ in view["filters"] if filtered == alias]
        return Counter(
            {
                ((alias, row[0][1]),): weight
                for row, weight in self.contents(source, time).items()
                if weight and all(self.holds(text, row[0][1]) for text in texts)
            }
        )

    def _meets(self, view: Mapping[str, Any], row: Key) -> bool:
        by_alias = dict(row)
        for class_ in view["classes"]:
            if len({value_of(by_alias[alias], column) for alias, column in class_}) > 1:
                return False
        return all(
            self.holds(text, *(by_alias[a] for a in sorted(aliases))) for aliases, text, _ in view.get("residual", ())
        )
