"""Sana's twelve queries as SQL, over streams of tweets that arise at six sites, with results at four others.

A twentieth of the paper's setting, so that two cores carry it: of its 8000 tweets/s, and of what its links carry. Four
of its eight compute sites, and no static tables: what those would add to a row (gender, age group, sentiment) is
computed from it. Each query reads the 4 to 6 sites that it reads in the modelled workload (`wide_area.py`), and is sent
what its operators are sent: four whole tweets as they were decoded, whichever fields they group by, and three times two
the same few fields. Q1 and Q7 read streams of their own and share nothing, as in the paper (Fig. 8b).

Rows go from sources to compute sites, and between these. Sources compute for nobody but themselves.
"""

from __future__ import annotations

import base64
import datetime
import json
import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq

from bench.workloads.wide_area import AMERICAS_AND_IRELAND, REQUESTS, TWEET_SHARE

SOURCES = tuple(TWEET_SHARE)
COMPUTE = ("virginia", "london", "tokyo", "singapore")
SITES = (*SOURCES, *COMPUTE)
LINKS = tuple((a, b) for a in SITES for b in COMPUTE if a != b)
"""(from, to) of all that queries may send rows over."""
PROFILE = 900
"""Bytes of a profile before it is written as text: they cannot be compressed."""
FILES_EVERY_S = 1.0
WORDS = "match fight ring bank note queue news goal rain train vote film song game team city".split()

USERS, PLACES, HASHTAGS, TOPICS, LANGUAGES = 5_000, 4_000, 3_000, 16, 5
COLUMNS = (
    f"{{id: bigint, ts: timestamp, uid: {{type: bigint, distinct: {USERS}}},"
    f" lang: {{type: string, width: 2, distinct: {LANGUAGES}}}, place: {{type: string, width: 5, distinct: {PLACES}}},"
    f" hashtag: {{type: string, width: 5, distinct: {HASHTAGS}}}, retweet_of: {{type: bigint, distinct: 500}},"
    " text: {type: string, width: 70}, profile: {type: string, width: 1200}}"
)


def unite(columns: str, sites: Sequence[str] = SOURCES, where: str = "", stream: str = "tweets") -> str:
    return " UNION ALL ".join(f"SELECT {columns} FROM {stream}_{site}{where}" for site in sites)


def without(site: str) -> tuple[str, ...]:
    return tuple(one for one in SOURCES if one != site)


DECODED = "uid, lang, place, hashtag, text, profile"
PEOPLE, RETWEETED = "uid, place, hashtag", "uid, place, retweet_of"
SIZES = (
    "count(*) AS n, count(place) AS placed, count(hashtag) AS tagged, max(uid) AS newest,"
    " sum(length(text)) AS size, min(substr(profile, 1, 40)) AS example, max(substr(profile, 1, 40)) AS another"
)
"""What four queries tell of each group, with examples: it takes all of a tweet, so that they are sent the same rows."""
RETWEETS = " WHERE retweet_of IS NOT NULL"

QUERIES: Mapping[str, tuple[str, str]] = {
    "Q1": (
        "virginia",
        f"SELECT text AS topic, count(*) AS n FROM ({unite('text', AMERICAS_AND_IRELAND, stream='packed')})"
        " GROUP BY text",
    ),
    "Q2": ("singapore", f"SELECT lang, place, {SIZES} FROM ({unite(DECODED)}) GROUP BY lang, place"),
    "Q3": (
        "tokyo",
        "SELECT hashtag, place, count(*) AS n, count(uid) AS people FROM"
        f" ({unite(PEOPLE, without('seoul'))}) GROUP BY hashtag, place",
    ),
    "Q4": (
        "singapore",
        "SELECT uid % 3 AS gender, place, count(*) AS n, count(hashtag) AS tagged FROM"
        f" ({unite(PEOPLE)}) GROUP BY uid % 3, place",
    ),
    "Q5": (
        "singapore",
        f"SELECT uid % 7 AS age_group, lang, place, {SIZES} FROM ({unite(DECODED, AMERICAS_AND_IRELAND)})"
        " GROUP BY uid % 7, lang, place",
    ),
    "Q6": (
        "virginia",
        "SELECT uid % 3 AS gender, place, count(*) AS n, max(retweet_of) AS newest FROM"
        f" ({unite(RETWEETED, without('sao_paulo'), RETWEETS)}) GROUP BY uid % 3, place",
    ),
    "Q7": (
        "london",
        "SELECT client % 24 AS region, count(*) AS n FROM"
        f" ({unite('client', tuple(REQUESTS), stream='requests')}) GROUP BY client % 24",
    ),
    "Q8": (
        "virginia",
        f"SELECT hashtag, lang, {SIZES} FROM ({unite(DECODED, ('ohio', 'oregon', 'seoul', 'mumbai'))})"
        " GROUP BY hashtag, lang ORDER BY n DESC LIMIT 20",
    ),
    "Q9": (
        "virginia",
        f"SELECT place, max(text) AS text, count(*) AS n FROM ({unite('place, text')}) GROUP BY place",
    ),
    "Q10": (
        "tokyo",
        "SELECT retweet_of, place, count(*) AS n, max(uid) AS newest FROM"
        f" ({unite(RETWEETED, without('ireland'), RETWEETS)})"
        " GROUP BY retweet_of, place ORDER BY n DESC LIMIT 20",
    ),
    "Q11": (
        "singapore",
        f"SELECT hashtag, lang, sum(length(text) % 5 - 2) AS sentiment, {SIZES}"
        f" FROM ({unite(DECODED, AMERICAS_AND_IRELAND)}) GROUP BY hashtag, lang",
    ),
    "Q12": (
        "tokyo",
        "SELECT place, sum(length(text) % 5 - 2) AS sentiment, min(text) AS example FROM"
        f" ({unite('place, text', without('mumbai'))}) GROUP BY place",
    ),
}
"""Where each result is, and what it is."""

STREAMS = (
    *(("tweets", site) for site in SOURCES),
    *(("packed", site) for site in AMERICAS_AND_IRELAND),
    *(("requests", site) for site in REQUESTS),
)


def find_sources_of(query: str) -> tuple[str, ...]:
    """The streams that a query reads."""
    return tuple(f"{stream}_{site}" for stream, site in STREAMS if f"FROM {stream}_{site}" in QUERIES[query][1])


@dataclass(frozen=True, slots=True)
class WideRates:
    """Rows a second: of tweets at all sites together, divided as in the modelled workload. Other streams are as much
    slower than there.
    """

    tweets: float = 360.0

    def of(self, stream: str) -> float:
        kind, _, site = stream.partition("_")
        match kind:
            case "requests":
                return self.tweets * REQUESTS[site] / 8 / 8000.0
            case _:
                return self.tweets * TWEET_SHARE[site]


def write_project(
    folder: Path,
    queries: Sequence[str],
    bandwidth: Mapping[tuple[str, str], float],
    rates: WideRates,
    freshness: str,
    wide_area: str | None = None,
    latency_s: Mapping[tuple[str, str], float] | None = None,
) -> None:
    """`bandwidth` is in bytes/s as plans count them. Only bytes cost anything: so the cheapest plan sends least."""
    (folder / "views").mkdir(parents=True, exist_ok=True)
    for old in (folder / "views").glob("*.sql"):
        old.unlink()
    mode = [] if wide_area is None else [f"wide_area: {wide_area}"]
    lines = ["project: wide", *mode, "sites:", *(f"  {site}: {{cpu: 0.001 $/core-hour}}" for site in SITES), "links:"]
    for src, dst in LINKS:
        size = bandwidth[src, dst]
        latency = 1e3 * (latency_s or {}).get((src, dst), 0.005)
        link = f"from: {src}, to: {dst}, bandwidth: {size:.0f} B/s, latency: {latency:g} ms, price: 1 $/GB"
        lines.append(f"  - {{{link}}}")
    lines.append("sources:")
    shapes = {
        "tweets": COLUMNS,
        "packed": f"{{id: bigint, ts: timestamp, text: {{type: string, width: 5, distinct: {TOPICS}}}}}",
        "requests": "{id: bigint, ts: timestamp, client: bigint}",
    }
    for stream, site in STREAMS:
        path, rate = f"${{WIDE_DATA}}/{stream}_{site}", rates.of(f"{stream}_{site}")
        lines.append(
            f"  {stream}_{site}: {{kind: stream, at: {site}, time: ts, retention: 1 h, rate: {rate:g} /s,"
            f' columns: {shapes[stream]}, files: {{path: "{path}", format: jsonl}}}}'
        )
    lines.append("contracts:")
    for name in queries:
        site, sql = QUERIES[name]
        (folder / "views" / f"{name.lower()}.sql").write_text(sql)
        lines.append(f"  {name}: {{view: {name.lower()}, at: {site}, freshness: {freshness}}}")
    (folder / "headrace.yml").write_text("\n".join(lines) + "\n")


@dataclass
class TweetWriter:
    """Adds a file to each stream every second. `texts` are those of real tweets, where there are some."""

    folder: Path
    rates: WideRates
    texts: Sequence[str] = ()
    seed: int = 1
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def make_folders(self) -> None:
        for stream, site in STREAMS:
            (self.folder / f"{stream}_{site}").mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> TweetWriter:
        self.make_folders()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        assert self._thread is not None
        self._thread.join()

    def _write(self) -> None:
        rng, number, began = random.Random(self.seed), 0, time.monotonic()
        written = dict.fromkeys(STREAMS, 0)
        while not self._stop.wait(max(0.0, began + number * FILES_EVERY_S - time.monotonic())):
            number += 1
            now = datetime.datetime.now(datetime.UTC).isoformat()
            for stream, site in STREAMS:
                due = round(self.rates.of(f"{stream}_{site}") * number * FILES_EVERY_S)
                rows = [json.dumps(row) for row in self._rows(rng, stream, range(written[stream, site], due), now)]
                written[stream, site] = due
                target = self.folder / f"{stream}_{site}" / f"{number:07}.jsonl"
                beside = target.with_suffix(".tmp")
                beside.write_text("\n".join(rows) + "\n")
                beside.rename(target)

    def _rows(self, rng: random.Random, stream: str, ids: range, now: str) -> Iterator[Mapping[str, object]]:
        for number in ids:
            if stream == "requests":
                yield {"id": number, "ts": now, "client": rng.randrange(10_000)}
            elif stream == "packed":
                yield {"id": number, "ts": now, "text": rng.choice(WORDS)}
            else:
                text = rng.choice(self.texts) if self.texts else " ".join(rng.choices(WORDS, k=14))
                yield {
                    "id": number,
                    "ts": now,
                    "uid": rng.randrange(USERS),
                    "lang": rng.choice(("en", "en", "es", "pt", "tr", "hi")),
                    "place": f"c{rng.randrange(PLACES)}",
                    "hashtag": f"h{rng.randrange(HASHTAGS)}" if rng.random() < 0.4 else None,
                    "retweet_of": rng.randrange(500) if rng.random() < 0.32 else None,
                    "text": text[:280],
                    "profile": base64.b64encode(rng.randbytes(PROFILE)).decode(),
                }


def read_texts(folder: Path) -> list[str]:
    """Texts of real tweets; none if there are no files of them."""
    found: list[str] = []
    for file in sorted(folder.glob("tweets_*.parquet")):
        found += pq.read_table(file, columns=["text"]).slice(0, 5_000)["text"].to_pylist()
    return found
