"""What operators of plans mean in simulations, for plans and queries alike.

What a plan document does not say is made up: aggregates add up checksums, derivations are stand-ins that are as
sensitive to what they read as the operators they stand for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from headrace.testing.plan_predicates import VALUES, checksum, is_chosen, value_of

Stamp = tuple[int, int]
Row = Mapping[str, Any]
"""The source rows that are joined, by alias; a source row maps columns to values."""
Key = tuple[tuple[str, Any], ...]
Change = tuple[Stamp, Key, int]

PAIRED = ("left", "right", "full", "semi", "anti", "union_all")


def reads_of(view: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(alias, source) of everything that a view reads."""
    return [(read, read) if isinstance(read, str) else (read["alias"], read["source"]) for read in view["sources"]]


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


def aggregate_rows(name: str, aggregate: Mapping[str, Any], rows: Counter[Key]) -> Counter[Key]:
    return outputs_of(name, sums_of(aggregate, rows))


def derive_rows(name: str, derive: Mapping[str, Any], inputs: list[Counter[Key]]) -> Counter[Key]:
    """A stand-in for each kind of operator: it reads the same inputs, and is as sensitive to what they hold."""
    kind, present = derive["kind"], [Counter({row: w for row, w in rows.items() if w}) for rows in inputs]
    if kind == "union_all":
        return Counter({((name, row),): weight for rows in present for row, weight in rows.items()})
    if len(present) == 2:
        return _pair_rows(name, kind, repr(derive["args"]), present[0], present[1])
    rows = sorted({checksum(row) % 16 for row, weight in present[0].items() if weight > 0})
    return Counter({((name, (("", value),)),): 1 for value in (rows[:3] if kind == "topk" else rows)})


def _pair_rows(name: str, kind: str, on: str, left: Counter[Key], right: Counter[Key]) -> Counter[Key]:
    found: Counter[Key] = Counter()
    met_right: set[Key] = set()
    for one, weight in left.items():
        partners = [other for other in right if is_chosen(on, one, other)]
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


def by_time(log: Iterable[Change]) -> Iterator[tuple[int, list[tuple[Key, int]]]]:
    times: dict[int, list[tuple[Key, int]]] = {}
    for (time, _), row, weight in log:
        times.setdefault(time, []).append((row, weight))
    yield from sorted(times.items())


def difference(time: int, before: Counter[Key], after: Counter[Key]) -> Iterator[Change]:
    for row in before.keys() | after.keys():
        if after[row] != before[row]:
            yield (time, 0), row, after[row] - before[row]
