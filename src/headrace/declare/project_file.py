"""The project file exactly as a person writes it: one model per entry of `headrace.yml`.

A field's type says how its text is read (`declare.units`), its default what holds when it is left out. A field without
a default has an example, which hints show. Names are looked up later, by `declare.references`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Annotated, ClassVar, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    StrictBool,
    StrictStr,
    model_validator,
)

from headrace.declare import units
from headrace.declare.engine import MASTER, read_master, read_memory, read_properties
from headrace.declare.units import Dimension, Unreadable, kind_of, read_amount, read_count, read_share
from headrace.model.catalogue import (
    STREAMING,
    Admission,
    CopyPlace,
    DeltaFolder,
    FileFolder,
    Origin,
    PostgresTable,
    Refresh,
    SourceKind,
)
from headrace.model.dialect import SqlDialect
from headrace.model.errors import nearest_name
from headrace.model.names import find_wrong_name
from headrace.model.options import RunEngine
from headrace.model.origin_types import OriginType, origin_type_named
from headrace.model.plan_modes import Method, Sharing, WideArea
from headrace.model.table_name import NotATable, read_table_name
from headrace.model.template_names import SIDES
from headrace.model.type_names import NAMES, type_named
from headrace.model.types import STRING, Type


def _amount(dimension: Dimension) -> BeforeValidator:
    return BeforeValidator(lambda written: read_amount(written, dimension))


def read_name(written: object) -> str:
    """A name of ours (`model.names`). YAML reads the name 7 as a number; it is text here."""
    name = str(written) if isinstance(written, int) and not isinstance(written, bool) else written
    if not isinstance(name, str):
        raise Unreadable(f"{kind_of(written)} is not a name", "write a name in letters, digits, _ and -")
    if (wrong := find_wrong_name(name)) is not None:
        raise Unreadable(*wrong)
    return name


def _read_reference(written: object) -> str:
    """A name of something declared elsewhere. Whether it is usable is said there."""
    if isinstance(written, str | int) and not isinstance(written, bool):
        return str(written)
    raise Unreadable(f"{kind_of(written)} is not a name", "write a name")


def read_type(written: object) -> Type:
    if not isinstance(written, str):
        raise Unreadable(f"{kind_of(written)} is not a type", 'write a type such as "bigint"')
    found = type_named(written)
    if found is None:
        raise Unreadable(f'"{written}" is not a type', _type_hint(written))
    return found


@dataclass(frozen=True, slots=True)
class DeclaredType:
    """The type of a column, and which of PostgreSQL's types it is where ours does not tell."""

    type: Type
    origin_type: OriginType | None


def read_column_type(written: object) -> DeclaredType:
    """Also of the types of PostgreSQL whose values we hold as text: `interval`, `time`, `timetz`."""
    found = origin_type_named(written) if isinstance(written, str) else None
    if isinstance(written, str) and found is not None and type_named(written) is None:
        return DeclaredType(STRING, found)
    return DeclaredType(read_type(written), found)


def _type_hint(written: str) -> str:
    name = written.casefold().strip()
    if re.match(r"(decimal|numeric)\s*\(", name):
        return 'write "decimal(p,s)" with at most 38 digits in all, s of them after the point'
    if name in ("money", "xml", "inet", "point", "map", "struct"):
        return "columns of this type are not handled; a text column can hold its values"
    innermost = re.split(r"[<>\[\]]+", name.removeprefix("array"))
    return nearest_name(next(filter(None, innermost), name), NAMES) or "types are listed in docs/project-file.md"


def _as_list(written: object) -> object:
    """One name stands for a list of one."""
    return [written] if isinstance(written, str | int) and not isinstance(written, bool) else written


def _as_column(written: object) -> object:
    """A type alone stands for a column without statistics."""
    return written if isinstance(written, dict) else {"type": written}


def _as_stays(written: object) -> object:
    return {"sites": written} if isinstance(written, str | list) else written


def _read_capacity(written: object) -> int | str:
    """A number of views, or the name of a column that holds it."""
    return written if isinstance(written, str) else read_count(written)


def _read_priority(written: object) -> int:
    if isinstance(written, bool) or not isinstance(written, int):
        raise Unreadable(f"{kind_of(written)} is not a priority", "write a whole number; higher ones are sent first")
    return written


def _read_interval(written: object) -> float | str:
    """A time, or the name of a column that holds seconds. A name has no digit at its beginning."""
    if isinstance(written, str) and re.match(r"[^\d\s.+-]", written):
        return written
    return read_amount(written, units.DURATION)


def _read_blocking(written: object) -> float | None:
    return None if written == "measured" else read_amount(written, units.SECONDS)


def _read_freshness(written: object) -> float:
    """Nothing, for one that is pushed all the time."""
    return STREAMING if written == "streaming" else read_amount(written, units.DURATION)


def _read_target(written: object) -> str:
    if isinstance(written, str) and re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", written):
        return written
    raise Unreadable(f"{_quote_text(written)} does not name a Python function", 'write "module:function"')


def _read_table(written: str) -> str:
    """The table as SQL names it: two spellings of one name become one."""
    try:
        return str(read_table_name(written))
    except NotATable as error:
        raise Unreadable(error.message, error.hint) from None


def _read_deterministic(written: object) -> bool:
    if written is True:
        return True
    hint = "Headrace maintains a view only over functions that always give the same answer for the same arguments"
    raise Unreadable("only deterministic functions are accepted", hint)


def _quote_text(written: object) -> str:
    return f'"{written}"' if isinstance(written, str | int | float) else kind_of(written)


Name = Annotated[str, BeforeValidator(_read_reference)]
Names = Annotated[list[Name], BeforeValidator(_as_list)]
ColumnName = StrictStr
ColumnNames = Annotated[list[ColumnName], BeforeValidator(_as_list)]
TypeName = Annotated[Type, PlainValidator(read_type)]
ColumnTypeName = Annotated[DeclaredType, PlainValidator(read_column_type)]
Count = Annotated[int, BeforeValidator(read_count)]
Share = Annotated[float, BeforeValidator(read_share)]
Seconds = Annotated[float, _amount(units.SECONDS)]
Duration = Annotated[float, _amount(units.DURATION)]
Freshness = Annotated[float, BeforeValidator(_read_freshness)]
Rate = Annotated[float, _amount(units.RATE)]
Cores = Annotated[float, _amount(units.CORES)]
Weight = Annotated[float, _amount(units.WEIGHT)]


class Entry(BaseModel):
    """What all entries share: a field that is not known is a mistake.

    The validator of an entry is made when one is first read: few projects have entries of all kinds.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class EngineEntry(Entry):
    """The engine of a project, or of one of its sites."""

    kind: RunEngine = RunEngine.SPARK
    master: Annotated[str, BeforeValidator(read_master)] = MASTER
    cores: Count | None = None
    memory: Annotated[float, BeforeValidator(read_memory)] | None = None
    properties: Annotated[dict[str, str], BeforeValidator(read_properties)] = {}
    standing: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def fits_together(self) -> Self:
        of_spark = sorted(self.model_fields_set & {"master", "memory", "properties", "standing"})
        if self.kind is RunEngine.LOCAL and of_spark:
            raise Unreadable(
                f"`{of_spark[0]}` is for Spark, and the kind is local", "remove it, or write `kind: spark`"
            )
        if self.cores is not None and re.fullmatch(r"local(\[\d+\])?", self.master):
            raise Unreadable(
                f'`cores: {self.cores}` and `master: "{self.master}"` both say how many cores', "keep one of them"
            )
        return self


class HostEntry(Entry):
    cores: Cores = Field(examples=[2])


class SiteEntry(Entry):
    cpu: Annotated[float, _amount(units.CPU_PRICE)] = 0.0
    disk: Annotated[float, _amount(units.DISK_PRICE)] = 0.0
    cores: Cores | None = None
    disk_capacity: Annotated[float, _amount(units.CAPACITY)] | None = None
    speed: Annotated[float, _amount(units.FACTOR)] = 1.0
    host: Name | None = None
    engine: EngineEntry | None = None


class LinkEntry(Entry):
    between: Names | None = None
    from_: Name | None = Field(default=None, alias="from")
    to: Name | None = None
    bandwidth: Annotated[float, _amount(units.BANDWIDTH)] | None = None
    latency: Annotated[float, _amount(units.LATENCY)] = 0.0
    price: Annotated[float, _amount(units.TRAFFIC_PRICE)] = 0.0
    limit: Annotated[float, _amount(units.BANDWIDTH)] | None = None

    @model_validator(mode="after")
    def ends(self) -> Self:
        directed = (self.from_ is not None) + (self.to is not None)
        if self.between is not None and len(self.between) != 2:
            raise Unreadable(f"between names {len(self.between)} sites", "write `between: [us, eu]`")
        if self.between is not None and directed:
            raise Unreadable("`between` and `from`, `to` are two ways to say it", "keep one")
        if self.between is None and directed < 2:
            raise Unreadable(
                "two ends are needed", "write `between: [us, eu]`, or `from: us, to: eu` for one direction"
            )
        return self

    def directions(self) -> tuple[tuple[str, str], ...]:
        if self.between is not None:
            one, other = self.between
            return ((one, other), (other, one))
        assert self.from_ is not None
        assert self.to is not None
        return ((self.from_, self.to),)


class OriginEntry(Entry):
    """Where rows of a source are. A new kind of source has one, and a field of `SourceEntry` by its kind's name.

    `tells_columns` is whether one can be asked for columns that are not declared.
    """

    tells_columns: ClassVar[bool] = False

    def to_origin(self) -> Origin:
        raise NotImplementedError


def is_origin(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, OriginEntry)


class PostgresEntry(OriginEntry):
    tells_columns = True
    dsn: StrictStr = Field(examples=["${US_DSN}"])
    table: Annotated[StrictStr, AfterValidator(_read_table)] = Field(examples=["public.users"])

    def to_origin(self) -> PostgresTable:
        return PostgresTable(self.dsn, self.table)


class CapturedEntry(PostgresEntry):
    watch: Literal["trigger"] | None = None


class FileFormat(StrEnum):
    PARQUET = "parquet"
    CSV = "csv"
    JSONL = "jsonl"


class FilesEntry(OriginEntry):
    path: StrictStr = Field(examples=["data/events"])
    format: FileFormat = FileFormat.PARQUET

    def to_origin(self) -> FileFolder:
        return FileFolder(self.path, self.format.value)


class ColumnFields(Entry):
    type: ColumnTypeName = Field(examples=["bigint"])
    width: Annotated[float, _amount(units.WIDTH)] | None = None
    distinct: Annotated[float, _amount(units.DISTINCT)] | None = None


ColumnEntry = Annotated[ColumnFields, BeforeValidator(_as_column)]


class StaysFields(Entry):
    sites: Names = Field(examples=[["eu"]])
    aggregates: Literal["anywhere"] | None = None


class SourceEntry(Entry):
    kind: SourceKind = Field(examples=["table"])
    at: Name = Field(examples=["us"])
    key: ColumnNames = []
    columns: dict[str, ColumnEntry] | None = None
    rows: Annotated[float, _amount(units.ROWS)] | None = None
    rate: Rate | None = None
    static: StrictBool = False
    parent_first: StrictBool = False
    stays: Annotated[StaysFields, BeforeValidator(_as_stays)] | None = None
    time: ColumnName | None = None
    retention: Duration | None = None
    joins: Literal["current", "as_of_event"] = "current"
    postgres: CapturedEntry | None = None
    files: FilesEntry | None = None

    @classmethod
    def origin_fields(cls) -> tuple[str, ...]:
        """The kinds of sources there are."""
        kinds = ((name, get_args(field.annotation)) for name, field in cls.model_fields.items())
        return tuple(name for name, types in kinds if any(is_origin(one) for one in types))

    def origins(self) -> dict[str, OriginEntry]:
        """Where the rows are, by kind; at most one may be given."""
        given = {name: getattr(self, name) for name in type(self).origin_fields()}
        return {name: value for name, value in given.items() if value is not None}


class DeliverEntry(Entry):
    postgres: PostgresEntry | None = None
    delta: StrictStr | None = None

    @model_validator(mode="after")
    def one_place(self) -> Self:
        if (self.postgres is None) == (self.delta is None):
            raise Unreadable("exactly one place is needed", "write `postgres: {dsn, table}` or `delta: PATH`")
        return self

    def to_place(self) -> CopyPlace:
        return DeltaFolder(str(self.delta)) if self.postgres is None else self.postgres.to_origin()


class ContractEntry(Entry):
    view: Name = Field(examples=["nearby_tweets"])
    at: Name = Field(examples=["eu"])
    freshness: Freshness = Field(examples=["30 s"])
    penalty: Annotated[float, _amount(units.PENALTY)] = 0.0
    owner: StrictStr | None = None
    deliver: DeliverEntry | None = None
    refresh: Refresh = Refresh.INCREMENTAL


API = "api"
"""Written in place of a table: rows come through Headrace's own API."""


def _read_rows(entry: type[RowsEntry], written: object) -> object:
    if written == API:
        return entry.for_api()
    if isinstance(written, str):
        raise Unreadable(f'"{written}" is not "{API}"', f"write `{API}`, or a mapping with `source` or `view`")
    places = [] if not isinstance(written, dict) else [place for place in ("source", "view") if place in written]
    if isinstance(written, dict) and not places:
        raise Unreadable("a source or a view is needed", f"write `source: NAME`, `view: NAME`, or only `{API}`")
    if len(places) == 2:
        raise Unreadable("`source` and `view` are two ways to say it", "keep one")
    return written


class RowsEntry(Entry):
    """Rows that a feed reads: of a source, of a view, or of the API, which brings columns of its own."""

    source: Name | None = None
    view: Name | None = None

    @classmethod
    def for_api(cls) -> Self:
        """The entry of what people post: it has no source and no view, which nobody can write."""
        raise NotImplementedError

    @property
    def reads(self) -> str | None:
        return self.source or self.view


class EventsEntry(RowsEntry):
    producer: ColumnName = Field(examples=["author"])
    time: ColumnName = Field(examples=["ts"])
    id: ColumnName | None = None

    @classmethod
    def for_api(cls) -> Self:
        return cls.model_construct(producer="producer", time="time", id="id")


class FollowsEntry(RowsEntry):
    consumer: ColumnName = Field(examples=["who"])
    producer: ColumnName = Field(examples=["whom"])

    @classmethod
    def for_api(cls) -> Self:
        return cls.model_construct(consumer="consumer", producer="producer")


class DiversityEntry(Entry):
    more_than: Count = Field(examples=[2])
    within: Duration = Field(examples=["1 h"])


class Coherency(StrEnum):
    PER_PRODUCER = "per-producer"
    GLOBAL = "global"


class PostgresStoreEntry(Entry):
    dsn: StrictStr = Field(examples=["${FEEDS_DSN}"])


class RedisStoreEntry(Entry):
    url: StrictStr = Field(examples=["${FEEDS_URL}"])


def _read_store(written: object) -> object:
    if written == "postgres":
        return StoreEntry.embedded()
    hint = "write `postgres`, `{postgres: {dsn: ...}}` or `{redis: {url: ...}}`"
    if written == "redis":
        raise Unreadable("Headrace has no Redis of its own", 'write its address: `{redis: {url: "${FEEDS_URL}"}}`')
    if isinstance(written, str):
        raise Unreadable(f'"{written}" is not a store', hint)
    if isinstance(written, dict) and len(written.keys() & {"postgres", "redis"}) != 1:
        raise Unreadable("exactly one store is needed", hint)
    return written


class StoreEntry(Entry):
    """Where a feed's entries are kept; neither field is set for the PostgreSQL that Headrace brings."""

    postgres: PostgresStoreEntry | None = None
    redis: RedisStoreEntry | None = None

    @classmethod
    def embedded(cls) -> Self:
        return cls.model_construct()

    @property
    def kind(self) -> str:
        return "postgres" if self.redis is None else "redis"

    @property
    def address(self) -> str | None:
        if self.redis is not None:
            return self.redis.url
        return None if self.postgres is None else self.postgres.dsn


class FeedEntry(Entry):
    at: Name | None = None
    freshness: Duration = 5.0
    events: Annotated[EventsEntry, BeforeValidator(partial(_read_rows, EventsEntry))] = Field(
        examples=[{"source": "posts", "producer": "author", "time": "ts", "id": "pid"}]
    )
    follows: Annotated[FollowsEntry, BeforeValidator(partial(_read_rows, FollowsEntry))] = Field(
        examples=[{"source": "follows", "consumer": "who", "producer": "whom"}]
    )
    coherency: Coherency = Coherency.PER_PRODUCER
    limit: Count = 20
    per_producer: Count | None = None
    keep: Count = 200
    diversity: DiversityEntry | None = None
    latency: dict[str, Duration] = {}
    pool: Count | None = None
    rank: StrictStr | None = None
    reads: Annotated[float, _amount(units.READS)] | None = None
    store: Annotated[StoreEntry, BeforeValidator(_read_store)] = StoreEntry.embedded()


class DeviceStreamEntry(Entry):
    columns: dict[str, ColumnEntry] = Field(examples=[{"lat": "double", "lng": "double"}])
    rate: Rate | None = None
    keep: Duration | None = None
    priority: Annotated[int, BeforeValidator(_read_priority)] = 0


class BrokerEntry(Entry):
    mqtt: StrictStr = Field(examples=["${BROKER_URL}"])


class DevicesEntry(Entry):
    table: Name = Field(examples=["people"])
    id: ColumnName = Field(examples=["uid"])
    up: Weight = 1.0
    down: Weight = 1.0
    capacity: Annotated[int | str, BeforeValidator(_read_capacity)] | None = None
    streams: dict[str, DeviceStreamEntry] = Field(
        examples=[{"location": {"columns": {"lat": "double", "lng": "double"}}}]
    )
    broker: BrokerEntry | None = None
    buffer: Annotated[float, _amount(units.BUFFER)] = 20e6
    forget: Duration = 604_800.0


def _read_per(written: object) -> object:
    """Names a side that there is not: a template has one device or two."""
    others = [name for name in written if name not in PerEntry.model_fields] if isinstance(written, dict) else []
    if others:
        raise Unreadable(
            f'"{others[0]}" is not a side of a template', "its sides are a and b: a view reads one device or two"
        )
    return written


class PerEntry(Entry):
    table: Name = Field(examples=["friends"])
    a: ColumnName = Field(examples=["uid"])
    b: ColumnName | None = None


def _read_every(written: object) -> object:
    if not isinstance(written, dict):
        raise Unreadable(
            f"{kind_of(written)} does not say which side it is of", "write `{a: 10 s}`, or a column: `{a: every_s}`"
        )
    others = [side for side in written if side not in SIDES]
    if others:
        raise Unreadable(f'"{others[0]}" is not a side of a template', "its sides are a and b")
    return written


class TemplateEntry(Entry):
    per: Annotated[PerEntry, BeforeValidator(_read_per)] = Field(
        examples=[{"table": "friends", "a": "uid", "b": "friend"}]
    )
    devices: Name = Field(examples=["phones"])
    view: Name = Field(examples=["nearby_friends"])
    every: Annotated[
        dict[str, Annotated[float | str, BeforeValidator(_read_interval)]], BeforeValidator(_read_every)
    ] = {}
    notify: StrictStr | None = None


class FunctionEntry(Entry):
    python: Annotated[str, BeforeValidator(_read_target)] = Field(examples=["geo:distance"])
    arguments: list[TypeName] = Field(examples=[["double", "double"]])
    returns: TypeName = Field(examples=["double"])
    version: Count = 1
    deterministic: Annotated[bool, BeforeValidator(_read_deterministic)] = Field(examples=[True])


class OperatorTimeEntry(Entry):
    fixed: Seconds | None = None
    per_in: Seconds | None = None
    per_out: Seconds | None = None


class HeadroomEntry(Entry):
    cpu: Share | None = None
    link: Share | None = None
    blocking: Annotated[float | None, BeforeValidator(_read_blocking)] = None


class ProjectFields(Entry):
    """The fields of a project that are not lists of entries."""

    project: Annotated[str, BeforeValidator(read_name)] = Field(examples=["city"])
    admission: Admission = Admission.SUSTAINABLE
    dialect: SqlDialect = SqlDialect.SPARK
    method: Method | None = None
    share: Sharing | None = None
    wide_area: WideArea | None = None
    headroom: HeadroomEntry | None = None
    engine: EngineEntry = EngineEntry()
