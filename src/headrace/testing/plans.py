"""Runs a plan document on random data, and compares every view with its query evaluated directly.

Only the document is read. What it does not say (what a predicate's text means, what an aggregate computes) is made up,
the same way for the plan and for the query: a predicate holds for a row or not by a checksum of its text and the row.
Plans that lose, double or misplace a change give other rows than the query; so do plans that lose a condition.

A change is (timestamp, row, weight). A timestamp is (t, o): t is the time of the transaction, o the order of the alias,
so that of two changes that meet in a join one is always the later. Every vertex advances in intervals of its own.
"""

from __future__ import annotations

import random
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Any

Stamp = tuple[int, int]
Row = Mapping[str, Any]
"""The source rows that are joined, by alias; a source row maps columns to values."""
Key = tuple[tuple[str, Any], ...]
Change = tuple[Stamp, Key, int]

VALUES = 3
"""Columns have this many values, so that random rows often meet."""


def simulate(document: Mapping[str, Any], seed: int = 0, changes: int = 40) -> list[str]:
    """The contracts whose views hold other rows than their queries give; empty if all is well."""
    world = World(document, random.Random(seed), changes)
    return [contract["id"] for contract in document["contracts"] if not world.agrees(contract)]


def checksum(*parts: object) -> int:
    return zlib.crc32(repr(parts).encode())


def holds(text: str, *rows: object) -> bool:
    """Whether a predicate is true, for two rows of three."""
    return checksum(text, *rows) % 3 != 0


@dataclass
class World:
    """Sources with their histories, and what the plan makes of them."""

    document: Mapping[str, Any]
    rng: random.Random
    changes: int
    logs: dict[str, list[Change]] = field(default_factory=dict)
    """Changes of every vertex, relations included: a relation at a time is the sum of its changes until then."""

    def __post_init__(self) -> None:
        self.vertices = {vertex["id"]: vertex for vertex in self.document["vertices"]}
        self.views = {view["id"]: view for view in self.document["views"]}
        self.reads = {alias: source for view in self.views.values() for alias, source in reads_of(view)}
        self.order = {alias: number for number, alias in enumerate(sorted(self.reads))}
        self.history = dict(self._histories())
        self.end = self.changes + 1
        self._run()

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

    # The plan

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

    # The query

    def agrees(self, contract: Mapping[str, Any]) -> bool:
        """The view at the end, and as of some earlier time."""
        log = self.logs[contract["vertex"]]
        for time in (self.end, self.rng.randrange(self.end)):
            kept: Counter[Key] = Counter()
            for (when, _), row, weight in log:
                if when <= time:
                    kept[plain(row)] += weight
            wanted = Counter({plain(row): weight for row, weight in self.evaluate(contract["view"], time).items()})
            if {k: w for k, w in kept.items() if w} != {k: w for k, w in wanted.items() if w}:
                return False
        return True

    def only_joins(self, source: str) -> bool:
        """Whether this is a block without an operator on top."""
        view = self.views.get(source, {"aggregate": {}})
        return view.get("aggregate") is None and view.get("derive") is None

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
            inputs = [self._filtered(view, alias, source, time) for alias, source in reads_of(view)]
            return derived(name, derive, inputs)
        core: Counter[Key] = Counter({(): 1})
        for alias, source in reads_of(view):
            core = times(core, self._filtered(view, alias, source, time))
        core = Counter({row: weight for row, weight in core.items() if self._meets(view, row)})
        if view.get("aggregate") is not None:
            return aggregated(name, view["aggregate"], core)
        return core if derive is None else derived(name, derive, [core])

    def _filtered(self, view: Mapping[str, Any], alias: str, source: str, time: int) -> Counter[Key]:
        texts = [text for filtered, text, _ in view["filters"] if filtered == alias]
        return Counter(
            {
                ((alias, row[0][1]),): weight
                for row, weight in self.contents(source, time).items()
                if weight and all(holds(text, row[0][1]) for text in texts)
            }
        )

    def _meets(self, view: Mapping[str, Any], row: Key) -> bool:
        by_alias = dict(row)
        for class_ in view["classes"]:
            if len({value_of(by_alias[alias], column) for alias, column in class_}) > 1:
                return False
        return all(
            holds(text, *(by_alias[a] for a in sorted(aliases))) for aliases, text, _ in view.get("residual", ())
        )


@dataclass
class Made:
    """What one edge makes of its inputs, interval by interval."""

    world: World
    edge: Mapping[str, Any]

    def changes(self) -> Iterator[Change]:
        op = self.edge["op"]
        if op in ("capture", "copy", "apply"):
            return self._passed()
        if op == "union":
            return (change for name in self.edge["in"] for change in self.world.logs[name])
        if op == "join":
            return self._joined()
        return self._aggregated() if op == "aggregate" else self._derived()

    def _passed(self) -> Iterator[Change]:
        texts = list(self.edge["select"].values())
        for stamp, row, weight in self.world.logs[self.edge["in"][0]]:
            if all(holds(text, row[0][1]) for text in texts):
                yield stamp, row, weight

    def _cuts(self) -> list[int]:
        """Ends of the intervals in which this edge's output advances."""
        rng, end = self.world.rng, self.world.end
        return [*sorted(rng.sample(range(1, end), k=rng.randrange(1, 6))), end]

    # Joins

    def _joined(self) -> Iterator[Change]:
        vertices = [self.world.vertices[name] for name in self.edge["in"]]
        delta, relation = sorted(vertices, key=lambda vertex: vertex["kind"] != "delta")
        out = self.world.vertices[self.edge["out"]]
        delta_alias, relation_alias = self._aliases(delta, relation, out)
        log = list(self.world.rename(self.world.logs[relation["id"]], relation_alias))
        changes = list(self.world.rename(self.world.logs[delta["id"]], delta_alias))
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
        for alias, text in self.edge["select"].items():
            if not holds(text, row[alias]):
                return False
        residuals = self.edge.get("residual", ())
        return all(holds(text, *(row[alias] for alias in sorted(aliases))) for aliases, text in residuals)

    def _aliases(self, delta: Any, relation: Any, out: Any) -> tuple[str | None, str | None]:
        """Under which aliases single sources enter; None for what is joined already."""
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
        return next((a for a in candidates if a == source or self.world.reads.get(a) == source), source)

    # Operators on top

    def _view(self, matches: Callable[[Mapping[str, Any]], bool]) -> Mapping[str, Any]:
        """The block that an edge works for: of several, the one that the output's scope names."""
        found = [view for view in self.world.views.values() if matches(view)]
        scope = self.world.vertices[self.edge["out"]]["scope"]
        return next((view for view in found if view["id"] in scope), found[0] if found else {"id": "?", "sources": []})

    def _single_alias(self, view: Mapping[str, Any], name: str) -> str | None:
        scope = self.world.vertices[name]["scope"]
        sources = {source: alias for alias, source in reads_of(view)}
        return sources.get(scope[0]) if len(scope) == 1 else None

    def _aggregated(self) -> Iterator[Change]:
        wanted = dict(self.edge["aggregate"])
        stage = wanted.pop("stage")
        name = self.edge["in"][0]
        scope = set(self.world.vertices[name]["scope"])

        def matches(view: Mapping[str, Any]) -> bool:
            aliases, sources = zip(*reads_of(view), strict=True)
            return view.get("aggregate") == wanted and scope in (set(aliases), set(sources))

        view = self._view(matches)
        texts = list(self.edge["select"].values())
        changes = list(self.world.rename(self.world.logs[name], self._single_alias(view, name)))
        log = [change for change in changes if all(holds(text, change[1][0][1]) for text in texts)]
        state: Counter[Key] = Counter()
        for time, batch in _by_time(log):
            before = self._groups(stage, view, wanted, state)
            for row, weight in batch:
                state[row] += weight
            after = self._groups(stage, view, wanted, state)
            yield from _difference(time, before, after)

    def _groups(
        self, stage: str, view: Mapping[str, Any], wanted: Mapping[str, Any], rows: Counter[Key]
    ) -> Counter[Key]:
        if stage == "full":
            return aggregated(view["id"], wanted, rows)
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

    def _derived(self) -> Iterator[Change]:
        """The output before and after every time: derivations have no cheaper meaning."""
        deltas = [name for name in self.edge["in"] if self.world.vertices[name]["kind"] == "delta"]

        def matches(view: Mapping[str, Any]) -> bool:
            return view.get("derive") == self.edge["derive"] and self._inputs(view, deltas) is not None

        view = self._view(matches)
        inputs = self._inputs(view, deltas)
        assert inputs is not None, f"no view derives {self.edge['out']}"
        logs = [list(self._named(*input_)) for input_ in inputs]
        states: list[Counter[Key]] = [Counter() for _ in logs]
        for time in sorted({stamp[0] for log in logs for stamp, _, _ in log}):
            before = derived(view["id"], self.edge["derive"], states)
            for state, log in zip(states, logs, strict=True):
                for (when, _), row, weight in log:
                    if when == time:
                        state[row] += weight
            yield from _difference(time, before, derived(view["id"], self.edge["derive"], states))

    def _inputs(self, view: Mapping[str, Any], deltas: list[str]) -> list[tuple[str, str | None, str | None]] | None:
        """What a view reads: deltas with their aliases and sources; or the one join that it is made of.

        None if these are not its deltas.
        """
        reads = reads_of(view)
        scopes = [set(self.world.vertices[name]["scope"]) for name in deltas]
        if len(deltas) == 1 and len(reads) > 1 and scopes[0] == {alias for alias, _ in reads}:
            return [(deltas[0], None, None)]
        found: list[tuple[str, str | None, str | None]] = []
        left = list(zip(deltas, scopes, strict=True))
        for alias, source in reads:
            wanted = {source}
            if self.world.only_joins(source):
                inner = reads_of(self.world.views[source])
                wanted = {name for pair in inner for name in pair[1 if len(inner) == 1 else 0 :][:1]}
            match = next((entry for entry in left if entry[1] == wanted), None)
            if match is None:
                return None
            left.remove(match)
            found.append((match[0], alias, source))
        return None if left else found

    def _named(self, name: str, alias: str | None, source: str | None) -> Iterator[Change]:
        """An input as the view reads it: by its alias, and filtered if the edge says so."""
        for stamp, row, weight in self.world.logs[name]:
            if alias is None or source is None:
                yield stamp, row, weight
                continue
            if self.world.only_joins(source):
                inner = reads_of(self.world.views[source])
                value: Any = ((inner[0][0], row[0][1]),) if len(inner) == 1 else row
            else:
                value = row[0][1]
            text = self.edge["select"].get(alias)
            if text is None or holds(text, row[0][1]):
                yield stamp, ((alias, value),), weight


# What operators mean, for plans and queries alike

PAIRED = ("left", "right", "full", "semi", "anti", "union_all")


def reads_of(view: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(alias, source) of everything that a view reads."""
    return [(read, read) if isinstance(read, str) else (read["alias"], read["source"]) for read in view["sources"]]


def value_of(row: Any, column: str) -> Any:
    """The column of a source row; of a block's output, a made-up one."""
    for name, value in row if isinstance(row, tuple) and all(isinstance(x, tuple) and len(x) == 2 for x in row) else ():
        if name == column:
            return value
    return checksum(column, row) % VALUES


def times(left: Counter[Key], right: Counter[Key]) -> Counter[Key]:
    product: Counter[Key] = Counter()
    for one, weight in left.items():
        for other, other_weight in right.items():
            product[tuple(sorted(one + other))] += weight * other_weight
    return product


def sums_of(aggregate: Mapping[str, Any], rows: Counter[Key]) -> dict[Key, tuple[int, int]]:
    """Count and a checksum for each group: both add up over changes."""
    found: dict[Key, list[int]] = {}
    for row, weight in rows.items():
        by_alias = dict(row)
        group = tuple(
            (column, value_of(by_alias[alias], column) if alias in by_alias else checksum(column, row) % VALUES)
            for alias, column in aggregate["group_by"]
        )
        sums = found.setdefault(group, [0, 0])
        sums[0] += weight
        sums[1] += weight * (checksum(aggregate["functions"], row) % 1000)
    return {group: (sums[0], sums[1]) for group, sums in found.items()}


def outputs_of(name: str, sums: Mapping[Key, tuple[int, int]]) -> Counter[Key]:
    return Counter({((name, (*group, ("", pair))),): 1 for group, pair in sums.items() if pair[0]})


def aggregated(name: str, aggregate: Mapping[str, Any], rows: Counter[Key]) -> Counter[Key]:
    return outputs_of(name, sums_of(aggregate, rows))


def derived(name: str, derive: Mapping[str, Any], inputs: list[Counter[Key]]) -> Counter[Key]:
    """A stand-in for each kind of operator: it reads the same inputs, and is as sensitive to what they hold."""
    kind, present = derive["kind"], [Counter({row: w for row, w in rows.items() if w}) for rows in inputs]
    if kind == "union_all":
        return Counter({((name, row),): weight for rows in present for row, weight in rows.items()})
    if len(present) == 2:
        return _paired(name, kind, repr(derive["args"]), present[0], present[1])
    rows = sorted({checksum(row) % 16 for row, weight in present[0].items() if weight > 0})
    return Counter({((name, (("", value),)),): 1 for value in (rows[:3] if kind == "topk" else rows)})


def _paired(name: str, kind: str, on: str, left: Counter[Key], right: Counter[Key]) -> Counter[Key]:
    found: Counter[Key] = Counter()
    met_right: set[Key] = set()
    for one, weight in left.items():
        partners = [other for other in right if holds(on, one, other)]
        met_right.update(partners)
        if kind in ("semi", "anti"):
            if bool(partners) == (kind == "semi"):
                found[((name, one),)] += weight
            continue
        for other in partners:
            found[((name, (one, other)),)] += weight * right[other]
        if not partners and kind in ("left", "full"):
            found[((name, (one, None)),)] += weight
    for other in right if kind in ("right", "full") else ():
        if other not in met_right:
            found[((name, (None, other)),)] += right[other]
    return found


def plain(row: Key) -> Any:
    """A row without the names that different views give to the same."""
    return row[0][1] if len(row) == 1 else row


def _by_time(log: Iterable[Change]) -> Iterator[tuple[int, list[tuple[Key, int]]]]:
    times: dict[int, list[tuple[Key, int]]] = {}
    for (time, _), row, weight in log:
        times.setdefault(time, []).append((row, weight))
    yield from sorted(times.items())


def _difference(time: int, before: Counter[Key], after: Counter[Key]) -> Iterator[Change]:
    for row in before.keys() | after.keys():
        if after[row] != before[row]:
            yield (time, 0), row, after[row] - before[row]
