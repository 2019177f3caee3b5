"""Nexmark's events: people who join, auctions that they open, and bids, 1 : 3 : 46, as Arrow; all from a seed.

Proportions, sizes of rows and who does what are those of the public generator (Apache Beam's, which Flink's benchmark
uses, too): half of the bids go to one hot auction in a hundred and the others to the last hundred, three quarters of
sellers and bidders are hot, prices are spread evenly in their logarithm, and bids may come before their auction. An
event comes every millisecond, so that no two have the same time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace import Project
from headrace.model.catalogue import Catalogue

PEOPLE, AUCTIONS, BIDS = 1, 3, 46
ROUND = PEOPLE + AUCTIONS + BIDS
FIRST_ID, FIRST_CATEGORY, CATEGORIES = 1000, 10, 5
IN_FLIGHT, ACTIVE, LEAD = 100, 1000, 10
HOT_AUCTIONS, HOT_PEOPLE, HOT_EVERY = 2, 4, 100
BASE_MS = 1_436_918_400_000
SITE = "here"
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = ("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent")
FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
CHANNELS = ("Google", "Facebook", "Baidu", "Apple")

COLUMNS = {
    "person": {
        "id": "bigint", "name": "string", "emailAddress": "string", "creditCard": "string", "city": "string",
        "state": "string", "dateTime": "timestamp", "extra": "string",
    },
    "auction": {
        "id": "bigint", "itemName": "string", "description": "string", "initialBid": "bigint", "reserve": "bigint",
        "dateTime": "timestamp", "expires": "timestamp", "seller": "bigint", "category": "bigint", "extra": "string",
    },
    "bid": {
        "auction": "bigint", "bidder": "bigint", "price": "bigint", "channel": "string", "url": "string",
        "dateTime": "timestamp", "extra": "string",
    },
}  # fmt: skip
ARROW_TYPES = {"bigint": pa.int64(), "string": pa.string(), "timestamp": pa.timestamp("us")}

Integers = npt.NDArray[np.int64]


def make_catalogue(view: str, query: str, events: int) -> Catalogue:
    """One view. `auction` and `person` are tables, and `bid` is a stream: the queries join bids of any age."""
    project = Project("nexmark")
    project.site(SITE, cpu="0.34 $/core-hour", disk="0.11 $/GB-month", speed=1)
    shares = {"person": PEOPLE / ROUND, "auction": AUCTIONS / ROUND, "bid": BIDS / ROUND}
    for name, columns in COLUMNS.items():
        described = {column: {"type": type_} for column, type_ in columns.items()}
        rows, rate = max(1, round(events * shares[name])), 1000 * shares[name]
        if name == "bid":
            project.source(
                name, kind="stream", at=SITE, time="dateTime", retention="1 day", rate=rate, columns=described
            )
        else:
            project.source(name, at=SITE, key=["id"], rows=rows, rate=rate, columns=described)
    project.view(view, query)
    project.contract(view, view=view, at=SITE, freshness=45.0, penalty=0.001)
    return project.catalogue


@dataclass(frozen=True, slots=True)
class Nexmark:
    seed: int = 1

    def events(self, first: int, count: int) -> dict[str, pa.Table]:
        """Events number `first` and so many from there on. Their values depend on how all are cut, by `first`."""
        rng = np.random.default_rng([self.seed, first])
        numbers = np.arange(first, first + count)
        place = numbers % ROUND
        return {
            "person": self._people(rng, numbers[place < PEOPLE]),
            "auction": self._auctions(rng, numbers[(place >= PEOPLE) & (place < PEOPLE + AUCTIONS)]),
            "bid": self._bids(rng, numbers[place >= PEOPLE + AUCTIONS]),
        }

    def _people(self, rng: np.random.Generator, numbers: Integers) -> pa.Table:
        count = len(numbers)
        first, last = _choose(rng, FIRST_NAMES, count), _choose(rng, LAST_NAMES, count)
        return _as_table(
            "person",
            FIRST_ID + _last_person(numbers),
            [f"{one} {other}" for one, other in zip(first, last, strict=True)],
            [
                f"{one}@{other}.com"
                for one, other in zip(_make_text(rng, count, 7), _make_text(rng, count, 5), strict=True)
            ],
            [" ".join(f"{part:04d}" for part in parts) for parts in rng.integers(0, 10_000, (count, 4))],
            _choose(rng, CITIES, count),
            _choose(rng, STATES, count),
            _times(numbers),
            _make_text(rng, count, 120),
        )

    def _auctions(self, rng: np.random.Generator, numbers: Integers) -> pa.Table:
        count = len(numbers)
        initial = _prices(rng, count)
        # As long as it takes to open the auctions that are in flight, twice that at most.
        horizon = 2 * IN_FLIGHT * ROUND // AUCTIONS
        return _as_table(
            "auction",
            FIRST_ID + _last_auction(numbers),
            _make_text(rng, count, 20),
            _make_text(rng, count, 100),
            initial,
            initial + _prices(rng, count),
            _times(numbers),
            _times(numbers + 1 + rng.integers(0, horizon, count)),
            _choose_people(rng, numbers),
            FIRST_CATEGORY + rng.integers(0, CATEGORIES, count),
            _make_text(rng, count, 300),
        )

    def _bids(self, rng: np.random.Generator, numbers: Integers) -> pa.Table:
        count, last = len(numbers), _last_auction(numbers)
        oldest = np.maximum(last - IN_FLIGHT, 0)
        cold = oldest + rng.integers(0, last - oldest + 1 + LEAD)
        is_hot = rng.integers(0, HOT_AUCTIONS, count) > 0
        auctions = FIRST_ID + np.where(is_hot, last // HOT_EVERY * HOT_EVERY, cold)
        channels = _choose(rng, CHANNELS, count)
        return _as_table(
            "bid",
            auctions,
            _choose_people(rng, numbers),
            _prices(rng, count),
            channels,
            [f"https://www.nexmark.com/{channel}/item.htm?query=1" for channel in channels],
            _times(numbers),
            _make_text(rng, count, 30),
        )


def _last_person(numbers: Integers) -> Integers:
    """The number of the last person who has joined by each event."""
    return numbers // ROUND


def _last_auction(numbers: Integers) -> Integers:
    rounds, place = np.divmod(numbers, ROUND)
    opened = np.clip(place - PEOPLE, -1, AUCTIONS - 1)
    return np.asarray(np.maximum(rounds * AUCTIONS + opened, 0))


def _choose_people(rng: np.random.Generator, numbers: Integers) -> Integers:
    last = _last_person(numbers)
    active = np.minimum(last, ACTIVE)
    cold = last - active + rng.integers(0, active + 1 + LEAD)
    is_hot = rng.integers(0, HOT_PEOPLE, len(numbers)) > 0
    return FIRST_ID + np.where(is_hot, last // HOT_EVERY * HOT_EVERY, cold)


def _prices(rng: np.random.Generator, count: int) -> Integers:
    return np.round(10 ** (rng.random(count) * 6) * 100).astype(np.int64)


def _times(numbers: Integers) -> pa.Array:
    return pa.array((BASE_MS + numbers) * 1000).cast(pa.timestamp("us"))


def _choose(rng: np.random.Generator, names: tuple[str, ...], count: int) -> list[str]:
    return [names[place] for place in rng.integers(0, len(names), count)]


def _make_text(rng: np.random.Generator, count: int, width: int) -> list[str]:
    letters = rng.integers(97, 123, count * width, dtype=np.uint8).tobytes().decode()
    return [letters[at : at + width] for at in range(0, count * width, width)]


def _as_table(name: str, *columns: object) -> pa.Table:
    described = COLUMNS[name].items()
    return pa.table(
        {one: pa.array(found, ARROW_TYPES[type_]) for (one, type_), found in zip(described, columns, strict=True)}
    )


def arrow_types(name: str) -> dict[str, pa.DataType]:
    return {column: ARROW_TYPES[type_] for column, type_ in COLUMNS[name].items()}
