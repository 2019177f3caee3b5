"""The form of a plan document: which fields there are and of what kind. Fields that are not named here are ignored."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]
ColumnId = tuple[str, str]


class FormPart(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class SiteForm(FormPart):
    id: str
    cpu_price_h: Number
    disk_price_gb_month: Number
    cpu_cap: Number | None = None
    disk_cap: Number | None = None
    speed: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    host: str | None = None


class HostForm(FormPart):
    id: str
    cpu_cap: Number


class LinkForm(FormPart):
    src: str
    dst: str
    bandwidth: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None
    latency: Number
    price_gb: Number


class StayingForm(FormPart):
    sites: tuple[str, ...]
    aggregates: str | None = None


def _complete_staying(value: object) -> object:
    return {"sites": value} if isinstance(value, list) else value


class SourceForm(FormPart):
    id: str
    site: str
    rows: Number
    rate: Number
    cols: dict[str, Number]
    distinct: dict[str, Number]
    key: tuple[str, ...] = ()
    static: bool = False
    fk_parent_first: bool = False
    stays: Annotated[StayingForm | None, BeforeValidator(_complete_staying)] = None


class TimeForm(FormPart):
    fixed: Number
    per_in: Number
    per_out: Number


class HeadroomForm(FormPart):
    cpu: Number = 0.0
    link: Number = 0.0
    blocking: Number = 0.0


class CatalogueForm(FormPart):
    sites: tuple[SiteForm, ...]
    hosts: tuple[HostForm, ...] = ()
    links: tuple[LinkForm, ...]
    sources: tuple[SourceForm, ...]
    times: dict[str, TimeForm]
    headroom: HeadroomForm = HeadroomForm()


class ReadForm(FormPart):
    """A source or block that a view reads, under an alias."""

    alias: str
    source: str


def _complete_read(value: object) -> object:
    return {"alias": value, "source": value} if isinstance(value, str) else value


class ViewForm(FormPart):
    id: str
    sources: tuple[Annotated[ReadForm, BeforeValidator(_complete_read)], ...]
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


class ContractForm(FormPart):
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


class VertexForm(FormPart):
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


class EdgeForm(FormPart):
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
        kind, args = ((self.derive or {}).get(name) for name in ("kind", "args"))
        return self.op == "derive" and kind == "full" and isinstance(args, dict) and "sql" in args


class TotalsForm(FormPart):
    rescost: Number
    cpu: dict[str, Number]
    link: dict[str, Number]
    disk: dict[str, Number]


class RejectedForm(FormPart):
    contract: str
    reason: str
    fastest_cp_s: Number | None = None
    smallest_staleness: Number | None = None


class PlanForm(FormPart):
    format: Literal["plan/1"]
    catalogue: CatalogueForm
    views: tuple[ViewForm, ...]
    contracts: tuple[ContractForm, ...]
    vertices: tuple[VertexForm, ...]
    edges: tuple[EdgeForm, ...]
    totals: TotalsForm
    rejected: tuple[RejectedForm, ...]
