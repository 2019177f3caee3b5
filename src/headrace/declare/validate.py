"""One entry of a project against its model: the entry as far as it can be read, and every mistake with its place.

A field with a mistake is left out and the rest is read again, so that a wrong unit does not hide a wrong name
elsewhere, nor make every view over a source wrong as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar, get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from headrace.declare.document import Path, WrittenDocument
from headrace.declare.project_file import Entry
from headrace.declare.units import Unreadable, kind_of
from headrace.model.errors import Location, Problem, nearest_name

E = TypeVar("E", bound=Entry)

KINDS = {
    "hosts": "host",
    "sites": "site",
    "links": "link",
    "sources": "source",
    "contracts": "contract",
    "feeds": "feed",
    "devices": "devices",
    "templates": "template",
    "functions": "function",
    "operator_times": "operator",
    "selectivity": "selectivity of",
}
"""What an entry of each part of the project is called."""

EXPECTED = {
    "string_type": "text",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
"""What a field of the wrong kind should have been, by pydantic's name of the mistake."""

KIND_HINTS = {
    "text": "put it in quotes",
    "true or false": "write true or false",
    "a list": "write `[one, two]`, or each on a line after `- `",
    "a mapping": "write `{name: value}`, or each on a line `name: value`",
}
"""How to write what was expected."""


@dataclass(frozen=True, slots=True)
class ReadFields(Generic[E]):
    """What could be read. Fields that are `lost` were wrong; needed ones hold their example, to be passed over.

    `entry` is None when the fields are right one by one and wrong together.
    """

    entry: E | None
    lost: frozenset[str]
    problems: tuple[Problem, ...]


def read_entry(model: type[E], written: object, path: Path, document: WrittenDocument) -> ReadFields[E]:
    if not isinstance(written, Mapping):
        return ReadFields(None, frozenset(model.model_fields), (wrong_kind(written, "a mapping", path, document),))
    empty = tuple(_empty_fields(written, ()))
    entry, details = _validate(model, _without(written, empty))
    if entry is not None and not empty:
        return ReadFields(entry, frozenset(), ())
    problems = [_empty_problem((*path, *place), document) for place in empty]
    # A needed field that is empty is one mistake, not two.
    problems += [_problem(detail, model, path, document) for detail in details if detail["loc"] not in empty]
    lost = frozenset(str(place[0]) for place in (*empty, *(detail["loc"] for detail in details)) if place)
    right = {name: value for name, value in written.items() if name not in lost}
    rest, _ = _validate(model, {**_examples(model, lost), **right})
    return ReadFields(rest, lost, tuple(problems))


def describe(path: Path) -> str:
    """`contract "nearby"`, `link 2`, `columns.tid.width of source "tweets"`: what a mistake is about."""
    if len(path) < 2 or path[0] not in KINDS:
        return ".".join(map(str, path)) or "the project"
    section, name, *rest = path
    owner = f"{KINDS[str(section)]} {name + 1}" if isinstance(name, int) else f'{KINDS[str(section)]} "{name}"'
    return f"{'.'.join(map(str, rest))} of {owner}" if rest else owner


def wrong_kind(written: object, expected: str, path: Path, document: WrittenDocument) -> Problem:
    if written is None:
        return _empty_problem(path, document)
    what = f"{describe(path)} must be {expected}, not {kind_of(written)}"
    return Problem(what, document.value_at(path), KIND_HINTS.get(expected))


def _validate(model: type[E], fields: Mapping[str, object]) -> tuple[E | None, list[ErrorDetails]]:
    try:
        return model.model_validate(fields), []
    except ValidationError as error:
        return None, error.errors(include_url=False)


def _empty_fields(written: Mapping[str, object], path: Path) -> Iterator[Path]:
    for name, value in written.items():
        if value is None:
            yield (*path, name)
        elif isinstance(value, Mapping):
            yield from _empty_fields(value, (*path, name))


def _without(written: Mapping[str, object], gone: tuple[Path, ...], path: Path = ()) -> dict[str, object]:
    return {
        name: _without(value, gone, (*path, name)) if isinstance(value, Mapping) else value
        for name, value in written.items()
        if (*path, name) not in gone
    }


def _empty_problem(path: Path, document: WrittenDocument) -> Problem:
    return Problem(f"{describe(path)} is empty", document.key_at(path), "write its value, or remove the field")


def _problem(detail: ErrorDetails, model: type[Entry], path: Path, document: WrittenDocument) -> Problem:
    place: Path = (*path, *detail["loc"])
    what = describe(place)
    match detail["type"]:
        case "missing":
            return _missing(detail, model, place, document)
        case "extra_forbidden":
            return _unknown_field(detail, model, place, document)
        case "enum" | "literal_error":
            return _not_an_option(detail, what, document.value_at(place))
        case "value_error":
            error = detail["ctx"]["error"]
            assert isinstance(error, Unreadable), f"a validator of {model.__name__} raised {error!r}"
            return Problem(f"{what}: {error.message}", document.value_at(place), error.hint)
        case kind:
            return wrong_kind(detail["input"], EXPECTED.get(kind, detail["msg"]), place, document)


def _missing(detail: ErrorDetails, model: type[Entry], place: Path, document: WrittenDocument) -> Problem:
    *owner, field = place
    owner_model = _model_at(model, detail["loc"][:-1])
    example = _examples(owner_model or model, frozenset([str(field)])).get(str(field))
    hint = f"write for example `{field}: {_as_yaml(example)}`"
    return Problem(f'{describe(tuple(owner))} needs a field "{field}"', document.key_at(tuple(owner)), hint)


def _examples(model: type[Entry], names: frozenset[str]) -> dict[str, object]:
    fields = model.model_fields.items()
    return {name: info.examples[0] for name, info in fields if name in names and info.examples}


def _as_yaml(value: object) -> str:
    match value:
        case dict():
            return f"{{{', '.join(f'{name}: {_as_yaml(inner)}' for name, inner in value.items())}}}"
        case list():
            return f"[{', '.join(map(_as_yaml, value))}]"
        case bool():
            return str(value).lower()
        case _:
            return f'"{value}"' if "$" in str(value) else str(value)


def _unknown_field(detail: ErrorDetails, model: type[Entry], place: Path, document: WrittenDocument) -> Problem:
    *owner, field = place
    owner_model = _model_at(model, detail["loc"][:-1]) or model
    known = [info.alias or name for name, info in owner_model.model_fields.items()]
    hint = nearest_name(str(field), known) or f"fields are {', '.join(known)}"
    return Problem(f'{describe(tuple(owner))} has no field "{field}"', document.key_at(place), hint)


def _not_an_option(detail: ErrorDetails, what: str, where: Location) -> Problem:
    options = re.findall(r"'([^']*)'", str(detail["ctx"]["expected"]))
    written = detail["input"]
    shown = f'"{written}"' if isinstance(written, str | int | float) else kind_of(written)
    listed = f"write {' or '.join((', '.join(options[:-1]), options[-1])) if options[1:] else options[0]}"
    return Problem(f"{what} cannot be {shown}", where, nearest_name(str(written), options) or listed)


def _model_at(model: type[Entry], path: Path) -> type[Entry] | None:
    """The model of an entry inside an entry: that of `postgres`, or of one column under `columns`."""
    if not path:
        return model
    found = next((info for name, info in model.model_fields.items() if path[0] in (name, info.alias)), None)
    inner, levels = _entry_in(found.annotation) if found else (None, 0)
    return _model_at(inner, path[levels:]) if inner else None


def _entry_in(annotation: object) -> tuple[type[Entry] | None, int]:
    """The model that a field holds, and how many steps of a path lead to it: two through a mapping of names."""
    if isinstance(annotation, type) and issubclass(annotation, Entry):
        return annotation, 1
    for argument in get_args(annotation):
        inner, levels = _entry_in(argument)
        if inner:
            return inner, levels + (get_origin(annotation) is dict)
    return None, 0
