"""Sana's twelve queries as SQL, over streams of tweets that arise at three sites, with results at three others.

Smaller than the paper's setting so that two cores carry it: three of six source sites, three of eight compute sites,
and no static tables; what those would add to a row (gender, age group, sentiment) is computed from it. Queries keep
what the paper's keep: some need most of a tweet, others a few fields. Q1 and Q7 read streams of their own and share
nothing.
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

SOURCES = ("ohio", "ireland", "seoul")
COMPUTE = ("virginia", "london", "tokyo")
SITES = (*SOURCES, *COMPUTE)
PROFILE = 900
"""Bytes of a profile before it is written as text: they cannot be compressed."""
FILES_EVERY_S = 0.5
WORDS = "match fight ring bank note queue news goal rain train vote film song game team city".split()

COLUMNS = "{id: bigint, ts: timestamp, uid: bigint, lang: string, country: string, hashtag: string," + (
    " retweet_of: bigint, text: {type: string, width: 120}, profile: {type: string, width: 1200}}"
)


def unite(columns: str, sites: Sequence[str] = SOURCES, where: str = "", stream: str = "tweets") -> str:
    return " UNION ALL ".join(f"SELECT {columns} FROM {stream}_{site}{where}" for site in sites)


FULL = "ts, uid, lang, country, hashtag, text, profile"
MINUTE = "date_trunc('minute', ts)"

QUERIES: Mapping[str, tuple[str, str]] = {
    "Q1": (
        "london",
        f"SELECT text AS topic, count(*) AS n FROM ({unite('text', ('ohio',), stream='packed')}) GROUP BY text",
    ),
    "Q2": ("tokyo", f"SELECT lang, count(*) AS n, sum(length(profile)) AS size FROM ({unite(FULL)}) GROUP BY lang"),
    "Q3": (
        "tokyo",
        "SELECT hashtag, country, count(*) AS n FROM"
        f" ({unite('hashtag, country', where=' WHERE hashtag IS NOT NULL')}) GROUP BY hashtag, country",
    ),
    "Q4": (
        "virginia",
        f"SELECT uid % 3 AS gender, country, count(*) AS n FROM ({unite('uid, country')}) GROUP BY uid % 3, country",
    ),
    "Q5": (
        "tokyo",
        "SELECT uid % 7 AS age_group, lang, count(*) AS n, sum(length(profile)) AS size FROM"
        f" ({unite(FULL, ('ohio', 'ireland'))}) GROUP BY uid % 7, lang",
    ),
    "Q6": (
        "virginia",
        "SELECT uid % 3 AS gender, lang, count(*) AS n FROM"
        f" ({unite('uid, lang', where=' WHERE retweet_of IS NOT NULL')}) GROUP BY uid % 3, lang",
    ),
    "Q7": (
        "london",
        "SELECT client % 24 AS region, count(*) AS n FROM"
        f" ({unite('client', ('seoul',), stream='requests')}) GROUP BY client % 24",
    ),
    "Q8": (
        "virginia",
        "SELECT hashtag, lang, count(*) AS n, max(length(profile)) AS longest FROM"
        f" ({unite(FULL, ('ohio', 'seoul'))}) GROUP BY hashtag, lang ORDER BY n DESC LIMIT 20",
    ),
    "Q9": (
        "virginia",
        f"SELECT country, max(text) AS text, count(*) AS n FROM ({unite('country, text')}) GROUP BY country",
    ),
    "Q10": (
        "tokyo",
        "SELECT retweet_of, country, count(*) AS n FROM"
        f" ({unite('retweet_of, country', where=' WHERE retweet_of IS NOT NULL')})"
        " GROUP BY retweet_of, country ORDER BY n DESC LIMIT 20",
    ),
    "Q11": (
        "london",
        "SELECT hashtag, sum(length(text) % 5 - 2) AS sentiment, sum(length(profile)) AS size FROM"
        f" ({unite(FULL, ('ohio', 'ireland'))}) GROUP BY hashtag",
    ),
    "Q12": (
        "london",
        f"SELECT country, sum(length(text) % 5 - 2) AS sentiment FROM ({unite('country, text')}) GROUP BY country",
    ),
}
"""Where each result is, and what it is."""


def find_sources_of(query: str) -> tuple[str, ...]:
    """The streams that a query reads."""
    return tuple(f"{stream}_{site}" for stream, site in STREAMS if f"FROM {stream}_{site}" in QUERIES[query][1])


STREAMS = (*(("tweets", site) for site in SOURCES), ("packed", "ohio"), ("requests", "seoul"))


@dataclass(frozen=True, slots=True)
class WideRates:
    """Rows a second at each site."""

    tweets: float = 30.0
    packed: float = 20.0
    requests: float = 40.0

    def of(self, stream: str) -> float:
        return float(getattr(self, stream.partition("_")[0]))


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
    for (src, dst), size in sorted(bandwidth.items()):
        latency = 1e3 * (latency_s or {}).get((src, dst), 0.005)
        link = f"from: {src}, to: {dst}, bandwidth: {size:.0f} B/s, latency: {latency:g} ms, price: 1 $/GB"
        lines.append(f"  - {{{link}}}")
    lines.append("sources:")
    shapes = {
        "tweets": COLUMNS,
        "packed": "{id: bigint, ts: timestamp, text: {type: string, width: 12}}",
        "requests": "{id: bigint, ts: timestamp, client: bigint}",
    }
    for stream, site in STREAMS:
        path = f"${{WIDE_DATA}}/{stream}_{site}"
        lines.append(
            f"  {stream}_{site}: {{kind: stream, at: {site}, time: ts, retention: 1 h, rate: {rates.of(stream)} /s,"
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
    """Adds a file to each stream twice a second. `texts` are those of real tweets, where there are some."""

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
                due = round(self.rates.of(stream) * number * FILES_EVERY_S)
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
                    "uid": rng.randrange(5_000),
                    "lang": rng.choice(("en", "en", "es", "pt", "tr", "hi")),
                    "country": f"c{rng.randrange(40)}",
                    "hashtag": rng.choice(WORDS) if rng.random() < 0.4 else None,
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
