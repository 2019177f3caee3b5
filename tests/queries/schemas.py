"""The sources of the benchmark queries beside this file, for all tests that read them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headrace.model.catalogue import Source, SourceColumn, SourceKind
from headrace.model.errors import Location
from headrace.model.type_names import type_named

FOLDER = Path(__file__).parent


def source(
    name: str, columns: str, key: str = "", kind: SourceKind = SourceKind.TABLE, time: str | None = None
) -> Source:
    """A source from one line of text: `id bigint, total decimal(15,2)`; types that contain a comma have no space after
    it.
    """
    parsed = []
    for column in columns.split(", "):
        column_name, type_name = column.split(" ", 1)
        type_ = type_named(type_name)
        assert type_ is not None, type_name
        parsed.append(SourceColumn(column_name, type_))
    return Source(
        name=name,
        kind=kind,
        site="here",
        key=tuple(key.split()),
        columns=tuple(parsed),
        rows=None,
        rate=None,
        static=False,
        parent_first=False,
        stays=None,
        time=time,
        retention_s=3600.0 if kind == SourceKind.STREAM else None,
        origin=None,
        declared_at=Location("headrace.yml"),
    )


def by_name(*sources: Source) -> dict[str, Source]:
    return {each.name: each for each in sources}


TPCH: Mapping[str, Source] = by_name(
    source("region", "r_regionkey bigint, r_name string, r_comment string", "r_regionkey"),
    source("nation", "n_nationkey bigint, n_name string, n_regionkey bigint, n_comment string", "n_nationkey"),
    source(
        "supplier",
        "s_suppkey bigint, s_name string, s_address string, s_nationkey bigint, s_phone string, "
        "s_acctbal decimal(15,2), s_comment string",
        "s_suppkey",
    ),
    source(
        "customer",
        "c_custkey bigint, c_name string, c_address string, c_nationkey bigint, c_phone string, "
        "c_acctbal decimal(15,2), c_mktsegment string, c_comment string",
        "c_custkey",
    ),
    source(
        "part",
        "p_partkey bigint, p_name string, p_mfgr string, p_brand string, p_type string, p_size int, "
        "p_container string, p_retailprice decimal(15,2), p_comment string",
        "p_partkey",
    ),
    source(
        "partsupp",
        "ps_partkey bigint, ps_suppkey bigint, ps_availqty int, ps_supplycost decimal(15,2), ps_comment string",
        "ps_partkey ps_suppkey",
    ),
    source(
        "orders",
        "o_orderkey bigint, o_custkey bigint, o_orderstatus string, o_totalprice decimal(15,2), o_orderdate date, "
        "o_orderpriority string, o_clerk string, o_shippriority int, o_comment string",
        "o_orderkey",
    ),
    source(
        "lineitem",
        "l_orderkey bigint, l_partkey bigint, l_suppkey bigint, l_linenumber int, l_quantity decimal(15,2), "
        "l_extendedprice decimal(15,2), l_discount decimal(15,2), l_tax decimal(15,2), l_returnflag string, "
        "l_linestatus string, l_shipdate date, l_commitdate date, l_receiptdate date, l_shipinstruct string, "
        "l_shipmode string, l_comment string",
        "l_orderkey l_linenumber",
    ),
)

NEXMARK: Mapping[str, Source] = by_name(
    source(
        "person",
        "id bigint, name string, emailAddress string, creditCard string, city string, state string, "
        "dateTime timestamp, extra string",
        "id",
    ),
    source(
        "auction",
        "id bigint, itemName string, description string, initialBid bigint, reserve bigint, dateTime timestamp, "
        "expires timestamp, seller bigint, category bigint, extra string",
        "id",
    ),
    source(
        "bid",
        "auction bigint, bidder bigint, price bigint, channel string, url string, dateTime timestamp, extra string",
        kind=SourceKind.STREAM,
        time="dateTime",
    ),
    source("side_input", "key bigint, value string", "key"),
)


def queries(folder: str) -> dict[str, str]:
    """The texts of one benchmark by name, in order."""
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted((FOLDER / folder).glob("*.sql"))}


def understood() -> list[str]:
    """Queries of all kinds over the sources of `headrace.testing.SCHEMA`."""
    return _paragraphs("understood.sql")


def shapes() -> list[str]:
    """More queries over the same sources, that DuckDB understands."""
    return _paragraphs("shapes.sql")


def _paragraphs(file: str) -> list[str]:
    _, *paragraphs = (FOLDER / file).read_text(encoding="utf-8").split("\n\n")
    return [paragraph.strip() for paragraph in paragraphs]


def postgres_queries() -> list[str]:
    """Queries in PostgreSQL's dialect over the same sources."""
    return _paragraphs("postgres.sql")


def postgres_only() -> list[str]:
    """More of them, which `convert` cannot write in Spark's words."""
    return _paragraphs("postgres_only.sql")


def postgres_origin_types() -> list[str]:
    """Queries in that dialect over a table whose columns say their types in PostgreSQL."""
    return _paragraphs("postgres_origin_types.sql")
