"""Sana's setting as a generated workload: 14 sites, 15 streams, 12 queries, and networks modelled from great circles.

The paper gives the sites, the range of rates, the kinds of queries and the range of bandwidths; everything else here is
an assumption, fixed so that results compare. A query is written as the chain of operators over each of its streams, the
union, and the chain after it. Operators of different queries are equal when kind, parameters and inputs are.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.workloads.wide_area_files import BYTES_PER_MEGABIT, output_rate
from headrace.plan.wide_area.streams import (
    QueryOperator,
    SiteNetwork,
    SiteStream,
    StreamQuery,
    Workload,
    operator_fingerprint,
)

COMPUTE = {
    "virginia": (39.04, -77.49),
    "california": (37.35, -121.96),
    "canada": (45.5, -73.57),
    "london": (51.51, -0.13),
    "frankfurt": (50.11, 8.68),
    "sydney": (-33.87, 151.21),
    "tokyo": (35.68, 139.69),
    "singapore": (1.35, 103.82),
}
SOURCES = {
    "ohio": (39.96, -83.0),
    "oregon": (45.84, -119.7),
    "ireland": (53.35, -6.26),
    "seoul": (37.57, 126.98),
    "mumbai": (19.08, 72.88),
    "sao_paulo": (-23.55, -46.63),
}
TWEET_SHARE = {"ohio": 0.22, "oregon": 0.22, "ireland": 0.16, "seoul": 0.14, "mumbai": 0.14, "sao_paulo": 0.12}
REQUESTS = {"ohio": 4000.0, "oregon": 4000.0, "ireland": 3000.0, "seoul": 2500.0, "mumbai": 2500.0}

Step = Mapping[str, Any]
"""An operator as it is written below: name, kind, params, and selectivity or groups, width."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """A query: which stream of which sites it reads, what happens to each part, and to their union."""

    id: str
    sink: str
    stream: str
    sites: tuple[str, ...]
    parts: tuple[Step, ...]
    rest: tuple[Step, ...]


def step(name: str, kind: str, width: float, selectivity: Any = 1.0, **params: Any) -> Step:
    return {"name": name, "kind": kind, "width": width, "selectivity": selectivity, "params": params}


def window(
    seconds: int, groups: int, width: float, keys: list[str], aggregate: tuple[str, str] = ("count", "*")
) -> Step:
    params = {
        "aggregates": [list(aggregate)],
        "emit": "on_close",
        "keys": keys,
        "window": {"offset_ms": 0, "size_ms": 1000 * seconds, "time": "ts", "type": "tumbling"},
    }
    return {
        "name": "window",
        "kind": "window-aggregate",
        "width": width,
        "window_s": seconds,
        "groups": groups,
        "params": params,
    }


def top(k: int, per: str, seconds: int, groups: int, width: float) -> Step:
    params = {"k": k, "order": "desc", "order_by": "count", "per": [per]}
    return {"name": "top", "kind": "top-k", "width": width, "window_s": seconds, "groups": groups, "params": params}


def decode(width: float, *fields: str, encoding: str = "json") -> Step:
    return step("decode", "decode", width, fields=sorted(fields), format=encoding)


def function(name: str, of: str, does: str, output: list[str], width: float, selectivity: float = 1.0) -> Step:
    return step(name, "map", width, selectivity, args=[of], function=does, output=output, version=1)


def lookup(name: str, table: str, on: str, kind: str, output: list[str], width: float, selectivity: float) -> Step:
    return step(name, "join-static", width, selectivity, on=[on], output=output, table=table, type=kind)


ALL = tuple(SOURCES)
AMERICAS_AND_IRELAND = ("ohio", "oregon", "ireland", "sao_paulo")
EVERYTHING = ("country", "geo", "hashtags", "id", "lang", "profile", "retweet_of", "text", "ts", "uid")
DECODE_ALL = decode(2400, *EVERYTHING)
DROP_PROFILE = step("drop_profile", "project", 1350, keep=[field for field in EVERYTHING if field != "profile"])
LANGUAGE_SHARE = {"ohio": 0.85, "oregon": 0.82, "ireland": 0.64, "sao_paulo": 0.88}
THREE_LANGUAGES = [["lang", "in", ["en", "es", "pt"]]]
LANGUAGE = step("language", "filter", 1350, LANGUAGE_SHARE, where=THREE_LANGUAGES)
IS_RETWEET = [["retweet_of", "is not null"]]
EACH_HASHTAG = ["hashtag", "lang", "text", "ts", "uid"]

RECIPES = (
    Recipe(
        "Q1",
        "canada",
        "tweets_packed",
        AMERICAS_AND_IRELAND,
        (
            decode(420, "id", "text", "ts", encoding="packed"),
            function("topic", "text", "classify_topic", ["topic", "ts"], 72),
        ),
        (
            step("known_topic", "filter", 72, 0.6, where=[["topic", "<>", "other"]]),
            window(60, 400, 40, ["topic"]),
        ),
    ),
    Recipe(
        "Q2", "singapore", "tweets", ALL, (DECODE_ALL, DROP_PROFILE), (window(30, 48, 32, ["lang"], ("rate", "*")),)
    ),
    Recipe(
        "Q3",
        "tokyo",
        "tweets",
        ("ohio", "oregon", "ireland", "mumbai", "sao_paulo"),
        (
            decode(240, "geo", "hashtags", "id", "ts"),
            step("has_hashtag", "filter", 240, 0.28, where=[["hashtags", "is not empty"]]),
        ),
        (
            function("place", "geo", "place_of", ["hashtags", "place", "ts"], 220),
            function("each_hashtag", "hashtags", "explode", ["hashtag", "place", "ts"], 72, 1.6),
            window(60, 60000, 64, ["hashtag", "place"]),
        ),
    ),
    Recipe(
        "Q4",
        "singapore",
        "tweets",
        ALL,
        (
            decode(112, "geo", "id", "ts", "uid"),
            step("has_place", "filter", 112, 0.55, where=[["geo", "is not null"]]),
        ),
        (
            lookup("user", "user_attributes", "uid", "inner", ["gender", "geo", "ts"], 80, 0.9),
            function("place", "geo", "place_of", ["gender", "place", "ts"], 56),
            window(60, 9000, 48, ["gender", "place"]),
        ),
    ),
    Recipe(
        "Q5",
        "singapore",
        "tweets",
        AMERICAS_AND_IRELAND,
        (DECODE_ALL, DROP_PROFILE, LANGUAGE),
        (
            function("each_hashtag", "hashtags", "explode", EACH_HASHTAG, 420, 0.45),
            lookup("user", "user_attributes", "uid", "inner", ["age_group", "hashtag", "lang", "ts"], 72, 0.9),
            window(60, 21, 40, ["age_group", "lang"], ("count", "hashtag")),
        ),
    ),
    Recipe(
        "Q6",
        "sydney",
        "tweets",
        ("ohio", "oregon", "ireland", "seoul", "mumbai"),
        (
            decode(96, "id", "lang", "retweet_of", "ts", "uid"),
            step("is_retweet", "filter", 96, 0.32, where=IS_RETWEET),
        ),
        (
            step("language", "filter", 96, 0.67, where=THREE_LANGUAGES),
            lookup("user", "user_attributes", "uid", "inner", ["gender", "lang", "ts"], 48, 0.9),
            window(30, 9, 40, ["gender", "lang"]),
        ),
    ),
    Recipe(
        "Q7",
        "london",
        "requests",
        tuple(REQUESTS),
        (decode(56, "client", "status", "ts", encoding="log"),),
        (
            function("region", "client", "region_of", ["region", "ts"], 32),
            window(30, 24, 32, ["region"], ("rate", "*")),
        ),
    ),
    Recipe(
        "Q8",
        "sydney",
        "tweets",
        ("ohio", "oregon", "seoul", "mumbai"),
        (DECODE_ALL, DROP_PROFILE),
        (
            function("each_hashtag", "hashtags", "explode", ["hashtag", "lang", "ts"], 64, 0.45),
            window(60, 30000, 56, ["hashtag", "lang"]),
            top(20, "lang", 60, 48, 56),
        ),
    ),
    Recipe(
        "Q9",
        "sydney",
        "tweets",
        ALL,
        (decode(400, "country", "geo", "id", "text", "ts"),),
        (
            function("place", "geo", "place_of", ["place", "text", "ts"], 380),
            function("each_term", "text", "terms", ["place", "term", "ts"], 72, 6.0),
            lookup("no_stop_words", "stop_words", "term", "anti", ["place", "term", "ts"], 72, 0.45),
            window(60, 150000, 64, ["place", "term"]),
            top(10, "place", 60, 600, 64),
        ),
    ),
    Recipe(
        "Q10",
        "tokyo",
        "tweets",
        ("ohio", "oregon", "seoul", "mumbai", "sao_paulo"),
        (decode(104, "geo", "id", "retweet_of", "ts"),),
        (
            step("is_retweet", "filter", 104, 0.32, where=IS_RETWEET),
            function("place", "geo", "place_of", ["place", "retweet_of", "ts"], 64),
            window(30, 25000, 56, ["place", "retweet_of"]),
            top(10, "place", 30, 600, 56),
        ),
    ),
    Recipe(
        "Q11",
        "singapore",
        "tweets",
        AMERICAS_AND_IRELAND,
        (DECODE_ALL, DROP_PROFILE, LANGUAGE),
        (
            function("each_hashtag", "hashtags", "explode", EACH_HASHTAG, 420, 0.45),
            lookup("score", "sentiment_dictionary", "text:term", "score", ["hashtag", "score", "ts"], 56, 0.8),
            window(60, 24000, 48, ["hashtag"], ("avg", "score")),
        ),
    ),
    Recipe(
        "Q12",
        "tokyo",
        "tweets",
        ("ohio", "oregon", "ireland", "seoul", "sao_paulo"),
        (
            decode(400, "country", "geo", "id", "text", "ts"),
            step("has_country", "filter", 400, 0.6, where=[["country", "is not null"]]),
        ),
        (
            lookup("score", "sentiment_dictionary", "text:term", "score", ["country", "score", "ts"], 56, 0.8),
            window(30, 120, 40, ["country"], ("avg", "score")),
        ),
    ),
)


def make_workload(tweets_per_s: float = 8000.0, recipes: tuple[Recipe, ...] = RECIPES) -> Workload:
    """The twelve queries (or some of them) at a rate; other streams scale along."""
    scale = tweets_per_s / 8000.0
    streams = {
        **{f"tweets.{site}": (site, share * tweets_per_s, 3000.0) for site, share in TWEET_SHARE.items()},
        **{f"tweets_packed.{site}": (site, TWEET_SHARE[site] * tweets_per_s, 1500.0) for site in AMERICAS_AND_IRELAND},
        **{f"requests.{site}": (site, rate * scale, 320.0) for site, rate in REQUESTS.items()},
    }
    made = {name: SiteStream(name, *parts) for name, parts in streams.items()}
    return Workload(made, tuple(_query(recipe, made) for recipe in recipes))


def make_network(seed: int) -> SiteNetwork:
    """Latency from great circles at two thirds of the speed of light and half as long again; bandwidth falls."""
    rng = random.Random(seed)
    places = COMPUTE | SOURCES
    latency: dict[tuple[str, str], float] = {}
    bandwidth: dict[tuple[str, str], float] = {}
    for a in places:
        for b in places:
            if a != b:
                one_way = 1.5 * _kilometres(places[a], places[b]) / 200_000
                mbps = min(280.0, max(20.0, 280 - 260 * 2 * one_way / 0.3)) * rng.uniform(0.8, 1.2)
                latency[a, b] = round(one_way * 1e3, 3) / 1e3
                bandwidth[a, b] = round(mbps, 2) * BYTES_PER_MEGABIT
    return SiteNetwork(tuple(places), frozenset(COMPUTE), bandwidth, latency)


def make_tight_network(seed: int) -> SiteNetwork:
    """Most links between compute sites carry hardly anything, and half of those from sources a twentieth.

    Whoever joins a running operator here may find that what it sends does not get through.
    """
    base, rng = make_network(seed), random.Random(seed)
    bandwidth = {ends: size * _choose_factor(ends[0], rng) for ends, size in sorted(base.bandwidth.items())}
    return SiteNetwork(base.sites, base.compute, bandwidth, base.latency)


def _choose_factor(start: str, rng: random.Random) -> float:
    share, narrow = (0.5, 0.05) if start in SOURCES else (0.85, 0.005)
    return narrow if rng.random() < share else 1.0


def make_tight_workload(seed: int) -> Workload:
    """The twelve queries, in an order of arrival that the seed decides."""
    recipes = list(RECIPES)
    random.Random(seed).shuffle(recipes)
    return make_workload(recipes=tuple(recipes))


def _kilometres(a: tuple[float, float], b: tuple[float, float]) -> float:
    lat1, lon1, lat2, lon2 = map(math.radians, (*a, *b))
    half = math.sin((lat2 - lat1) / 2) ** 2 + math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
    return 2 * 6371 * math.asin(math.sqrt(half))


def _query(recipe: Recipe, streams: Mapping[str, SiteStream]) -> StreamQuery:
    operators: dict[str, QueryOperator] = {}

    def add(name: str, what: Step, inputs: tuple[str, ...], selectivity: float, pinned: str | None = None) -> str:
        rate_in = sum((operators[i] if i in operators else streams[i]).rate for i in inputs)
        operators[name] = QueryOperator(
            id=name,
            fingerprint=operator_fingerprint(
                what["kind"], what["params"], [operators[i].fingerprint if i in operators else i for i in inputs]
            ),
            inputs=inputs,
            rate=output_rate({**what, "selectivity": selectivity}, rate_in),
            width=float(what["width"]),
            at_source=len(inputs) == 1 and name.count(".") == 2,
            pinned=pinned,
        )
        return name

    ends = {site: f"{recipe.stream}.{site}" for site in recipe.sites}
    for what in recipe.parts:
        for site in recipe.sites:
            share = what["selectivity"]
            share = share[site] if isinstance(share, dict) else share
            ends[site] = add(f"{recipe.id}.{what['name']}.{site}", what, (ends[site],), share)
    end = add(f"{recipe.id}.union", step("union", "union", recipe.parts[-1]["width"]), tuple(ends.values()), 1.0)
    for what in recipe.rest:
        end = add(f"{recipe.id}.{what['name']}", what, (end,), what.get("selectivity", 1.0))
    sink = step("sink", "sink", operators[end].width, query=recipe.id, site=recipe.sink)
    add(f"{recipe.id}.sink", sink, (end,), 1.0, recipe.sink)
    return StreamQuery(recipe.id, tuple(operators.values()))
