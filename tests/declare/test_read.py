from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.declare.read import read_project
from headrace.model.catalogue import (
    Admission,
    DeltaFolder,
    FileFolder,
    Headroom,
    OperatorTime,
    PostgresTable,
    Refresh,
    Source,
    SourceColumn,
    SourceKind,
    Stays,
)
from headrace.model.errors import InputError, Location, Problem, Severity, UsageError
from headrace.model.source_shape import shape_of
from headrace.model.types import BIGINT, DOUBLE, INT, STRING, TIMESTAMP
from tests.declare.projects import MINIMAL, mistakes, read, write_project

T = "{kind: table, at: us, key: id, columns: {id: bigint, name: string}}"


def test_defaults_of_sites_and_links(tmp_path: Path) -> None:
    catalogue = read(tmp_path, "links: [{between: [us, eu]}]")
    site = catalogue.sites["us"]
    assert (site.cpu_price_h, site.disk_price_gb_month, site.cores, site.disk_capacity) == (0, 0, None, None)
    assert (site.speed, site.host, site.declared_at) == (1, None, Location(str(tmp_path / "headrace.yml"), 2, 9))
    assert [(link.src, link.dst) for link in catalogue.links] == [("us", "eu"), ("eu", "us")]
    assert (catalogue.links[0].bandwidth, catalogue.links[0].latency_s, catalogue.links[0].price_gb) == (None, 0, 0)


def test_fields_of_sites_links_and_hosts_are_read_in_base_units(tmp_path: Path) -> None:
    text = """
        project: city
        hosts: {big: {cores: 2}}
        sites:
          us: {cpu: 0.34 $/core-hour, disk: 0.11 $/GB-month, cores: 2, disk_capacity: 500 GB, speed: 0.5, host: big}
          eu: {}
        links:
          - {from: us, to: eu, bandwidth: 100 Mbps, latency: 40 ms, price: 0.01 $/GB}
    """
    catalogue = read_project(write_project(tmp_path, text), {})
    site = catalogue.sites["us"]
    assert (site.cpu_price_h, site.disk_price_gb_month, site.cores, site.disk_capacity) == (0.34, 0.11, 2, 5e11)
    assert (site.speed, site.host, catalogue.hosts["big"].cores) == (0.5, "big", 2)
    (link,) = catalogue.links
    assert (link.src, link.dst, link.bandwidth, link.latency_s, link.price_gb) == ("us", "eu", 12.5e6, 0.04, 0.01)


@pytest.mark.parametrize(
    ("written", "bandwidth", "limit"),
    [("", 1e6, 1e6), ("bandwidth: 100 Mbps, ", 1e6, 1e6), ("bandwidth: 1 kB/s, ", 1e3, 1e6)],
)
def test_a_link_with_a_limit_has_no_more_bandwidth(
    tmp_path: Path, written: str, bandwidth: float, limit: float
) -> None:
    (link,) = read(tmp_path, f"links: [{{from: us, to: eu, {written}limit: 1 MB/s}}]").links
    assert (link.bandwidth, link.limit) == (bandwidth, limit)


def test_a_source_with_everything(tmp_path: Path) -> None:
    text = """
        sources:
          s:
            kind: stream
            at: eu
            columns: {id: {type: int8, width: 9, distinct: 7k}, ts: timestamptz, x: float8}
            key: [id]
            rate: 10 /s
            retention: 1 h
            time: ts
            stays: {sites: [eu], aggregates: anywhere}
            parent_first: true
            files: {path: data, format: csv}
    """
    source = read(tmp_path, text).sources["s"]
    assert (source.kind, source.site, source.key, source.time) == (SourceKind.STREAM, "eu", ("id",), "ts")
    assert (source.rate, source.retention_s, source.rows, source.static) == (10, 3600, None, False)
    assert source.columns is not None
    assert [(c.name, c.type, c.width, c.distinct) for c in source.columns] == [
        ("id", BIGINT, 9, 7000),
        ("ts", TIMESTAMP, None, None),
        ("x", DOUBLE, None, None),
    ]
    assert source.stays == Stays(("eu",), aggregates_anywhere=True)
    assert source.parent_first
    assert source.origin == FileFolder("data", "csv")


def test_a_dsn_is_kept_as_written(tmp_path: Path) -> None:
    text = 'sources: {s: {kind: table, at: us, columns: {a: text}, postgres: {dsn: "${DSN}", table: public.s}}}'
    catalogue = read_project(write_project(tmp_path, MINIMAL + text), {"DSN": "postgresql://me:hunter2@host/db"})
    assert catalogue.sources["s"].origin == PostgresTable("${DSN}", "public.s")
    assert "hunter2" not in repr(catalogue)


def test_a_source_may_ask_for_a_trigger(tmp_path: Path) -> None:
    source = '{kind: table, at: us, columns: {a: text}, postgres: {dsn: "${DSN}", table: a, watch: trigger}}'
    text = f"{MINIMAL}sources: {{a: {source}, b: {source.replace(', watch: trigger', '')}}}"
    sources = read_project(write_project(tmp_path, text), {"DSN": "host=db"}).sources
    assert sources["a"].has_trigger and not sources["b"].has_trigger
    assert shape_of(replace(sources["a"], has_trigger=False)) == shape_of(sources["a"]), "it is not read again for it"
    with pytest.raises(InputError, match="watch"):
        read_project(write_project(tmp_path, text.replace("trigger", "always")), {"DSN": "host=db"})


def test_addresses_in_variables_that_differ_in_case_only_are_a_mistake(tmp_path: Path) -> None:
    text = """
        sources:
          a: {kind: table, at: us, postgres: {dsn: "${US_DSN}", table: a}}
          b: {kind: table, at: us, postgres: {dsn: "${US_DSN}", table: b}}
          c: {kind: table, at: eu, postgres: {dsn: "${us_dsn}", table: c}}
    """
    (problem,) = mistakes(tmp_path, text)
    assert problem.message == (
        'sources "a" and "c" name addresses "${US_DSN}" and "${us_dsn}", which differ in upper and lower case only'
    )
    assert problem.where is not None and problem.where.line == 7
    assert problem.hint == "Headrace cannot tell these databases apart; rename one of the variables"


def test_a_key_may_be_one_name_and_a_stay_one_site(tmp_path: Path) -> None:
    text = "sources: {s: {kind: table, at: us, key: a, stays: us, columns: {a: text}}}"
    source = read(tmp_path, text).sources["s"]
    assert source.key == ("a",)
    assert source.stays == Stays(("us",))
    assert source.columns is not None
    assert source.columns[0].type == STRING


def test_contracts_and_their_defaults(tmp_path: Path) -> None:
    text = f"""
        sources: {{t: {T}}}
        contracts:
          a: {{view: v, at: eu, freshness: 30 s}}
          b: {{view: v, at: us, freshness: 5 min, penalty: 0.001 $/row, owner: me, refresh: full,
               deliver: {{delta: d}}}}
    """
    contracts = read(tmp_path, text, v="SELECT * FROM t").contracts
    a, b = contracts["a"], contracts["b"]
    assert (a.freshness_s, a.penalty, a.owner, a.deliver, a.refresh) == (30, 0, None, None, Refresh.INCREMENTAL)
    assert (b.freshness_s, b.penalty, b.owner, b.refresh) == (300, 0.001, "me", Refresh.FULL)
    assert b.deliver == DeltaFolder("d")


def test_operator_times_have_defaults_and_are_overridden_field_by_field(tmp_path: Path) -> None:
    plain = read(tmp_path, "")
    assert plain.operator_times["join"] == OperatorTime(0.15, 2e-6, 4e-6)
    assert plain.operator_times["apply"] == OperatorTime(0.05, 1.5e-5, 0)
    assert not plain.operator_times_declared
    declared = read(tmp_path, "operator_times: {join: {fixed: 50 ms}, copy: {fixed: 1, per_in: 2, per_out: 3}}")
    assert declared.operator_times_declared
    assert declared.operator_times["join"] == OperatorTime(0.05, 2e-6, 4e-6)
    assert declared.operator_times["copy"] == OperatorTime(1, 2, 3)
    assert declared.operator_times["union"] == plain.operator_times["union"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Headroom(0.3, 0.1, None)),
        ("operator_times: {join: {fixed: 1}}", Headroom(0, 0, 0)),
        ("headroom: {cpu: 0.5}", Headroom(0.5, 0.1, None)),
        ("headroom: {blocking: 2 s}", Headroom(0.3, 0.1, 2)),
        ("headroom: {link: 20 %, blocking: measured}\noperator_times: {join: {fixed: 1}}", Headroom(0, 0.2, None)),
    ],
)
def test_headroom_is_nothing_where_operator_times_are_declared(tmp_path: Path, text: str, expected: Headroom) -> None:
    assert read(tmp_path, text).headroom == expected


def test_admission_is_sustainable_unless_said(tmp_path: Path) -> None:
    assert read(tmp_path, "").admission is Admission.SUSTAINABLE
    assert read(tmp_path, "admission: paper").admission is Admission.PAPER


def test_feeds_devices_templates_and_functions(tmp_path: Path) -> None:
    text = """
        sources:
          posts: {kind: stream, at: us, time: ts, columns: {pid: bigint, author: bigint, ts: timestamp}}
          follows: {kind: table, at: us, columns: {who: bigint, whom: bigint}}
          people: {kind: table, at: us, key: uid, columns: {uid: bigint, room: int}}
          friends: {kind: table, at: us, columns: {uid: bigint, friend: bigint}}
        feeds:
          home: {events: {source: posts, producer: author, time: ts, id: pid},
                 follows: {source: follows, consumer: who, producer: whom},
                 per_producer: 5, diversity: {more_than: 2, within: 1 h}, latency: {p95: 50 ms}, store: {redis: {url: "redis://localhost"}}}
        devices:
          phones: {table: people, id: uid, up: 1.0, down: 0.5, capacity: room,
                   streams: {location: {columns: {lat: double, lng: double}, rate: 0.1 /s}}}
        templates:
          nearby: {per: {table: friends, a: uid, b: friend}, devices: phones, view: near}
        functions:
          apart: {python: "geo:apart", arguments: [double, double], returns: double, deterministic: true}
    """
    catalogue = read(tmp_path, text, near="SELECT x.lat FROM a.location x JOIN b.location y ON x.lat = y.lat")
    feed, phones = catalogue.feeds["home"], catalogue.devices["phones"]
    assert (feed.coherency, feed.limit, feed.per_producer, dict(feed.latency), feed.store) == (
        "per-producer",
        20,
        5,
        {"p95": 0.05},
        "redis",
    )
    assert feed.diversity is not None
    assert (feed.diversity.more_than, feed.diversity.within_s) == (2, 3600)
    assert (phones.up, phones.down, phones.capacity, phones.streams[0].rate) == (1, 0.5, "room", 0.1)
    assert (catalogue.templates["nearby"].a, catalogue.templates["nearby"].devices) == ("uid", "phones")
    assert (catalogue.functions["apart"].target, catalogue.functions["apart"].version) == ("geo:apart", 1)
    assert catalogue.views["near"].reads == ("a.location", "b.location")
    assert catalogue.problems == ()


def test_mistakes_of_the_file_and_of_all_views_are_reported_at_once_in_the_order_of_the_text(tmp_path: Path) -> None:
    text = f"""
        sources: {{t: {T}, u: {{kind: table, at: mars, rate: 5 MB, columns: {{a: int}}}}}}
        contracts: {{c: {{view: nothing, at: eu, freshness: 0 s}}}}
    """
    found = mistakes(tmp_path, text, v="SELECT idd FROM t", w="SELECT b FROM u", x="SELEC")
    assert [(Path(p.where.file).name, p.where.line) for p in found if p.where] == [
        ("headrace.yml", 4),
        ("headrace.yml", 4),
        ("headrace.yml", 5),
        ("headrace.yml", 5),
        ("v.sql", 1),
        ("w.sql", 1),
        ("x.sql", 1),
    ]


def test_a_source_with_mistakes_in_its_columns_makes_no_view_wrong(tmp_path: Path) -> None:
    text = "sources: {t: {kind: table, at: us, columns: {id: bigit}}, u: nonsense}"
    found = mistakes(tmp_path, text, v="SELECT id FROM t", w="SELECT x FROM u")
    assert [problem.message for problem in found] == [
        'columns.id.type of source "t": "bigit" is not a type',
        'source "u" must be a mapping, not text',
    ]


def test_a_misspelt_field_does_not_hide_other_mistakes_of_its_entry(tmp_path: Path) -> None:
    found = mistakes(tmp_path, "sources: {t: {kind: tabel, at: mars, columns: {a: int}, key: b}}")
    assert [problem.message for problem in found] == [
        'kind of source "t" cannot be "tabel"',
        'source "t" names site "mars", which does not exist',
        'key of source "t" names column "b", which does not exist',
    ]


def test_a_view_over_columns_that_only_the_database_knows_is_a_warning_when_wished(tmp_path: Path) -> None:
    text = 'sources: {t: {kind: table, at: us, postgres: {dsn: "${D}", table: t}}}\n'
    text += "contracts: {c: {view: v, at: us, freshness: 1 s}}"
    folder = write_project(tmp_path, MINIMAL + text, v="SELECT a FROM t")
    with pytest.raises(InputError, match='the columns of source "t" are not known'):
        read_project(folder, {"D": ""})
    catalogue = read_project(folder, {"D": ""}, unknown_columns=Severity.WARNING)
    assert [(p.severity, p.message) for p in catalogue.problems] == [
        (Severity.WARNING, 'the columns of source "t" are not known')
    ]
    assert "v" not in catalogue.views


def test_a_view_that_nobody_uses_is_noted(tmp_path: Path) -> None:
    text = f"sources: {{t: {T}}}\ncontracts: {{c: {{view: w, at: us, freshness: 1 s}}}}"
    catalogue = read(tmp_path, text, v="SELECT id FROM t", w="SELECT * FROM x", x="SELECT id FROM t")
    assert [(p.severity, p.message) for p in catalogue.problems] == [(Severity.NOTE, 'view "v" is not used')]


def test_selectivity_is_read_over_the_columns_of_its_source(tmp_path: Path) -> None:
    text = f"sources: {{t: {T}}}\nselectivity: {{t: {{\"name = 'en'\": 40 %}}}}"
    (found,) = read(tmp_path, text).selectivity
    assert (found.source, found.text) == ("t", "name = 'en'")
    assert found.share == pytest.approx(0.4)
    assert found.predicate is not None
    bad = mistakes(tmp_path, text.replace("name =", "nam ="))
    assert [str(problem.where).rpartition("/")[2] for problem in bad] == ["headrace.yml:4:19"]


def test_a_folder_without_a_project_is_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no project in"):
        read_project(tmp_path, {})
    with pytest.raises(UsageError, match="does not exist"):
        read_project(tmp_path / "nowhere", {})
    (tmp_path / "headrace.yaml").write_text("project: p")
    with pytest.raises(UsageError) as caught:
        read_project(tmp_path, {})
    assert caught.value.hint == "rename headrace.yaml to headrace.yml"
    with pytest.raises(UsageError, match="is a file"):
        read_project(tmp_path / "headrace.yaml", {})


def test_files_that_are_not_text_are_mistakes_at_their_place(tmp_path: Path) -> None:
    write_project(tmp_path, MINIMAL, v="")
    (tmp_path / "views" / "v.sql").write_bytes(b"SELECT\n  '\xff'")
    with pytest.raises(InputError) as caught:
        read_project(tmp_path, {})
    assert [(p.message, p.where and p.where.line, p.where and p.where.column) for p in caught.value.problems] == [
        (f"{tmp_path / 'views' / 'v.sql'} is not UTF-8 text", 2, 4)
    ]
    (tmp_path / "headrace.yml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"headrace\.yml is not UTF-8 text"):
        read_project(tmp_path, {})


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    write_project(tmp_path, MINIMAL)
    (tmp_path / "headrace.yml").write_bytes(b"\xef\xbb\xbf" + MINIMAL.encode())
    assert read_project(tmp_path, {}).project == "p"


def test_a_file_that_cannot_be_read_is_a_mistake(tmp_path: Path) -> None:
    write_project(tmp_path, MINIMAL)
    (tmp_path / "views" / "v.sql").mkdir()
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read_project(tmp_path, {})


SHARED = Path(__file__).parents[3] / "shared"


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared examples are not beside the project")
@pytest.mark.parametrize(
    "name", ["examples/missing-middle", "examples/projected-and-filtered", "examples/worked-join", "workloads/table1"]
)
def test_published_projects_have_no_mistakes(name: str) -> None:
    catalogue = read_project(SHARED / name, os.environ)
    assert catalogue.problems == ()
    assert set(catalogue.views) >= {contract.view for contract in catalogue.contracts.values()}
    assert catalogue.headroom == Headroom(0, 0, 0)


def test_views_are_in_the_order_people_count(tmp_path: Path) -> None:
    text = f"sources: {{t: {T}}}"
    views = dict.fromkeys(("V10", "V9", "V1", "A"), "SELECT id FROM t")
    assert list(read(tmp_path, text, **views).views) == ["A", "V1", "V9", "V10"]


def test_a_column_that_cannot_be_captured_is_said_to_be_so_and_not_to_be_missing(tmp_path: Path) -> None:
    (tmp_path / "views").mkdir()
    (tmp_path / "views" / "v.sql").write_text("SELECT t.id, t.lasts, t.other FROM t")
    (tmp_path / "headrace.yml").write_text(
        "project: p\nsites: {us: {}}\nsources:\n  t: {kind: table, at: us, key: [id, lasts], "
        'postgres: {dsn: "host=db", table: t}}\ncontracts: {v: {view: v, at: us, freshness: 5 s}}\n'
    )
    left_out = (("lasts", "has type interval, which is not handled"),)

    def inspect(project: str, sources: Mapping[str, Source]) -> tuple[Mapping[str, Source], tuple[Problem, ...]]:
        found = replace(sources["t"], columns=(SourceColumn("id", INT),), left_out=left_out)
        return {"t": found}, ()

    with pytest.raises(InputError) as raised:
        read_project(tmp_path, {}, inspect)
    assert [problem.message for problem in raised.value.problems] == [
        'key of source "t" names column "lasts", which has type interval, which is not handled',
        'column "t.lasts" has type interval, which is not handled',
        'column "t.other" does not exist',
    ]


def test_a_streaming_contract_is_promised_ten_seconds_and_pushed_again_at_once(tmp_path: Path) -> None:
    text = f"""
        sources: {{s: {T}}}
        contracts: {{a: {{view: v, at: eu, freshness: streaming}}, b: {{view: v, at: eu, freshness: 10 s}}}}
    """
    catalogue = read(tmp_path, text, v="SELECT id FROM s")
    found = {name: (one.freshness_s, one.streaming) for name, one in catalogue.contracts.items()}
    assert found == {"a": (10.0, True), "b": (10.0, False)}
