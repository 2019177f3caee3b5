"""Views of tweets that arise at two sites, streaming, placed as Sana does it: from `up` to `apply`, by commands."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headrace.doors.cli import main
from tests.running.running_project import until

STREAM = (
    "kind: stream, time: ts, retention: 1 h, rate: 2 /s,"
    " columns: {id: bigint, ts: timestamp, lang: string, country: string}"
)
CONTRACTS = {
    "langs": "{view: langs, at: us, freshness: streaming}",
    "countries": "{view: countries, at: eu, freshness: streaming}",
}
BOTH = "(SELECT {0} FROM tweets_us UNION ALL SELECT {0} FROM tweets_eu)"


@dataclass
class Tweets:
    folder: Path
    out: pytest.CaptureFixture[str]
    written: list[tuple[str, str]] = field(default_factory=list)

    def declare(self, *contracts: str) -> None:
        sites = "".join(
            f'  tweets_{site}: {{at: {site}, {STREAM}, files: {{path: "{self.folder}/{site}", format: jsonl}}}}\n'
            for site in ("us", "eu")
        )
        asked = "".join(f"  {name}: {CONTRACTS[name]}\n" for name in contracts)
        (self.folder / "headrace.yml").write_text(
            "project: tweets\nsites: {us: {cpu: 0.1 $/core-hour}, eu: {cpu: 0.1 $/core-hour}}\n"
            "links: [{between: [us, eu], bandwidth: 100 Mbps, latency: 10 ms, price: 0.01 $/GB}]\n"
            f"sources:\n{sites}contracts:\n{asked}"
        )
        (self.folder / "views").mkdir(exist_ok=True)
        for view, column in (("langs", "lang"), ("countries", "country")):
            query = f"SELECT {column}, count(*) AS n FROM {BOTH.format(column)} GROUP BY {column}"
            (self.folder / "views" / f"{view}.sql").write_text(query)

    def write(self, site: str, *tweets: tuple[str, str]) -> None:
        """A file with tweets, as (language, country)."""
        first, now = len(self.written), datetime.now(UTC).isoformat()
        self.written += tweets
        (self.folder / site).mkdir(exist_ok=True)
        rows = [
            json.dumps({"id": first + number, "ts": now, "lang": lang, "country": country})
            for number, (lang, country) in enumerate(tweets)
        ]
        beside = self.folder / site / f"{first:05}.tmp"
        beside.write_text("\n".join(rows) + "\n")
        beside.rename(beside.with_suffix(".jsonl"))

    def say(self, command: str, *words: str) -> str:
        self.out.readouterr()
        assert main.run([command, *words]) == 0, self.out.readouterr()
        return self.out.readouterr().out

    def document(self, command: str, *words: str) -> Any:
        return json.loads(self.say(command, *words, "--json"))

    def until_right(self) -> None:
        """Views are what their queries give."""
        for view, number in (("langs", 0), ("countries", 1)):
            if any(one["id"] == view for one in self.contracts().values()):
                wanted = sorted(Counter(tweet[number] for tweet in self.written).items())
                until(
                    lambda view=view, wanted=wanted: self.rows(view) == wanted,  # type: ignore[misc]
                    f"{view} is as its query",
                )

    def rows(self, view: str) -> list[tuple[str, int]]:
        return sorted((name, n) for name, n in self.document("show", view, str(self.folder))["rows"])

    def contracts(self) -> dict[str, dict[str, Any]]:
        return {one["id"]: one for one in self.document("status", str(self.folder))["contracts"]}

    def plan(self) -> Any:
        return json.loads((self.folder / ".headrace" / "plan.json").read_text())


@pytest.fixture
def tweets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Tweets]:
    made = Tweets(tmp_path, capsys)
    for site in ("us", "eu"):
        made.write(site, ("en", "c1"), ("es", "c2"))
    made.declare("langs")
    made.document("up", str(tmp_path), "--detach", "--engine=local", "--sites=processes", "--wide-area=sana")
    try:
        yield made
    finally:
        made.say("down", str(tmp_path))


@pytest.mark.long
def test_a_query_joins_those_that_stream_and_moves_none_of_them(tweets: Tweets) -> None:
    tweets.until_right()
    before = {one["id"]: one["vertex"] for one in tweets.plan()["contracts"]}
    tweets.declare("langs", "countries")
    tweets.document("apply", str(tweets.folder), "--wide-area=sana")
    after = {one["id"]: one["vertex"] for one in tweets.plan()["contracts"]}
    assert after.keys() == {"langs", "countries"} and before.items() <= after.items()
    tweets.write("us", ("en", "c3"), ("hi", "c1"))
    tweets.write("eu", ("tr", "c1"))
    tweets.until_right()
    found = tweets.contracts()
    assert all(one["streaming"] for one in found.values())
    until(lambda: tweets.contracts()["countries"]["latency_s"] is not None, "the latency is known")
    assert "is streaming: rows of the last minute took" in tweets.say("status", str(tweets.folder))
    tweets.declare("countries")
    tweets.document("apply", str(tweets.folder))
    assert {one["id"]: one["vertex"] for one in tweets.plan()["contracts"]} == {"countries": after["countries"]}
    tweets.write("eu", ("en", "c3"))
    tweets.until_right()
