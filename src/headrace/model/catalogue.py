"""What people declared, as values: sites, links, sources, views, contracts, feeds, devices, templates.

Units are seconds, bytes and dollars everywhere; a month is 30 days and a GB is 1e9 bytes. None means "not declared":
declared statistics override measured ones, which override estimates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar

from headrace.model.dialect import SqlDialect
from headrace.model.errors import Location, Problem
from headrace.model.expr import Expr
from headrace.model.feed_plan import PlannedPrices
from headrace.model.full_query import FullQuery
from headrace.model.options import DeclaredEngine
from headrace.model.origin_types import ColumnOrigin
from headrace.model.password import hide_password
from headrace.model.plan_modes import PlanWishes
from headrace.model.relation import Order, Relation
from headrace.model.template_names import read_side
from headrace.model.types import Type


@dataclass(frozen=True, slots=True)
class Host:
    """A machine whose cores several sites share."""

    name: str
    cores: float
    declared_at: Location


@dataclass(frozen=True, slots=True)
class Site:
    """A place that stores and computes. `cores` and `disk_capacity` (bytes) are limits; None is no limit."""

    name: str
    cpu_price_h: float
    disk_price_gb_month: float
    cores: float | None
    disk_capacity: float | None
    speed: float
    host: str | None
    declared_at: Location
    engine: DeclaredEngine | None = None


SLOWEST_LINK = 1e-6
"""Bytes per second that every link carries, so that sending takes a number of seconds."""


@dataclass(frozen=True, slots=True)
class Link:
    """A directed connection: bandwidth in bytes/s (None is no limit), one-way latency in seconds, price in $/GB.

    Never more than `limit` bytes/s are sent over it, so its bandwidth is no larger. `measured` is what it was found to
    carry while something waited for it, and no more than the limit lets through, in bytes/s as plans count rows; None
    if nobody knows.
    """

    src: str
    dst: str
    bandwidth: float | None
    latency_s: float
    price_gb: float
    declared_at: Location
    limit: float | None = None
    measured: float | None = None

    def __post_init__(self) -> None:
        if self.limit is not None:
            object.__setattr__(self, "bandwidth", min(self.bandwidth or self.limit, self.limit))
        if self.bandwidth is not None:
            object.__setattr__(self, "bandwidth", max(SLOWEST_LINK, self.bandwidth))

    @property
    def carries(self) -> float | None:
        """Bytes/s to plan with: what was measured, else what is declared."""
        return self.bandwidth if self.measured is None else max(SLOWEST_LINK, self.measured)


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column with its declared statistics: bytes per value, number of distinct values.

    `origin_type` is what PostgreSQL calls it where our type does not tell; None if nobody said.
    """

    name: str
    type: Type
    width: float | None = None
    distinct: float | None = None
    origin_type: ColumnOrigin | None = None


class SourceKind(StrEnum):
    """A table is keyed and its changes are captured; a stream is append-only."""

    TABLE = "table"
    STREAM = "stream"


@dataclass(frozen=True, slots=True)
class PostgresTable:
    """A table in PostgreSQL. The DSN is kept as written, `${VAR}` unfilled and a password hidden: secrets never enter
    values that travel. Who connects finds them again in the environment or in the project's file.
    """

    kind: ClassVar[str] = "postgres"
    dsn: str
    table: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "dsn", hide_password(self.dsn))

    @property
    def address(self) -> str:
        return self.dsn

    @property
    def place(self) -> str:
        """Where rows are, as it is written: variables are unfilled."""
        return self.dsn

    @property
    def identity(self) -> str:
        """Rows that come from here are the same rows, in whichever server they are."""
        return self.table


@dataclass(frozen=True, slots=True)
class FileFolder:
    """A folder to which files are only ever added; `format` is parquet, csv or jsonl."""

    kind: ClassVar[str] = "files"
    path: str
    format: str

    @property
    def address(self) -> None:
        return None

    @property
    def place(self) -> str:
        """Where rows are, as it is written: variables are unfilled."""
        return self.path

    @property
    def identity(self) -> str:
        """Kept in ledgers: stays as it is whatever the class is called."""
        return f"FileFolder(path={self.path!r}, format={self.format!r})"


@dataclass(frozen=True, slots=True)
class OtherOrigin:
    """Where rows of any other kind of source are: what the project says about it, as texts by name.

    Variables are unfilled, as in a DSN. Sources of one kind with the same `address` have one clock.
    """

    kind: str
    address: str | None = None
    settings: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "address", None if self.address is None else hide_password(self.address))
        object.__setattr__(self, "settings", tuple((name, hide_password(text)) for name, text in self.settings))

    @property
    def place(self) -> str:
        """Where rows are, as it is written: variables are unfilled."""
        return " ".join((self.address or "", *(text for _, text in self.settings)))

    @property
    def identity(self) -> str:
        return repr(self.settings)


Origin = PostgresTable | FileFolder | OtherOrigin
"""Where rows of a source are. `kind` is the field of the project file that says so."""

WRITTEN_HERE = OtherOrigin("written")
"""The origin of a source that has no database: the service writes its rows. Nobody declares one."""


@dataclass(frozen=True, slots=True)
class DeltaFolder:
    """A plain consolidated Delta table kept for other tools."""

    path: str


CopyPlace = PostgresTable | DeltaFolder
"""Where a copy of a view is delivered to; `model.copy_places` names them."""


@dataclass(frozen=True, slots=True)
class Stays:
    """Sites where rows of a source may be; `aggregates_anywhere` lets aggregates leave them."""

    sites: tuple[str, ...]
    aggregates_anywhere: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """Rows that live at a site. `rate` counts changed rows per second: an update counts 2.

    `columns` is None until the source is inspected. Streams have `time` (a column) and `retention_s`. `measured_rate`
    is what a running project found and was planned with instead of `rate`. `found` are statistics that are not
    declared but taken from the database: `rows`, or `width` or `distinct` of a column (`body.width`). `left_out` are
    columns that are there and cannot be captured, each with why: `has type interval, which is not handled`.
    `has_trigger` is whether an event trigger in its database tells of changes of its table. `joins_as_of_event` is
    said of a stream whose rows are to meet tables as they were when the rows came.
    """

    name: str
    kind: SourceKind
    site: str
    key: tuple[str, ...]
    columns: tuple[SourceColumn, ...] | None
    rows: float | None
    rate: float | None
    static: bool
    parent_first: bool
    stays: Stays | None
    time: str | None
    retention_s: float | None
    origin: Origin | None
    declared_at: Location
    measured_rate: float | None = None
    found: tuple[str, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    has_trigger: bool = False
    joins_as_of_event: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a view is not maintained: the name of an operator as `docs/sql.md` lists it, and all that is refused, with
    its place in the text.
    """

    operator: str
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class View:
    """A query and what it means. `query` is a Refusal when the SQL is valid but not maintained, or reads such a view.

    `order` is its ORDER BY over columns of the result: the view is a bag, and rows are sorted where they are shown.
    `reads` are the sources and views named in FROM. `recomputed` is set where contracts ask for `refresh: full`: a
    Refusal when not even that gives one answer at each time.

    `levels` is the view of a template that reads others which read one side only: the same query over these as they
    are, by the names `a.my_place` and `b.their_place`. None if there are no such views.

    `dialect_number` tells how texts in the dialect were read when this one was.
    """

    name: str
    sql: str
    query: Relation | Refusal
    reads: tuple[str, ...]
    notes: tuple[Problem, ...]
    declared_at: Location
    order: tuple[Order, ...] = ()
    recomputed: FullQuery | Refusal | None = None
    levels: Relation | None = None
    dialect: SqlDialect = SqlDialect.SPARK
    dialect_number: int = 1


class Refresh(StrEnum):
    """`FULL` recomputes a view at each push; `AUTO` leaves that to the plan, which takes what is cheaper."""

    INCREMENTAL = "incremental"
    FULL = "full"
    AUTO = "auto"


STREAMING = 0.0
"""Stands for `freshness: streaming` where a number of seconds is written."""

STREAMING_S = 10.0
"""What is promised of a contract with `freshness: streaming`: it is planned for, and counts as late beyond that."""


@dataclass(frozen=True, slots=True)
class Contract:
    """A promise: this view, at this site, at most `freshness_s` behind. Penalty in $ per late row.

    One that is `forced` was refused and is kept on a best-effort basis, with what the others leave; it uses up no
    capacity. `ways` are the views that the plan may choose from if refresh is `AUTO`: they mean the same, and the
    maintained one comes first. `view` is the chosen one. There are none if there is no choice. One that is `streaming`
    is pushed again as soon as the push before is done.
    """

    name: str
    view: str
    site: str
    freshness_s: float
    penalty: float
    owner: str | None
    deliver: CopyPlace | None
    refresh: Refresh
    declared_at: Location
    forced: bool = False
    ways: tuple[str, ...] = ()
    streaming: bool = False

    def asks_as(self, other: Contract) -> bool:
        """Whether another contract asks for the same, wherever it is written and whichever way is chosen."""
        view = other.view if other.view in self.ways else self.view
        return replace(self, declared_at=other.declared_at, view=view) == other


@dataclass(frozen=True, slots=True)
class Events:
    """Where a feed's events come from: a source or a view by its name, and its columns.

    `id` tells a producer's events apart; without one, their times do. With `is_api`, the source is one that the feed
    brings along (`plan.feeds.family`), and people post to it.
    """

    source: str
    producer: str
    time: str
    id: str | None = None
    is_api: bool = False


@dataclass(frozen=True, slots=True)
class Follows:
    """Who follows whom: a source or a view by its name, and its columns; `is_api` as for events."""

    source: str
    consumer: str
    producer: str
    is_api: bool = False


@dataclass(frozen=True, slots=True)
class Diversity:
    """The paper's k,t-diversity: a page shows no more than `more_than` entries of one producer, until every producer
    with an event within the last `within_s` seconds is shown.
    """

    more_than: int
    within_s: float


@dataclass(frozen=True, slots=True)
class Rank:
    """Orders a pool of a feed's newest entries: larger values come first, and newer entries among equal ones.

    The expression reads the entry's columns by their own names, and `age_s`.
    """

    text: str
    expression: Expr
    pool: int


@dataclass(frozen=True, slots=True)
class Feed:
    """The latest events of everyone a consumer follows. `latency` maps `p95`, `p99`... or `mean` to seconds.

    `keep` events of a producer can be read, `shown` of them on one page. `reads_s` is how many pages are read in a
    second, None if nobody said. `store` is postgres or redis; without an `address` it is the PostgreSQL that Headrace
    brings. The address is kept as written, `${VAR}` unfilled and a password hidden. `prices` are those that were
    calibrated on the feed while it ran; without them, some are assumed.
    """

    name: str
    events: Events
    follows: Follows
    coherency: str
    limit: int
    per_producer: int | None
    diversity: Diversity | None
    latency: Mapping[str, float]
    store: str
    declared_at: Location
    site: str = ""
    freshness_s: float = 5.0
    keep: int = 200
    rank: Rank | None = None
    reads_s: float | None = None
    address: str | None = None
    prices: PlannedPrices | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "address", None if self.address is None else hide_password(self.address))

    @property
    def shown(self) -> int:
        """The most entries of one producer that a page may hold, and so the entries stored ahead for a pair."""
        pool = self.limit if self.rank is None else self.rank.pool
        return min(pool, self.per_producer or pool)


@dataclass(frozen=True, slots=True)
class DerivedFrom:
    """What a device makes a stream of: a view over its own `streams`, and `tables` that come from the cloud.

    `program` is the view over all devices (`plan.place.lifting`), which are the column a.
    """

    program: Relation
    streams: tuple[str, ...]
    tables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeviceStream:
    """A stream that every device of a group has: columns and rows per second.

    Views read a device's latest row, or with `keep_s` all its rows of so many seconds. What a device could not send is
    sent by `priority`, higher ones first. A stream that is `derived` from others is not declared, but made by a plan:
    its value is not one row but all rows of a view.
    """

    name: str
    columns: tuple[SourceColumn, ...]
    rate: float | None
    keep_s: float | None = None
    priority: int = 0
    derived: DerivedFrom | None = None


@dataclass(frozen=True, slots=True)
class Devices:
    """A group of devices, one per row of a table.

    `up` and `down` are prices of a message; `capacity` is a number of views, or the column that holds it. Without a
    `broker` it is the one that Headrace brings; its address is kept as written, `${VAR}` unfilled and a password
    hidden. A device keeps `buffer_bytes` that it could not send; one that is away for `forget_s` seconds is forgotten.
    """

    name: str
    table: str
    id: str
    up: float
    down: float
    capacity: int | str | None
    streams: tuple[DeviceStream, ...]
    declared_at: Location
    broker: str | None = None
    buffer_bytes: float = 20e6
    forget_s: float = 604_800.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "broker", None if self.broker is None else hide_password(self.broker))

    @property
    def derived(self) -> Mapping[str, DerivedFrom]:
        """What the streams are made of that devices make of others."""
        return {stream.name: stream.derived for stream in self.streams if stream.derived is not None}


@dataclass(frozen=True, slots=True)
class Template:
    """A view instantiated once per row of a reference table (per friend pair); `a` and `b` are its device columns.

    A template of one side has no `b`. `every` says for a side how many seconds are at least between two rows of its
    streams that the view reads: a number, or the column of the reference table that holds it. Results are posted to
    `notify`, which is kept as addresses are. `program` is the view over all pairs (`plan.place.lifting`), of which one
    part runs on devices and the other in the cloud, and `reads` what the view reads: `a.location`, and tables. None and
    nothing until a plan is made.
    """

    name: str
    table: str
    a: str
    b: str | None
    devices: str
    view: str
    declared_at: Location
    every: Mapping[str, float | str] = field(default_factory=dict)
    notify: str | None = None
    program: Relation | Refusal | None = None
    reads: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "notify", None if self.notify is None else hide_password(self.notify))

    @property
    def sides(self) -> Mapping[str, str]:
        """The column of the reference table by side."""
        return {"a": self.a} if self.b is None else {"a": self.a, "b": self.b}

    @property
    def streams(self) -> Mapping[str, tuple[str, ...]]:
        """The streams that the view reads, by side."""
        read = [one for name in self.reads if (one := read_side(name)) is not None]
        return {side: tuple(stream for of, stream in read if of == side) for side in self.sides}

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(name for name in self.reads if read_side(name) is None)


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A black box for SQL, declared deterministic: `target` is `module:function`. A new `version` is a new function."""

    name: str
    target: str
    arguments: tuple[Type, ...]
    returns: Type
    version: int
    declared_at: Location


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """Seconds: T = fixed + per_in * rows in + per_out * rows out."""

    fixed: float
    per_in: float
    per_out: float


class Admission(StrEnum):
    """The rule that decides whether a promise can be kept (`paper` only to reproduce SMILE)."""

    SUSTAINABLE = "sustainable"
    PAPER = "paper"


@dataclass(frozen=True, slots=True)
class Headroom:
    """Share of each host and link that is kept free.

    `blocking_s` is None for "measured": 0 unless planned on what runs, which sets it to what was `measured`.
    """

    cpu: float
    link: float
    blocking_s: float | None
    measured: bool = False


@dataclass(frozen=True, slots=True)
class Selectivity:
    """Share of a source's rows for which a predicate holds: declared, or measured while the project ran.

    `predicate` is None when the source's columns are not known.
    """

    source: str
    text: str
    predicate: Expr | None
    share: float
    declared_at: Location
    measured: bool = False


@dataclass(frozen=True, slots=True)
class MeasuredSize:
    """What the result of a block held (rows) and emitted (changed rows per second) while the project ran; None for what
    is not known. It emitted that while the `sources` that it is made from changed so many rows per second each. What is
    known of a block before anybody measured it is `assumed`.
    """

    rows: float | None = None
    rate: float | None = None
    sources: Mapping[str, float] = field(default_factory=dict)
    assumed: bool = False


@dataclass(frozen=True, slots=True)
class Catalogue:
    """A whole project. Mappings keep the order of the file."""

    project: str
    directory: str
    hosts: Mapping[str, Host]
    sites: Mapping[str, Site]
    links: tuple[Link, ...]
    sources: Mapping[str, Source]
    views: Mapping[str, View]
    contracts: Mapping[str, Contract]
    feeds: Mapping[str, Feed]
    devices: Mapping[str, Devices]
    templates: Mapping[str, Template]
    functions: Mapping[str, PythonFunction]
    selectivity: tuple[Selectivity, ...]
    operator_times: Mapping[str, OperatorTime]
    operator_times_declared: bool
    admission: Admission
    headroom: Headroom
    problems: tuple[Problem, ...] = field(default=())
    """Warnings and notes found while reading; errors never reach a Catalogue."""
    engine: DeclaredEngine = field(default_factory=DeclaredEngine)
    planning: PlanWishes = field(default_factory=PlanWishes)
    sizes: Mapping[str, MeasuredSize] = field(default_factory=dict)
    """What a running project found of its aggregates and the like, by the fingerprints of their blocks."""

    def is_in_full(self, contract: str) -> bool:
        """Whether the view of a contract is recomputed at every push."""
        view = self.views.get(self.contracts[contract].view)
        return view is not None and view.recomputed is not None
