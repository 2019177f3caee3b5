"""JSON in text: Spark's functions, which read a whole value and write it anew, and PostgreSQL's, which cut it out.

Spark's are NULL for text that is no JSON; what follows the first value does not count. PostgreSQL's get text that is
JSON already, as its columns are, and give its parts as they are written there: numbers keep their digits.
"""

from __future__ import annotations

import decimal
import functools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from headrace.meaning.scalar_cast import double_text
from headrace.model.errors import EvaluationError
from headrace.model.expr import Call
from headrace.model.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, Array, Type, Value

_SURROGATE = re.compile("[\ud800-\udfff]")
_PATH_STEP = re.compile(r"\.([^.\[*]+)|\['([^'*]+)'\]|\[(\d+)\]")
Step = str | int


class _Object(list[tuple[str, Any]]):
    """Members in order, repeated ones as well."""


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_Object, parse_constant=_refuse_constant, strict=False)
_NOTHING = object()


def _read(text: str) -> Any:
    """The first value of a text; `_NOTHING` if there is none. Spark takes single quotes, too."""
    for written in (text, _double_quotes(text)) if "'" in text else (text,):
        try:
            return _DECODER.raw_decode(written.lstrip(" \t\r\n"))[0]
        except (ValueError, RecursionError):
            continue
    return _NOTHING


_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|\'((?:[^\'\\]|\\.)*)\'', re.DOTALL)


def _double_quotes(text: str) -> str:
    def change(found: re.Match[str]) -> str:
        inner = found[1]
        return found[0] if inner is None else '"' + inner.replace("\\'", "'").replace('"', '\\"') + '"'

    return _QUOTED.sub(change, text)


def _write(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return double_text(value) if math.isfinite(value) else f'"{double_text(value)}"'
        case str():
            return _quote(value)
        case _Object():
            return "{" + ",".join(f"{_quote(name)}:{_write(inner)}" for name, inner in value) + "}"
        case _:
            return "[" + ",".join(map(_write, value)) + "]"


def _quote(text: str) -> str:
    quoted = _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))
    return re.sub(r"\\u[0-9a-f]{4}", lambda found: "\\u" + found[0][2:].upper(), quoted)


def read_path(path: str) -> tuple[Step, ...] | None:
    """The steps of `$.a['b c'][0]`; None for what is no such path, or has wildcards."""
    steps: list[Step] = []
    at = 1
    while path.startswith("$") and at < len(path):
        found = _PATH_STEP.match(path, at)
        if found is None:
            return None
        steps.append(int(found[3]) if found[3] is not None else found[1] or found[2])
        at = found.end()
    return tuple(steps) if path.startswith("$") else None


_find_steps = functools.lru_cache(maxsize=256)(read_path)


def get_json_object(text: str, path: str) -> str | None:
    steps, value = _find_steps(path), _read(text)
    if steps is None or value is _NOTHING:
        return None
    found = next(_find_values(value, steps), _NOTHING)
    if found is _NOTHING or (found is None and steps):
        return None
    if isinstance(found, str):
        return None if _SURROGATE.search(found) else found
    return _write(found)


def _find_values(value: Any, steps: tuple[Step, ...]) -> Iterator[Any]:
    """What is at the end of a path; several times where a name is repeated."""
    if not steps:
        yield value
        return
    first, rest = steps[0], steps[1:]
    if isinstance(first, int):
        if isinstance(value, list) and not isinstance(value, _Object) and first < len(value):
            yield from _find_values(value[first], rest)
    elif isinstance(value, _Object):
        for name, inner in value:
            if name == first:
                yield from (found for found in _find_values(inner, rest) if found is not None)


def json_array_length(text: str) -> int | None:
    value = _read(text)
    return len(value) if isinstance(value, list) and not isinstance(value, _Object) else None


def json_object_keys(text: str) -> Value:
    value = _read(text)
    return tuple(name for name, _ in value) if isinstance(value, _Object) else None


ELEMENTS: tuple[Type, ...] = (STRING, INT, BIGINT, DOUBLE, BOOLEAN)
"""Types that elements of a JSON array can be read as."""


def _from_json(call: Call) -> Callable[..., Value]:
    """An array of values of one type; NULL if the text is no array, or an element of another type."""
    assert isinstance(call.type, Array), f"no array: {call.type}"
    element = call.type.element

    def read(text: str, schema: str) -> Value:
        value = _read(text)
        if not isinstance(value, list) or isinstance(value, _Object):
            return None
        made = [_fit(item, element) for item in value]
        return None if _NOTHING in made else tuple(made)

    return read


def _fit(item: Any, type_: Type) -> Any:
    if item is None:
        return None
    if type_ == STRING:
        return item if isinstance(item, str) else _write(item)
    if type_ == BOOLEAN:
        return item if isinstance(item, bool) else _NOTHING
    if isinstance(item, bool) or not isinstance(item, int | float):
        return _NOTHING
    if type_ == DOUBLE:
        return float(item)
    bits = 31 if type_ == INT else 63
    return item if isinstance(item, int) and -(2**bits) <= item < 2**bits else _NOTHING


# PostgreSQL's


_PLAIN = json.JSONDecoder(strict=False)
_WHITE = re.compile(r"[ \t\n\r]*")


def _skip_white(text: str, at: int) -> int:
    found = _WHITE.match(text, at)
    return at if found is None else found.end()


def _members(text: str) -> list[tuple[str | None, str]]:
    """Names and raw texts of the members of an object, or of the elements of an array, whose names are None."""
    try:
        return _cut_members(text)
    except (ValueError, IndexError, RecursionError) as error:
        raise EvaluationError(f"'{text[:100]}' is not JSON") from error


def _cut_members(text: str) -> list[tuple[str | None, str]]:
    start = _skip_white(text, 0)
    is_object = text[start] == "{"
    found: list[tuple[str | None, str]] = []
    at = _skip_white(text, start + 1)
    while text[at] not in "}]":
        name = None
        if is_object:
            name, at = _PLAIN.raw_decode(text, at)
            at = _skip_white(text, _skip_white(text, at) + 1)
        end = _PLAIN.raw_decode(text, at)[1]
        found.append((name, text[at:end]))
        at = _skip_white(text, end)
        if text[at] == ",":
            at = _skip_white(text, at + 1)
    return found


def _unquote(raw: str) -> str:
    try:
        return str(json.loads(raw, strict=False))
    except ValueError as error:
        raise EvaluationError(f"'{raw[:100]}' is not JSON") from error


def json_field(text: str, name: str) -> str | None:
    """The member of an object, as it is written; the last of equal names."""
    if not text.lstrip().startswith("{"):
        return None
    return next((raw for key, raw in reversed(_members(text)) if key == name), None)


def json_item(text: str, place: int) -> str | None:
    """The element of an array, as it is written, counted from 0 or from -1 at the end."""
    if not text.lstrip().startswith("["):
        return None
    members = _members(text)
    return members[place][1] if -len(members) <= place < len(members) else None


def json_step(text: str, step: str) -> str | None:
    """A member of an object by its name, or an element of an array by its number."""
    if text.lstrip().startswith("["):
        return json_item(text, int(step)) if re.fullmatch(r"[+-]?[0-9]{1,9}", step) else None
    return json_field(text, step)


def json_text(text: str) -> str | None:
    """A value as text: strings without quotes, null as NULL, others as they are written."""
    raw = text.strip()
    if raw.startswith('"'):
        return _SURROGATE.sub("\ufffd", _unquote(raw))
    return None if raw == "null" else raw


def _find_kind(text: str) -> str:
    first = text.lstrip()[:1]
    kinds = {"{": "object", "[": "array", '"': "string", "t": "boolean", "f": "boolean", "n": "null"}
    return kinds.get(first, "number")


def json_items(text: str) -> Value:
    """The elements of an array, as they are written."""
    if _find_kind(text) != "array":
        raise EvaluationError(f"json_array_elements: there is no array but {_find_kind(text)}")
    return tuple(raw for _, raw in _members(text))


def json_length(text: str) -> int:
    if _find_kind(text) != "array":
        raise EvaluationError(f"json_array_length: there is no array but {_find_kind(text)}")
    return len(_members(text))


def _list_object(text: str) -> list[tuple[str | None, str]]:
    if _find_kind(text) != "object":
        raise EvaluationError(f"json_each: there is no object but {_find_kind(text)}")
    return _members(text)


def normalise_jsonb(text: str) -> str:
    """Text as PostgreSQL writes a jsonb: names sorted, each once, and one blank after each sign."""
    try:
        value = json.loads(
            text, parse_float=decimal.Decimal, parse_int=decimal.Decimal, parse_constant=_refuse_constant
        )
    except (ValueError, RecursionError) as error:
        raise EvaluationError(f"'{text[:100]}' is not JSON") from error
    return write_jsonb(value)


def write_jsonb(value: Any) -> str:
    match value:
        case dict():
            names = sorted(value, key=lambda name: (len(name.encode()), name.encode()))
            return "{" + ", ".join(f"{_quote_jsonb(name)}: {write_jsonb(value[name])}" for name in names) + "}"
        case list():
            return "[" + ", ".join(map(write_jsonb, value)) + "]"
        case str():
            return _quote_jsonb(value)
        case decimal.Decimal():
            return f"{value if value else value.copy_abs():f}"
        case None:
            return "null"
        case _:
            return "true" if value else "false"


def _quote_jsonb(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def read_exactly(text: str) -> Any:
    try:
        return json.loads(text, parse_float=decimal.Decimal, parse_int=decimal.Decimal, strict=False)
    except (ValueError, RecursionError) as error:
        raise EvaluationError(f"'{text[:100]}' is not JSON") from error


def json_contains(whole: str, part: str) -> bool:
    """`@>`: an array may hold a simple value by itself, at the top only."""
    value, wanted = read_exactly(whole), read_exactly(part)
    if isinstance(value, list) and not isinstance(wanted, list | dict):
        return any(_is_same(item, wanted) for item in value)
    return _contains(value, wanted)


def _contains(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return isinstance(value, dict) and all(
            name in value and _contains(value[name], inner) for name, inner in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(value, list) and all(any(_contains(item, one) for item in value) for one in wanted)
    return _is_same(value, wanted)


def _is_same(value: Any, wanted: Any) -> bool:
    return type(value) is type(wanted) and bool(value == wanted)


def has_key(text: str, name: str) -> bool:
    """`?`: a name of an object, or a string of an array or by itself."""
    value = read_exactly(text)
    if isinstance(value, dict | list):
        return any(isinstance(item, str) and item == name for item in value)
    return isinstance(value, str) and value == name


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "get_json_object": get_json_object,
    "json_array_length": json_array_length,
    "json_object_keys": json_object_keys,
}
"""Functions of values that are not NULL."""

TYPED: Mapping[str, Callable[[Call], Callable[..., Value]]] = {"from_json": _from_json}
"""Functions that depend on the types of the call."""

POSTGRES: Mapping[str, Callable[..., Value]] = {
    "json_field": json_field,
    "json_item": json_item,
    "json_step": json_step,
    "json_text": json_text,
    "json_kind": _find_kind,
    "json_items": json_items,
    "json_length": json_length,
    "json_names": lambda text: tuple(name for name, _ in _list_object(text)),
    "json_values": lambda text: tuple(raw for _, raw in _list_object(text)),
    "json_contains": json_contains,
    "json_has": has_key,
    "jsonb": normalise_jsonb,
}
"""Functions of values that are not NULL, which Spark does not have."""
