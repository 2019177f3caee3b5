from __future__ import annotations

import re
from pathlib import Path

import pytest

import headrace
from headrace.declare.read import read_project
from headrace.model.errors import InputError
from tests.declare.projects import write_project

TEXT = """
    project: city
    admission: paper
    headroom: {cpu: 0.2}
    engine: {memory: 4 GB, properties: {"spark.sql.shuffle.partitions": 4}}
    hosts: {big: {cores: 2}}
    sites:
      us: {cpu: 0.34 $/core-hour, disk: 0.11 $/GB-month, cores: 2, disk_capacity: 1 TB, speed: 2, host: big}
      eu: {engine: {kind: local}}
    links:
      - {between: [us, eu], bandwidth: 100 Mbps, latency: 40 ms, price: 0.01 $/GB}
    sources:
      tweets: {kind: table, at: us, key: [tid], columns: {tid: {type: bigint, width: 8}, uid: bigint, lang: text},
               rows: 7M, rate: 100 /s, stays: [us, eu]}
      posts: {kind: stream, at: us, time: ts, columns: {pid: bigint, author: bigint, ts: timestamp}, retention: 1 h}
      follows: {kind: table, at: us, columns: {who: bigint, whom: bigint}, static: true}
      friends: {kind: table, at: us, columns: {a: bigint, b: bigint}}
    contracts:
      english: {view: english, at: eu, freshness: 30 s, penalty: 0.001 $/row, owner: me, deliver: {delta: out}}
    feeds:
      home: {events: {source: posts, producer: author, time: ts, id: pid},
             follows: {source: follows, consumer: who, producer: whom}, latency: {p95: 50 ms}}
    devices:
      phones: {table: friends, id: a, down: 0.5, capacity: 20,
               streams: {location: {columns: {lat: double}, rate: 0.1 /s}}}
    templates:
      near: {per: {table: friends, a: a, b: b}, devices: phones, view: near}
    functions:
      apart: {python: "geo:apart", arguments: [double, double], returns: double, deterministic: true}
    selectivity:
      tweets: {"lang = 'en'": 0.4}
    operator_times:
      join: {fixed: 0.05}
"""
ENGINE: dict[str, str | dict[str, str | int | float]] = {
    "memory": "4 GB",
    "properties": {"spark.sql.shuffle.partitions": 4},
}
ENGLISH = "SELECT tid FROM tweets WHERE lang = 'en'"
NEAR = "SELECT x.lat FROM a.location x JOIN b.location y ON x.lat = y.lat"


def city() -> headrace.Project:
    return (
        headrace.Project("city", admission="paper", headroom={"cpu": 0.2}, engine=ENGINE)
        .host("big", cores=2)
        .site("us", cpu="0.34 $/core-hour", disk="0.11 $/GB-month", cores=2, disk_capacity="1 TB", speed=2, host="big")
        .site("eu", engine={"kind": "local"})
        .link(between=("us", "eu"), bandwidth="100 Mbps", latency="40 ms", price="0.01 $/GB")
        .source(
            "tweets",
            at="us",
            key=["tid"],
            columns={"tid": {"type": "bigint", "width": 8}, "uid": "bigint", "lang": "text"},
            rows="7M",
            rate="100 /s",
            stays=["us", "eu"],
        )
        .source(
            "posts",
            kind="stream",
            at="us",
            time="ts",
            columns={"pid": "bigint", "author": "bigint", "ts": "timestamp"},
            retention="1 h",
        )
        .source("follows", at="us", columns={"who": "bigint", "whom": "bigint"}, static=True)
        .source("friends", at="us", columns={"a": "bigint", "b": "bigint"})
        .view("english", ENGLISH)
        .view("near", NEAR)
        .contract(
            "english",
            view="english",
            at="eu",
            freshness="30 s",
            penalty="0.001 $/row",
            owner="me",
            deliver={"delta": "out"},
        )
        .feed(
            "home",
            events={"source": "posts", "producer": "author", "time": "ts", "id": "pid"},
            follows={"source": "follows", "consumer": "who", "producer": "whom"},
            latency={"p95": "50 ms"},
        )
        .devices(
            "phones",
            table="friends",
            id="a",
            down=0.5,
            capacity=20,
            streams={"location": {"columns": {"lat": "double"}, "rate": "0.1 /s"}},
        )
        .template("near", per={"table": "friends", "a": "a", "b": "b"}, devices="phones", view="near")
        .function("apart", python="geo:apart", arguments=["double", "double"], returns="double", deterministic=True)
        .selectivity("tweets", "lang = 'en'", 0.4)
        .operator_time("join", fixed=0.05)
    )


def test_calls_and_a_project_file_give_the_same_catalogue(tmp_path: Path) -> None:
    from_file = read_project(write_project(tmp_path, TEXT, english=ENGLISH, near=NEAR), {})
    assert _without_places(city().catalogue) == _without_places(from_file)


def test_a_project_that_is_written_to_a_folder_is_read_from_it_as_it_was(tmp_path: Path) -> None:
    for _ in range(2):  # the second time over the first
        city().write(tmp_path)
    assert _without_places(read_project(tmp_path, {})) == _without_places(city().catalogue)


def _without_places(catalogue: object) -> str:
    text = re.sub(r"Location\(file='[^']*', line=\d+, column=\d+\)", "_", repr(catalogue))
    return re.sub(r"directory='[^']*'", "", text)


def test_mistakes_point_at_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "declare.py"
    script.write_text(
        """\
import headrace
project = headrace.Project("city")
project.site("us", cpu="1 MB")
project.site("us")
project.source("t", at="mars", columns={"a": "int"})
project.view("v", '''SELECT a,
  b FROM t''')
project.view("v", "SELECT a FROM t")
project.view("x/y", "SELECT a FROM t")
project.contract("c", view="w", at="us", freshness="0 s")
""",
        encoding="utf-8",
    )
    scope: dict[str, headrace.Project] = {}
    exec(compile(script.read_text(), str(script), "exec"), scope)
    with pytest.raises(InputError) as caught:
        _ = scope["project"].catalogue
    assert [(problem.where and problem.where.line, problem.message) for problem in caught.value.problems] == [
        (3, 'cpu of site "us": "1 MB" is a size, not a price per core and hour'),
        (4, '"us" is written twice'),
        (5, 'source "t" names site "mars", which does not exist'),
        (6, 'column "b" does not exist (line 2, column 3 of its SQL)'),
        (8, 'view "v" is written twice'),
        (9, 'view "x/y" is not a usable name'),
        (10, 'freshness of contract "c": "0 s" is zero'),
        (10, 'contract "c" names view "w", which does not exist'),
    ]
    assert {problem.where.file for problem in caught.value.problems if problem.where} == {"declare.py"}


def test_a_folder_is_loaded(tmp_path: Path) -> None:
    folder = write_project(tmp_path, TEXT, english=ENGLISH, near=NEAR)
    assert headrace.load(folder).catalogue.project == "city"
    assert headrace.load(str(folder)).catalogue.project == "city"
