"""Which of several aliases of one source is `#1`: the numbering with which the block is written smallest.

All numberings are tried when there are few. Beyond that aliases are ordered by what is said of each, and only those
of which the same is said are tried in all orders, as far as that stays few: equal queries may then get different
numbers, different queries never equal ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import factorial, prod

from headrace.plan.canonical.expression_key import Json, compact

MAX_NUMBERINGS = 24

Numbering = Mapping[str, str]
"""Draft alias -> canonical alias."""


def numberings(identities: Mapping[str, str], said: Callable[[Numbering], Iterable[Json]]) -> Iterator[Numbering]:
    """Numberings to try. `identities` are what each alias reads; `said` are the block's parts under a given
    numbering.
    """
    groups = [
        sorted(alias for alias, of in identities.items() if of == one) for one in sorted(set(identities.values()))
    ]
    if prod(factorial(len(group)) for group in groups) <= MAX_NUMBERINGS:
        orders: list[list[Sequence[str]]] = [list(itertools.permutations(group)) for group in groups]
    else:
        orders = [_likely_orders(group, identities, said) for group in groups]
    for chosen in itertools.product(*orders):
        yield {
            alias: identities[alias] if len(group) == 1 else f"{identities[alias]}#{number}"
            for group in chosen
            for number, alias in enumerate(group, 1)
        }


def _likely_orders(
    group: Sequence[str], identities: Mapping[str, str], said: Callable[[Numbering], Iterable[Json]]
) -> list[Sequence[str]]:
    if len(group) == 1:
        return [group]
    signatures = {alias: _signature(alias, identities, said) for alias in group}
    ordered = sorted(group, key=lambda alias: signatures[alias])
    alike = [list(aliases) for _, aliases in itertools.groupby(ordered, key=lambda alias: signatures[alias])]
    if prod(factorial(len(aliases)) for aliases in alike) > MAX_NUMBERINGS:
        return [ordered]
    return [tuple(itertools.chain(*parts)) for parts in itertools.product(*map(itertools.permutations, alike))]


def _signature(alias: str, identities: Mapping[str, str], said: Callable[[Numbering], Iterable[Json]]) -> str:
    """What is said of an alias when nothing else tells aliases of one source apart."""
    only = {other: f"{of}#self" if other == alias else of for other, of in identities.items()}
    return "\n".join(sorted(text for part in said(only) if "#self" in (text := compact(part))))
