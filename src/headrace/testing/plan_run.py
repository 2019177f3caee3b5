"""Executes the edges of a plan document on histories of changes: every vertex gets the log of its changes.

A change is (timestamp, row, weight). A timestamp is (t, o): t is the time of the transaction, o the order of the alias,
so that of two changes that meet in a join one is always the later, and meets the other side as it was just before.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Any

from headrace.testing.plan_operators import (
    Change,
    Key,
    Row,
    Stamp,
    aggregate_rows,
    by_time,
    derive_rows,
    difference,
    outputs_of,
    reads_of,
    sums_of,
)
from headrace.testing.plan_predicates import predicates_of, value_of


@dataclass
class PlanRun:
    """`history` has the changes of every source, `logs` those of every vertex: a relation at a time is their sum."""

    document: Mapping[str, Any]
    history: Mapping[str, list[Change]]
    rng: random.Random
    end: int
    logs: dict[str, list[Change]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.vertices = {vertex["id"]: vertex for vertex in self.document["vertices"]}
        self.views = {view["id"]: view for view in self.document["views"]}
        self.holds = predicates_of(self.document).holds
        self.reads = {alias: source for view in self.views.values() for alias, source in reads_of(view)}
        self.order = {alias: number for number, alias in enumerate(sorted(self.reads))}
        self._run()

    def _run(self) -> None:
        producers: dict[str, list[Any]] = {}
        for edge in self.document["edges"]:
            producers.setdefault(edge["out"], []).append(edge)
        for vertex in self.document["vertices"]:
            if vertex["base"] and vertex["kind"] != "delta":
                (name,) = vertex["scope"]
                self.logs[vertex["id"]] = [(stamp, ((name, row),), weight) for stamp, row, weight in self.history[name]]
            elif vertex["id"] not in producers:
                self.logs[vertex["id"]] = []
        order = TopologicalSorter({out: [i for e in edges for i in e["in"]] for out, edges in producers.items()})
        for name in order.static_order():
            if name in producers:
                made = [change for edge in producers[name] for change in Made(self, edge).changes()]
                self.logs[name] = sorted(made, key=lambda change: change[0])

    def rename(self, changes: Iterable[Change], alias: str | None) -> Iterator[Change]:
        """A single source under an alias: its changes get the alias's place in the order."""
        for (time, place), row, weight in changes:
            if alias is None or len(row) != 1:
                yield (time, place), row, weight
            else:
                yield (time, self.order.get(alias, 0)), ((alias, row[0][1]),), weight

    def only_joins(self, source: str) -> bool:
        """Whether this is a block without an operator on top."""
        view = self.views.get(source, {"aggregate": {}})
        return view.get("aggregate") is None and view.get("derive") is None


@dataclass
class Made:
    """What one edge makes of its inputs, interval by interval."""

    run: PlanRun
    edge: Mapping[str, Any]

    def changes(self) -> Iterator[Change]:
        op = self.edge["op"]
        if op in ("capture", "copy", "apply"):
            return self._pass_changes()
        if op == "union":
            return (change for name in self.edge["in"] for change in self.run.logs[name])
        if op == "join":
            return self._join_changes()
        return self._aggregate_changes() if op == "aggregate" else self._derive_changes()

    def _pass_changes(self) -> Iterator[Change]:
        for stamp, row, weight in self.run.logs[self.edge["in"][0]]:
            if self._is_selected(row):
                yield stamp, row, weight

    def _is_selected(self, row: Key) -> bool:
        """Whether a row passes the filters of the edge, each on the row of its alias; a single row goes by any name."""
        by_alias = dict(row)
        filters = self.edge["select"].items()
        return all(self.run.holds(text, row[0][1] if len(row) == 1 else by_alias[alias]) for alias, text in filters)

    def _cuts(self) -> list[int]:
        """Ends of the intervals in which this edge's output advances."""
        rng, end = self.run.rng, self.run.end
        return [*sorted(rng.sample(range(1, end), k=rng.randrange(1, 6))), end]

    # Joins

    def _join_changes(self) -> Iterator[Change]:
        vertices = [self.run.vertices[name] for name in self.edge["in"]]
        delta, relation = sorted(vertices, key=lambda vertex: vertex["kind"] != "delta")
        out = self.run.vertices[self.edge["out"]]
        delta_alias, relation_alias = self._aliases(delta, relation, out)
        log = list(self.run.rename(self.run.logs[relation["id"]], relation_alias))
        changes = list(self.run.rename(self.run.logs[delta["id"]], delta_alias))
        done = -1000
        for cut in self._cuts():
            for stamp, row, weight in changes:
                if done < stamp[0] <= cut:
                    yield from self._partners(stamp, row, weight, log)
            done = cut

    def _partners(self, stamp: Stamp, row: Key, weight: int, log: list[Change]) -> Iterator[Change]:
        """A change meets the other side as it was just before."""
        for other_stamp, other, other_weight in log:
            if other_stamp < stamp:
                pair = tuple(sorted(row + other))
                if self._meets(dict(pair)):
                    yield stamp, pair, weight * other_weight

    def _meets(self, row: Row) -> bool:
        for (first, column), (second, other) in self.edge["on"]:
            if value_of(row[first], column) != value_of(row[second], other):
                return False
        if not self._is_selected(tuple(row.items())):
            return False
        residuals = self.edge.get("residual", ())
        return all(self.run.holds(text, *(row[alias] for alias in sorted(aliases))) for aliases, text in residuals)

    def _aliases(self, delta: Any, relation: Any, out: Any) -> tuple[str | None, str | None]:
        """The aliases under which single sources enter; None for what is joined already."""
        scope = set(out["scope"])
        changed = None
        if len(delta["scope"]) == 1:
            others = set(relation["scope"]) if len(relation["scope"]) > 1 else set()
            known = out["delta_of"] if len(out["delta_of"]) == 1 else sorted(scope - others)
            changed = self._alias(delta["scope"][0], known)
        kept = None
        if len(relation["scope"]) == 1:
            others = {changed} if changed is not None else set(delta["scope"])
            kept = self._alias(relation["scope"][0], sorted(scope - others))
        return changed, kept

    def _alias(self, source: str, candidates: Iterable[str]) -> str:
        return next((a for a in candidates if a == source or self.run.reads.get(a) == source), source)

    # Operators on top

    def _view(self, matches: Callable[[Mapping[str, Any]], bool]) -> Mapping[str, Any]:
        """The block that an edge works for: of several, the one that the output's scope names."""
        found = [view for view in self.run.views.values() if matches(view)]
        scope = self.run.vertices[self.edge["out"]]["scope"]
        return next((view for view in found if view["id"] in scope), found[0] if found else {"id": "?", "sources": []})

    def _single_alias(self, view: Mapping[str, Any], name: str) -> str | None:
        scope = self.run.vertices[name]["scope"]
        sources = {source: alias for alias, source in reads_of(view)}
        return sources.get(scope[0]) if len(scope) == 1 else None

    def _aggregate_changes(self) -> Iterator[Change]:
        wanted = dict(self.edge["aggregate"])
        stage = wanted.pop("stage")
        name = self.edge["in"][0]
        scope = set(self.run.vertices[name]["scope"])

        def matches(view: Mapping[str, Any]) -> bool:
            aliases, sources = zip(*reads_of(view), strict=True)
            return view.get("aggregate") == wanted and scope in (set(aliases), set(sources))

        view = self._view(matches)
        changes = self.run.rename(self.run.logs[name], self._single_alias(view, name))
        log = [change for change in changes if self._is_selected(change[1])]
        state: Counter[Key] = Counter()
        for time, batch in by_time(log):
            before = self._groups(stage, view, wanted, state)
            for row, weight in batch:
                state[row] += weight
            after = self._groups(stage, view, wanted, state)
            yield from difference(time, before, after)

    def _groups(
        self, stage: str, view: Mapping[str, Any], wanted: Mapping[str, Any], rows: Counter[Key]
    ) -> Counter[Key]:
        if stage == "full":
            return aggregate_rows(view["id"], wanted, rows)
        if stage == "partial":
            return Counter(
                {(("partial", (group, *sums)),): 1 for group, sums in sums_of(wanted, rows).items() if any(sums)}
            )
        totals: dict[Key, list[int]] = {}
        for row, weight in rows.items():
            group, count, total = row[0][1]
            sums = totals.setdefault(group, [0, 0])
            sums[0] += weight * count
            sums[1] += weight * total
        return outputs_of(view["id"], {group: (sums[0], sums[1]) for group, sums in totals.items()})

    def _derive_changes(self) -> Iterator[Change]:
        """The output before and after every time: derivations have no cheaper meaning."""
        deltas = [name for name in self.edge["in"] if self.run.vertices[name]["kind"] == "delta"]

        def matches(view: Mapping[str, Any]) -> bool:
            return view.get("derive") == self.edge["derive"] and self._inputs(view, deltas) is not None

        view = self._view(matches)
        inputs = self._inputs(view, deltas)
        assert inputs is not None, f"no view derives {self.edge['out']}"
        logs = [list(self._name_changes(*input_)) for input_ in inputs]
        states: list[Counter[Key]] = [Counter() for _ in logs]
        for time in sorted({stamp[0] for log in logs for stamp, _, _ in log}):
            before = derive_rows(view["id"], self.edge["derive"], states)
            for state, log in zip(states, logs, strict=True):
                for (when, _), row, weight in log:
                    if when == time:
                        state[row] += weight
            yield from difference(time, before, derive_rows(view["id"], self.edge["derive"], states))

    def _inputs(self, view: Mapping[str, Any], deltas: list[str]) -> list[tuple[str, str | None, str | None]] | None:
        """What a view reads: deltas with their aliases and sources; or the one join that it is made of.

        None if these are not its deltas.
        """
        reads = reads_of(view)
        scopes = [set(self.run.vertices[name]["scope"]) for name in deltas]
        if len(deltas) == 1 and len(reads) > 1 and scopes[0] == {alias for alias, _ in reads}:
            return [(deltas[0], None, None)]
        found: list[tuple[str, str | None, str | None]] = []
        left = list(zip(deltas, scopes, strict=True))
        for alias, source in reads:
            wanted = {source}
            if self.run.only_joins(source):
                inner = reads_of(self.run.views[source])
                wanted = {name for pair in inner for name in pair[1 if len(inner) == 1 else 0 :][:1]}
            match = next((entry for entry in left if entry[1] == wanted), None)
            if match is None:
                return None
            left.remove(match)
            found.append((match[0], alias, source))
        return None if left else found

    def _name_changes(self, name: str, alias: str | None, source: str | None) -> Iterator[Change]:
        """An input as the view reads it: by its alias, and filtered if the edge says so."""
        for stamp, row, weight in self.run.logs[name]:
            if alias is None or source is None:
                yield stamp, row, weight
                continue
            if self.run.only_joins(source):
                inner = reads_of(self.run.views[source])
                value: Any = ((inner[0][0], row[0][1]),) if len(inner) == 1 else row
            else:
                value = row[0][1]
            text = self.edge["select"].get(alias)
            if text is None or self.run.holds(text, row[0][1]):
                yield stamp, ((alias, value),), weight
