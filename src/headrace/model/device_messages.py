"""What devices and the cloud tell each other: MQTT topics, and their bodies as JSON. Never code.

    hr/PROJECT/up/DEVICE/hello        Hello       it is there, what it runs and how often its streams have rows
    hr/PROJECT/up/DEVICE/gone         connection  it is not: its last will
    hr/PROJECT/up/DEVICE/s/STREAM     [Sent]      rows of a stream, numbered
    hr/PROJECT/up/DEVICE/r/TEMPLATE   [Reported]  changes of results that it computed, numbered
    hr/PROJECT/up/DEVICE/took         Took        it runs a document from now on, and what it refused of it
    hr/PROJECT/down/DEVICE/plan       Document    all that it is to do (retained)
    hr/PROJECT/down/DEVICE/ack        Acks        what the cloud has kept: only then may it forget that
    hr/PROJECT/down/DEVICE/s          [Taken]     rows of others that its views read
    hr/PROJECT/cloud/...                          between parts of the cloud: devices neither read nor write it

A body that is not what it should be raises `WireError`. The sender of a message is the device in its topic, since the
broker lets nobody publish below another one's; nothing in a body says who sent it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn
from urllib.parse import quote, unquote

from headrace.model.errors import WireError
from headrace.model.type_names import type_named
from headrace.model.types import Row, Type
from headrace.model.wire_values import Json, is_text, read_value, write_value

VERSION = 1
ROOT = "hr"
LARGEST_BODY = 1_000_000
"""Bytes. Nothing larger is looked at."""
LARGEST_WHOLE = LARGEST_BODY - 10_000
"""Bytes of rows that go in one message: with ids and a topic it is still looked at."""
LARGEST_PART, LARGEST_TABLE, MOST_PARTS = 200_000, 10_000_000, 100
"""Bytes of a part of a table, unless a single row is larger; of a whole one; and how many parts it has at most."""
LONGEST_ID = 200
MOST_DERIVED_ROWS = 1_000
"""Rows in one value of a derived stream."""
MOST_VALUES = 1_000

CLOUD = "cloud"
"""Where a view runs that runs on no device. No device is called so."""


# Topics


def quote_id(id_: str) -> str:
    """A device, stream or template as one level of a topic: letters, digits, `-` and `_` stay, all else is `%XX`."""
    return quote(id_, safe="").replace(".", "%2E").replace("~", "%7E")


def unquote_id(level: str) -> str:
    if not re.fullmatch(r"(?:[A-Za-z0-9_-]|%[0-9A-F]{2})+", level) or len(level) > 3 * LONGEST_ID:
        raise WireError(f"{level[:100]!r} is no level of a topic")
    try:
        return unquote(level, errors="strict")
    except UnicodeDecodeError as error:
        raise WireError(f"{level!r} is no text") from error


def up_topic(project: str, device: str, *rest: str) -> str:
    return "/".join((ROOT, quote_id(project), "up", quote_id(device), *map(quote_id, rest)))


def client_id_of(token: str) -> str:
    """The MQTT client id of a device. A broker ends the session of whoever has the same id, and takes any id from
    anybody: so it is one that only the owner of the token knows.
    """
    return "hrc_" + hmac.digest(token.encode(), b"headrace client", "sha256").hex()[:32]


def down_topic(project: str, device: str, *rest: str) -> str:
    return "/".join((ROOT, quote_id(project), "down", quote_id(device), *map(quote_id, rest)))


def cloud_topic(project: str, *rest: str) -> str:
    return "/".join((ROOT, quote_id(project), CLOUD, *map(quote_id, rest)))


@dataclass(frozen=True, slots=True)
class Topic:
    """`rest` are the levels below the device, such as ("s", "location"). Of the cloud, `device` is empty."""

    project: str
    direction: str
    device: str
    rest: tuple[str, ...]


def read_topic(text: str) -> Topic:
    root, *levels = text.split("/")
    if root != ROOT or len(levels) < 3 or levels[1] not in ("up", "down", CLOUD):
        raise WireError(f"{text[:200]!r} is no topic of ours")
    project, direction, *rest = map(unquote_id, levels)
    if direction == CLOUD:
        return Topic(project, direction, "", tuple(rest))
    return Topic(project, direction, rest[0], tuple(rest[1:]))


# Tokens


def write_token(token: str, project: str) -> str:
    """What people give to a device: its token, which is its password, and which project it is of."""
    return f"{token}@{quote_id(project)}"


def read_token(text: str) -> tuple[str, str | None]:
    """The token and the project, None if the text does not name one. Documents are signed with the token alone."""
    token, at, project = text.strip().partition("@")
    return token, unquote_id(project) if at else None


# Rows and results


@dataclass(frozen=True, slots=True)
class Sent:
    """A row of a device's stream. `seq` counts its rows from 1; `at_ms` is the device's time, since 1970.

    The value of a stream is a list of rows: one for a declared stream, at most `MOST_DERIVED_ROWS` for one that the
    device derives from others (the answer of a view as a whole, in place of the one before).
    """

    seq: int
    at_ms: int
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Taken:
    """A row of another device's stream on its way down; of a table in the cloud, the device is `CLOUD`.

    A value without rows, numbered 0 (`NO_MORE`), says that the cloud has no more: nothing at all, or nothing after a
    history that came in several messages.

    A table that is too large for one message comes in several `parts`, of which this is number `part`, from 0: it
    counts when all of them are there.
    """

    device: str
    stream: str
    sent: Sent
    part: int = 0
    parts: int = 1


NO_MORE = Sent(0, 0, ())


@dataclass(frozen=True, slots=True)
class Reported:
    """A change of a template's results: the row of a pair comes (`weight` 1) or goes (-1).

    `copy` tells equal rows of one pair apart: 0 for the first, 1 for the second. `seq` counts reports from 1.
    """

    seq: int
    at_ms: int
    pair: tuple[str, ...]
    weight: int
    copy: int
    row: Row


def write_sent(sent: Sequence[Sent]) -> bytes:
    return _dump([_write_one(one) for one in sent])


def read_sent(body: bytes, most_bytes: int = LARGEST_BODY) -> tuple[Sent, ...]:
    return tuple(map(_read_one, _list(_load(body, most_bytes))))


def write_taken(taken: Sequence[Taken]) -> bytes:
    return _dump([_write_taken(one) for one in taken])


def _write_taken(taken: Taken) -> list[Json]:
    parts: list[Json] = [taken.part, taken.parts] if taken.parts > 1 else []
    return [taken.device, taken.stream, *_write_one(taken.sent), *parts]


def split_table(table: str, sent: Sent) -> tuple[bytes, ...]:
    """A table as messages to devices, each a part of it. Raises `WireError` if it is too large for them."""
    groups: list[list[Row]] = [[]]
    size = whole = 0
    for row in sent.rows:
        bytes_ = len(_dump(_write_row(row))) + 1
        if groups[-1] and size + bytes_ > LARGEST_PART:
            groups.append([])
            size = 0
        groups[-1].append(row)
        size, whole = size + bytes_, whole + bytes_
    if whole > LARGEST_TABLE:
        raise WireError(f"it has {whole:,} bytes; devices take {LARGEST_TABLE:,}")
    parts = [replace(sent, rows=tuple(rows)) for rows in groups]
    taken = (Taken(CLOUD, table, one, number, len(parts)) for number, one in enumerate(parts))
    found = tuple(write_taken((one,)) for one in taken)
    if max(map(len, found)) > LARGEST_BODY:
        raise WireError(f"one of its rows has more than {LARGEST_WHOLE:,} bytes")
    return found


def read_taken(body: bytes) -> tuple[Taken, ...]:
    found = []
    for one in map(_list, _list(_load(body))):
        if len(one) not in (5, 7):
            raise WireError(f"a row that comes down has 5 parts, or 7, not {len(one)}")
        part, parts = map(_count, one[5:] or (0, 1))
        if part >= parts or parts > MOST_PARTS or (parts > 1 and one[0] != CLOUD):
            raise WireError(f"nothing has a part {part} of {parts}")
        found.append(Taken(_id(one[0]), _id(one[1]), _read_one(one[2:5]), part, parts))
    return tuple(found)


def write_reported(reported: Sequence[Reported]) -> bytes:
    return _dump([[one.seq, one.at_ms, list(one.pair), one.weight, one.copy, _write_row(one.row)] for one in reported])


def read_reported(body: bytes) -> tuple[Reported, ...]:
    found = []
    for one in map(_list, _list(_load(body))):
        if len(one) != 6:
            raise WireError(f"a report has 6 parts, not {len(one)}")
        seq, at_ms, pair, weight, copy, row = one
        if weight not in (1, -1) or isinstance(weight, bool):
            raise WireError(f"a row comes (1) or goes (-1): {weight!r} is neither")
        found.append(
            Reported(_count(seq), _whole(at_ms), tuple(map(_id, _list(pair))), weight, _count(copy), _read_row(row))
        )
    return tuple(found)


def _write_one(sent: Sent) -> list[Json]:
    return [sent.seq, sent.at_ms, [_write_row(row) for row in sent.rows]]


def _read_one(written: Json) -> Sent:
    parts = _list(written)
    if len(parts) != 3:
        raise WireError(f"a row of a stream has 3 parts, not {len(parts)}")
    return Sent(_count(parts[0]), _whole(parts[1]), tuple(map(_read_row, _list(parts[2]))))


def _write_row(row: Row) -> list[Json]:
    return [write_value(value) for value in row]


def _read_row(written: Json) -> Row:
    values = _list(written)
    if len(values) > MOST_VALUES:
        raise WireError(f"a row has at most {MOST_VALUES} values, not {len(values)}")
    return tuple(map(read_value, values))


# What a device is told, and what it answers


@dataclass(frozen=True, slots=True)
class Run:
    """A template that a device runs for some pairs, of which it is one `side`; `partners` are the other sides.

    A template of one side has no partners: the device runs it for itself alone. `report` is whether results go up.
    """

    template: str
    program: str
    side: str
    partners: tuple[str, ...]
    report: bool


@dataclass(frozen=True, slots=True)
class SendStream:
    """A stream that a device sends up, a row every `every_s` seconds at most (0: every row), and only changes."""

    stream: str
    every_s: float


@dataclass(frozen=True, slots=True)
class TakeStream:
    """A stream of another device, or a table (of `CLOUD`), that comes down."""

    stream: str
    device: str
    every_s: float


@dataclass(frozen=True, slots=True)
class StreamShape:
    """What rows of a stream look like. `keep_s` is how long its rows count, 0 if only the latest one does.

    Of what waits on a device, a stream of higher `priority` is sent first and dropped last.
    """

    columns: tuple[tuple[str, Type], ...]
    keep_s: float = 0.0
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Document:
    """All that a device is to do: not a change of what it did before, so any later one replaces any earlier one.

    `programs` are relations (`model.wire`) by fingerprint. `streams` are all that devices of its kind have, whether
    sent or not; a device keeps at most `buffer_bytes` of what waits to be sent. `mac` is made with the device's own
    token (`sign`). What runs without reporting, and has the name of a stream, makes that stream: it is `derived`.
    """

    plan: int
    programs: Mapping[str, str] = field(default_factory=dict)
    run: tuple[Run, ...] = ()
    send: tuple[SendStream, ...] = ()
    take: tuple[TakeStream, ...] = ()
    streams: Mapping[str, StreamShape] = field(default_factory=dict)
    buffer_bytes: int = 20_000_000
    mac: str = ""

    @property
    def derived(self) -> Mapping[str, str]:
        """Streams that the device makes of others, and the fingerprints of their programs."""
        return {one.template: one.program for one in self.run if not one.report and one.template in self.streams}


@dataclass(frozen=True, slots=True)
class Hello:
    """`plan` is the document that runs, 0 if none. `rates` are rows per second of streams that have some, sent or not.

    `functions` are Python functions that the device has, as `NAME@VERSION`. `dropped` are rows by stream that were lost
    because the buffer was full, all in all.

    `connection` tells a device's connections apart, so that `gone` of an earlier one, which comes late, is not taken
    for the end of this one; 0 if it is not told. `lacks` says that rows which were sent to it may be lost.
    """

    plan: int
    streams: tuple[str, ...]
    functions: tuple[str, ...] = ()
    rates: Mapping[str, float] = field(default_factory=dict)
    bytes_free: int | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)
    connection: int = 0
    lacks: bool = False


@dataclass(frozen=True, slots=True)
class Took:
    """Results of views that are new were reported before this. `refused` says why a template does not run there.

    `results` are the last numbers of results that were sent and not acknowledged yet, by template: whoever has not
    taken these has not taken the results either.
    """

    plan: int
    refused: Mapping[str, str] = field(default_factory=dict)
    results: Mapping[str, int] = field(default_factory=dict)


Acks = Mapping[str, int]
"""The last `seq` that was kept, by stream; of results, by `r/TEMPLATE`."""


def write_document(document: Document) -> bytes:
    return _dump(_document(document) | {"mac": document.mac})


def read_document(body: bytes) -> Document:
    told = _object(_load(body))
    if told.get("v") != VERSION:
        raise WireError(f"a document of version {told.get('v')!r}; this device reads version {VERSION}")
    return Document(
        plan=_count(told.get("plan")),
        programs={_text(name): _text(text) for name, text in _object(told.get("programs")).items()},
        run=tuple(map(_read_run, _list(told.get("run")))),
        send=tuple(SendStream(_id(s), _seconds(every)) for s, every in _tuples(told.get("send"), 2)),
        take=tuple(TakeStream(_id(s), _id(d), _seconds(every)) for s, d, every in _tuples(told.get("take"), 3)),
        streams={_id(name): _read_shape(shape) for name, shape in _object(told.get("streams")).items()},
        buffer_bytes=_count(told.get("buffer")),
        mac=_text(told.get("mac")),
    )


def sign(document: Document, token: str) -> Document:
    """The document with its MAC, for the device that has this token."""
    return replace(document, mac=_mac(document, token))


def is_signed(document: Document, token: str) -> bool:
    return hmac.compare_digest(document.mac.encode(), _mac(document, token).encode())


def _mac(document: Document, token: str) -> str:
    key = hmac.digest(token.encode(), b"headrace document", "sha256")
    return hmac.new(key, _dump(_document(document)), hashlib.sha256).hexdigest()


def _document(document: Document) -> dict[str, Json]:
    return {
        "v": VERSION,
        "plan": document.plan,
        "programs": dict(document.programs),
        "run": [[one.template, one.program, one.side, list(one.partners), one.report] for one in document.run],
        "send": [[one.stream, one.every_s] for one in document.send],
        "take": [[one.stream, one.device, one.every_s] for one in document.take],
        "streams": {name: _write_shape(shape) for name, shape in document.streams.items()},
        "buffer": document.buffer_bytes,
    }


def _write_shape(shape: StreamShape) -> list[Json]:
    return [[[name, str(type_)] for name, type_ in shape.columns], shape.keep_s, shape.priority]


def _read_shape(written: Json) -> StreamShape:
    parts = _list(written)
    if len(parts) != 3:
        raise WireError(f"{written!r:.200} does not say what a stream is like")
    columns = tuple((_id(name), _type(text)) for name, text in _tuples(parts[0], 2))
    return StreamShape(columns, _seconds(parts[1]), _whole(parts[2]))


def _type(text: Json) -> Type:
    found = type_named(_text(text)) if len(_text(text)) <= LONGEST_ID else None
    if found is None:
        raise WireError(f"{text!r:.100} is no type")
    return found


def _read_run(written: Json) -> Run:
    parts = _list(written)
    if len(parts) != 5 or parts[2] not in ("a", "b") or not isinstance(parts[4], bool):
        raise WireError(f"{written!r:.200} does not say what to run")
    return Run(_id(parts[0]), _text(parts[1]), parts[2], tuple(map(_id, _list(parts[3]))), parts[4])


def write_hello(hello: Hello) -> bytes:
    told: dict[str, Json] = {"v": VERSION, "plan": hello.plan, "streams": list(hello.streams)}
    told |= {"functions": list(hello.functions)}
    told |= {"rates": dict(hello.rates), "bytes_free": hello.bytes_free}
    if hello.dropped:
        told["dropped"] = dict(hello.dropped)
    if hello.connection:
        told["connection"] = hello.connection
    if hello.lacks:
        told["lacks"] = True
    return _dump(told)


def read_hello(body: bytes) -> Hello:
    told = _object(_load(body))
    free = told.get("bytes_free")
    return Hello(
        plan=_count(told.get("plan")),
        streams=tuple(map(_id, _list(told.get("streams")))),
        functions=tuple(map(_text, _list(told.get("functions")))),
        rates={_id(stream): _seconds(rate) for stream, rate in _object(told.get("rates")).items()},
        bytes_free=None if free is None else _count(free),
        dropped={_id(stream): _count(rows) for stream, rows in _object(told.get("dropped", {})).items()},
        connection=_count(told.get("connection", 0)),
        lacks=told.get("lacks") is True,
    )


def write_gone(connection: int) -> bytes:
    """The end of a connection, as the last will says it."""
    return _dump({"connection": connection})


def read_gone(body: bytes) -> int:
    """The connection that has ended, 0 if that is not told."""
    return _count(_object(_load(body)).get("connection", 0))


def write_took(took: Took) -> bytes:
    told: dict[str, Json] = {"v": VERSION, "plan": took.plan, "refused": dict(took.refused)}
    return _dump(told | ({"results": dict(took.results)} if took.results else {}))


def read_took(body: bytes) -> Took:
    told = _object(_load(body))
    refused = {_id(name): _text(why)[:500] for name, why in _object(told.get("refused")).items()}
    results = {_id(name): _count(seq) for name, seq in _object(told.get("results", {})).items()}
    return Took(_count(told.get("plan")), refused, results)


def write_acks(acks: Acks) -> bytes:
    return _dump(dict(acks))


def read_acks(body: bytes) -> Acks:
    return {_text(stream): _count(seq) for stream, seq in _object(_load(body)).items()}


# JSON


def _dump(value: Json) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, allow_nan=False).encode()


def _load(body: bytes, most_bytes: int = LARGEST_BODY) -> Json:
    if len(body) > most_bytes:
        raise WireError(f"a message of {len(body):,} bytes; {most_bytes:,} are looked at")
    try:
        return json.loads(body, parse_constant=_refuse)
    except RecursionError as error:
        raise WireError("a message is nested too deeply") from error
    except ValueError as error:
        raise WireError(f"a message is not JSON ({error})") from error


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _list(value: Json) -> list[Json]:
    if not isinstance(value, list):
        raise WireError(f"{value!r:.100} is no list")
    return value


def _tuples(value: Json, parts: int) -> list[list[Json]]:
    found = [_list(one) for one in _list(value)]
    if any(len(one) != parts for one in found):
        raise WireError(f"an entry has {parts} parts")
    return found


def _object(value: Json) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise WireError(f"{value!r:.100} is no object")
    return value


def _text(value: Json) -> str:
    if not isinstance(value, str) or not is_text(value):
        raise WireError(f"{value!r:.100} is no text")
    return value


def _id(value: Json) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_ID or not is_text(value):
        raise WireError(f"{value!r:.100} is no name")
    return value


def _whole(value: Json) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 1 << 63:
        raise WireError(f"{value!r:.100} is no whole number")
    return value


def _count(value: Json) -> int:
    if _whole(value) < 0:
        raise WireError(f"{value} is less than 0")
    return int(value)


def _seconds(value: Json) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e12:
        raise WireError(f"{value!r:.100} is no number from 0 on")
    return float(value)
