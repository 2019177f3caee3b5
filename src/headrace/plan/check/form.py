"""The form of a plan document: which fields there are and of what kind. Fields that are not named here are ignored."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]
ColumnId = tuple[str, str]


class Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Site(Part):
    id: str
    cpu_price_h: Number
    disk_price_gb_month: Number
    cpu_cap: Number | None = None
    disk_cap: Number | None = None
    speed: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    host: str | None = None


class Host(Part):
    id: str
    cpu_cap: Number


class Link(Part):
    src: str
    dst: str
    bandwidth: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None
    latency: Number
    price_gb: Number


class Staying(Part):
    sites: tuple[str, ...]
    aggregates: str | None = None


def _staying(value: object) -> object:
    return {"sites": value} if isinstance(value, list) else value


class Source(Part):
    id: str
    site: str
    rows: Number
    rate: Number
    cols: dict[str, Number]
    distinct: dict[str, Number]
    key: tuple[str, ...] = ()
    static: bool = False
    fk_parent_first: bool = False
    stays: Annotated[Staying | None, BeforeValidator(_staying)] = None


class Time(Part):
    fixed: Number
    per_in: Number
    per_out: Number


class Headroom(Part):
    cpu: Number = 0.0
    link: Number = 0.0
    blocking: Number = 0.0


class Catalogue(Part):
    sites: tuple[Site, ...]
    hosts: tuple[Host, ...] = ()
    links: tuple[Link, ...]
    sources: tuple[Source, ...]
    times: dict[str, Time]
    headroom: Headroom = Headroom()


class Read(Part):
    """A source or block that a view reads, under an alias."""

    alias: str
    source: str


def _read(value: object) -> object:
    return {"alias": value, "source": value} if isinstance(value, str) else value


class View(Part):
    id: str
    sources: tuple[Annotated[Read, BeforeValidator(_read)], ...]
    classes: tuple[tuple[ColumnId, ...], ...]
    filters: tuple[tuple[str, str, Number], ...]
    keep: dict[str, tuple[str, ...]]
    residual: tuple[tuple[tuple[str, ...], str, Number], ...] = ()
    aggregate: dict[str, Any] | None = None
    derive: dict[str, Any] | None = None
    rows: Number | None = None
    rate: Number | None = None
    cols: dict[str, Number] = {}
    distinct: dict[str, Number] = {}
    unsupported: str | None = None


class Contract(Part):
    id: str
    view: str
    site: str
    staleness: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    penalty: Number
    rule: Literal["sustainable", "paper"]
    vertex: str
    batch_s: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    critical_path_s: Number
    critical_path: tuple[str, ...]
    cost: Number
    forced: bool = False
    block: str | None = None

    @property
    def block_id(self) -> str:
        """The entry of `views` that is kept: named like the view, unless two versions of it run side by side."""
        return self.view if self.block is None else self.block


class Vertex(Part):
    id: str
    kind: Literal["relation", "delta", "view"]
    site: str
    scope: tuple[str, ...]
    delta_of: tuple[str, ...] | None
    base: bool
    rate: Number
    rates: dict[str, Number] = {}
    width: Number
    rows: Number | None
    arrival_s: Number | None = None
    serves: tuple[str, ...]


class Edge(Part):
    id: str
    op: Literal["capture", "copy", "join", "union", "apply", "aggregate", "derive"]
    inputs: tuple[str, ...] = Field(alias="in")
    out: str
    on: tuple[tuple[ColumnId, ColumnId], ...] = ()
    select: dict[str, str] = {}
    aggregate: dict[str, Any] | None = None
    derive: dict[str, Any] | None = None
    serves: tuple[str, ...] | None = None

    @property
    def is_recomputed(self) -> bool:
        """Whether it makes a view from all rows of what it reads, at every push."""
        return self.op == "derive" and (self.derive or {}).get("kind") == "recompute"


class Totals(Part):
    rescost: Number
    cpu: dict[str, Number]
    link: dict[str, Number]
    disk: dict[str, Number]


class Rejected(Part):
    contract: str
    reason: str
    fastest_cp_s: Number | None = None
    smallest_staleness: Number | None = None


class Document(Part):
    format: Literal["plan/1"]
    catalogue: Catalogue
    views: tuple[View, ...]
    contracts: tuple[Contract, ...]
    vertices: tuple[Vertex, ...]
    edges: tuple[Edge, ...]
    totals: Totals
    rejected: tuple[Rejected, ...]
