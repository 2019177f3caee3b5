"""Catalogues and blocks written down by hand, or taken from plan documents, for tests that start behind the SQL."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.model.block import Aggregation, Block, BlockFilter, BlockInput, Derivation, Residual
from headrace.model.catalogue import (
    Admission,
    Catalogue,
    Contract,
    Headroom,
    Host,
    Link,
    OperatorTime,
    Refresh,
    Selectivity,
    Site,
    Source,
    SourceColumn,
    SourceKind,
    Stays,
)
from headrace.model.errors import Location
from headrace.model.expr import Call, Column, Expr, Literal
from headrace.model.relation import Output
from headrace.model.types import BIGINT, BOOLEAN, STRING
from headrace.plan.statistics import fingerprint_of

HERE = Location("test")
SHARED = Path(__file__).parents[3] / "shared"

PAPER_TIMES = {
    "capture": OperatorTime(0, 0, 0),
    "copy": OperatorTime(0.02, 0.25 / 8000, 0),
    "apply": OperatorTime(0.05, 5 / 9000, 0),
    "join": OperatorTime(0.05, 0, 5 / 9000),
    "union": OperatorTime(0.02, 0, 0.7 / 9000),
    "aggregate": OperatorTime(0.05, 5 / 9000, 0),
    "derive": OperatorTime(0.05, 5 / 9000, 0),
}


def site(name: str, cpu: float = 0.34, disk: float = 0.11, speed: float = 1.0, **limits: Any) -> Site:
    return Site(name, cpu, disk, limits.get("cores"), limits.get("disk_capacity"), speed, limits.get("host"), HERE)


def link(src: str, dst: str, bandwidth: float | None = 125e6, latency: float = 0.001, price: float = 0.01) -> Link:
    return Link(src, dst, bandwidth, latency, price, HERE)


def mesh(names: Sequence[str], **terms: Any) -> tuple[Link, ...]:
    return tuple(link(a, b, **terms) for a in names for b in names if a != b)


def source(
    name: str, at: str, rows: float, rate: float, columns: Mapping[str, tuple[float, float | None]], **more: Any
) -> Source:
    """`columns` maps names to (width, distinct)."""
    return Source(
        name=name,
        kind=SourceKind.TABLE,
        site=at,
        key=more.get("key", ()),
        columns=tuple(SourceColumn(column, BIGINT, width, distinct) for column, (width, distinct) in columns.items()),
        rows=rows,
        rate=rate,
        static=more.get("static", False),
        parent_first=more.get("parent_first", False),
        stays=more.get("stays"),
        time=None,
        retention_s=None,
        origin=None,
        declared_at=HERE,
    )


def contract(name: str, view: str, at: str, freshness: float, penalty: float = 0.001) -> Contract:
    return Contract(name, view, at, freshness, penalty, None, None, Refresh.INCREMENTAL, HERE)


def catalogue(
    sites: Iterable[Site],
    links: Iterable[Link],
    sources: Iterable[Source],
    contracts: Iterable[Contract] = (),
    selectivity: Iterable[tuple[str, str, float]] = (),
    **more: Any,
) -> Catalogue:
    return Catalogue(
        project="test",
        directory=".",
        hosts={host.name: host for host in more.get("hosts", ())},
        sites={entry.name: entry for entry in sites},
        links=tuple(links),
        sources={entry.name: entry for entry in sources},
        views={},
        contracts={entry.name: entry for entry in contracts},
        feeds={},
        devices={},
        templates={},
        functions={},
        selectivity=tuple(Selectivity(name, text, None, share, HERE) for name, text, share in selectivity),
        operator_times=more.get("times", PAPER_TIMES),
        operator_times_declared=True,
        admission=more.get("admission", Admission.SUSTAINABLE),
        headroom=more.get("headroom", Headroom(0.0, 0.0, 0.0)),
    )


def host(name: str, cores: float) -> Host:
    return Host(name, cores, HERE)


def column(name: str) -> Column:
    return Column(name, BIGINT)


def condition(alias: str, text: str) -> Expr:
    """Stands for a predicate over one alias whose text alone matters."""
    return Call(">", (column(f"{alias}.{text.split()[0]}"), Literal(text, STRING)), BOOLEAN)


def block(
    name: str,
    inputs: Sequence[str | tuple[str, str]],
    classes: Sequence[Sequence[tuple[str, str]]],
    sources: Mapping[str, Source],
    filters: Mapping[str, str] | None = None,
    keep: Mapping[str, Sequence[str]] | None = None,
    residuals: Sequence[Residual] = (),
    top: Aggregation | Derivation | None = None,
    outputs: Sequence[Output] | None = None,
) -> Block:
    """`inputs` are sources, or (alias, source); without `keep` everything is kept."""
    aliases = tuple(BlockInput(entry, entry) if isinstance(entry, str) else BlockInput(*entry) for entry in inputs)
    if keep is None:
        keep = {entry.alias: [c.name for c in sources[entry.source].columns or ()] for entry in aliases}
    kept = {alias: tuple(columns) for alias, columns in keep.items() if columns}
    if outputs is None:
        names = [f"{alias}.{name}" for alias, columns in kept.items() for name in columns]
        outputs = [Output(entry.replace(".", "_"), column(entry)) for entry in names]
    made = BlockFilterTexts(filters or {})
    meaning = [name, repr(aliases), repr(classes), repr(filters), repr(kept), repr(residuals), repr(top)]
    return Block(
        id=name,
        inputs=aliases,
        classes=tuple(tuple(tuple(member) for member in class_) for class_ in classes),  # type: ignore[misc]
        filters=made.filters,
        residuals=tuple(residuals),
        keep=kept,
        outputs=tuple(outputs),
        top=top,
        fingerprint=fingerprint_of(meaning),
    )


class BlockFilterTexts:
    """Filters given as texts of conjuncts joined by AND."""

    def __init__(self, filters: Mapping[str, str]) -> None:
        self.filters = tuple(
            BlockFilter(
                alias, tuple(condition(alias, part) for part in text.split(" AND ")), tuple(text.split(" AND "))
            )
            for alias, text in filters.items()
        )


def shared(*parts: str) -> Path:
    """A path in the folder beside the project; the test is skipped where there is none."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{path} is not here")
    return path


def read_document(name: str) -> dict[str, Any]:
    """The expected plan of an example project."""
    document: dict[str, Any] = json.loads(shared("examples", name, "plan.json").read_text(encoding="utf-8"))
    return document


def catalogue_of(document: Mapping[str, Any]) -> Catalogue:
    """The catalogue that a plan document was made from."""
    declared = document["catalogue"]
    sources = [
        source(
            entry["id"],
            entry["site"],
            entry["rows"],
            entry["rate"],
            {name: (width, entry["distinct"].get(name)) for name, width in entry["cols"].items()},
        )
        for entry in declared["sources"]
    ]
    return catalogue(
        [site(e["id"], e["cpu_price_h"], e["disk_price_gb_month"], e["speed"]) for e in declared["sites"]],
        [link(e["src"], e["dst"], e["bandwidth"], e["latency"], e["price_gb"]) for e in declared["links"]],
        sources,
        [contract(e["id"], e["view"], e["site"], e["staleness"], e["penalty"]) for e in document["contracts"]],
        [(name, text, share) for view in document["views"] for name, text, share in view["filters"]],
        times={name: OperatorTime(**time) for name, time in declared["times"].items()},
    )


def blocks_of_document(document: Mapping[str, Any], sources: Mapping[str, Source]) -> dict[str, tuple[Block, ...]]:
    """The blocks of the views of a plan document that has no inner ones."""
    return {
        view["id"]: (
            block(
                view["id"],
                view["sources"],
                view["classes"],
                sources,
                {name: text for name, text, _ in view["filters"]},
                view["keep"] or None,
            ),
        )
        for view in document["views"]
    }


def stays(*sites: str, aggregates: bool = False) -> Stays:
    return Stays(sites, aggregates)
