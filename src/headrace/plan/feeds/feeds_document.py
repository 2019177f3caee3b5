"""An instance of kind `feeds`: producers, the consumers who follow them, prices, and perhaps a latency target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, repeat

import numpy as np

from headrace.model.errors import nearest_name
from headrace.plan.exact_fields import DocumentFields
from headrace.plan.exact_json import Path
from headrace.plan.feeds.amounts import Amounts, Positions
from headrace.plan.feeds.instance import Feeds, Latency, MeanPulls, Model, Percentile, Pricing

MOST_SHOWN = 100_000
"""Events of a feed."""

MOST_PULLS = 2**31 - 1

WITH_LATENCY = (Model.RPC, Model.BATCH)
"""The others price a query by which events are newest, and say nothing about how many producers it waits for."""


@dataclass(frozen=True, slots=True)
class NamedFeeds:
    """An instance with the names behind its positions."""

    feeds: Feeds
    latency: Latency | None
    consumers: tuple[str, ...]
    producers: tuple[str, ...]

    def pairs(self, numbers: Positions) -> list[tuple[str, str]]:
        """Consumer and producer of each of these pairs."""
        consumers = map(self.consumers.__getitem__, self.feeds.consumer[numbers].tolist())
        producers = map(self.producers.__getitem__, self.feeds.producer[numbers].tolist())
        return list(zip(consumers, producers, strict=True))

    def find(self, who: str, whom: str) -> int | None:
        """The number of the pair of a consumer and a producer."""
        if who not in self.consumers or whom not in self.producers:
            return None
        consumer, producer = self.consumers.index(who), self.producers.index(whom)
        found = np.flatnonzero((self.feeds.consumer == consumer) & (self.feeds.producer == producer))
        return int(found[0]) if len(found) else None


def read_feeds(fields: DocumentFields, document: object) -> NamedFeeds:
    known = ("kind", "H", "L", "L0", "model", "k", "producers", "consumers", "latency")
    given = fields.fields(document, (), "the instance", known, ("producers", "consumers"))
    pricing = Pricing(
        fields.choice(given.get("model", "batch"), ("model",), "the model", Model),
        fields.amount(given.get("L0", 0), ("L0",), 'the price of a batch, "L0",'),
        fields.integer(given.get("k", 10), ("k",), 'the number of events shown, "k",', 1, MOST_SHOWN),
    )
    latency = _read_latency(fields, given["latency"], pricing.model) if given.get("latency") is not None else None
    producers = _read_producers(fields, given)
    consumers = fields.members(given.get("consumers", {}), ("consumers",), '"consumers"')
    query_rate, consumer, producer = _read_consumers(fields, consumers, producers.position)
    fields.end()
    feeds = Feeds(producers.event_rate, query_rate, producers.store, producers.fetch, consumer, producer, pricing)
    return NamedFeeds(feeds, latency, tuple(consumers), tuple(producers.position))


def _read_latency(fields: DocumentFields, value: object, model: Model) -> Latency:
    path: Path = ("latency",)
    kind = fields.members(value, path, '"latency"').get("kind")
    if model not in WITH_LATENCY:
        fields.wrong(path, f'a latency target does not go with model "{model}"', 'it goes with "rpc" and "batch"')
    if kind == "percentile":
        given = fields.fields(value, path, '"latency"', ("kind", "q", "max_pulls"), ("q", "max_pulls"))
        share = fields.share(given.get("q", 1), (*path, "q"), 'the share of queries, "q",')
        most = fields.integer(given.get("max_pulls", 0), (*path, "max_pulls"), '"max_pulls"', 0, MOST_PULLS)
        return Percentile(share, most)
    if kind != "mean_pulls":
        fields.wrong((*path, "kind"), 'the kind of a latency target must be "mean_pulls" or "percentile"')
    given = fields.fields(value, path, '"latency"', ("kind", "max"), ("max",))
    return MeanPulls(fields.amount(given.get("max", 0), (*path, "max"), 'the mean number of pulls, "max",'))


@dataclass(frozen=True, slots=True)
class _Producers:
    position: dict[str, int]
    event_rate: Amounts
    store: Amounts
    fetch: Amounts


def _read_producers(fields: DocumentFields, given: Mapping[str, object]) -> _Producers:
    members = fields.members(given.get("producers", {}), ("producers",), '"producers"')
    rates: list[Fraction] = []
    own_prices: dict[str, dict[int, Fraction]] = {"H": {}, "L": {}}
    for number, (name, value) in enumerate(members.items()):
        path: Path = ("producers", name)
        if isinstance(value, dict):
            entry = fields.fields(value, path, f'producer "{name}"', ("rate", "H", "L"), ("rate",))
            for price in own_prices.keys() & entry.keys():
                own_prices[price][number] = fields.amount(
                    entry[price], (*path, price), f'"{price}" of producer "{name}"'
                )
            value, path = entry.get("rate", 0), (*path, "rate")
        rates.append(fields.amount(value, path, f'the rate of producer "{name}"'))
    store, fetch = (_prices(fields, given, price, own_prices[price], len(rates)) for price in ("H", "L"))
    return _Producers({name: number for number, name in enumerate(members)}, Amounts.of(rates), store, fetch)


def _prices(
    fields: DocumentFields, given: Mapping[str, object], name: str, own: dict[int, Fraction], count: int
) -> Amounts:
    """Prices by producer: its own, or that of the instance, which is needed if one has none."""
    if name not in given and len(own) < count:
        fields.wrong((), f'the instance has no "{name}"', "H is the price of storing an event, L that of one pull")
    general = fields.amount(given.get(name, 0), (name,), f'"{name}"')
    if not own:
        return Amounts.constant(general, count)
    return Amounts.of(own.get(number, general) for number in range(count))


def _read_consumers(
    fields: DocumentFields, consumers: dict[str, object], position: dict[str, int]
) -> tuple[Amounts, Positions, Positions]:
    rates: list[Fraction] = []
    follows: list[list[object]] = []
    for name, value in consumers.items():
        path: Path = ("consumers", name)
        entry = fields.fields(value, path, f'consumer "{name}"', ("rate", "follows"), ("rate",))
        rates.append(fields.amount(entry.get("rate", 0), (*path, "rate"), f'the rate of consumer "{name}"'))
        follows.append(fields.items(entry.get("follows", []), (*path, "follows"), f'what consumer "{name}" follows'))
    consumer = np.repeat(np.arange(len(follows)), list(map(len, follows)))
    producer = np.array(_look_up(follows, position), dtype=np.int64)
    keys = np.sort(consumer * max(1, len(position)) + producer)
    if (producer < 0).any() or (keys[1:] == keys[:-1]).any():
        _report_follows(fields, consumers, follows, position)
    return Amounts.of(rates), consumer, producer


def _look_up(follows: list[list[object]], position: dict[str, int]) -> list[int]:
    """-1 for what is not the name of a producer; lists and objects cannot even be looked up."""
    try:
        return list(map(position.get, chain.from_iterable(follows), repeat(-1)))  # type: ignore[arg-type]
    except TypeError:
        return [position.get(name, -1) if isinstance(name, str) else -1 for name in chain.from_iterable(follows)]


def _report_follows(
    fields: DocumentFields, consumers: dict[str, object], follows: list[list[object]], position: dict[str, int]
) -> None:
    entries = chain.from_iterable(
        zip(repeat(name), enumerate(some)) for name, some in zip(consumers, follows, strict=True)
    )
    seen: set[tuple[str, str]] = set()
    for consumer, (number, producer) in entries:
        path: Path = ("consumers", consumer, "follows", number)
        if not isinstance(producer, str):
            fields.wrong(path, f'consumer "{consumer}" follows something that is not the name of a producer')
        elif producer not in position:
            hint = nearest_name(producer, position) or 'producers are declared under "producers"'
            fields.wrong(path, f'consumer "{consumer}" follows an unknown producer, "{producer}"', hint)
        elif (consumer, producer) in seen:
            fields.wrong(path, f'consumer "{consumer}" follows producer "{producer}" twice', "leave one out")
        else:
            seen.add((consumer, producer))
