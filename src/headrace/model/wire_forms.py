"""How each field of a noun is written as JSON, read from the annotations of its class.

    str, int, bool   as they are            float           a number, or "nan", "inf", "-inf"
    an enum          its value              X | None        null, or as X
    a noun           the number of its      tuple           a list
                     entry                  Mapping         an object; a list of pairs where keys are no text
    Value            as `wire_values` says

The nouns are all classes that a plan can hold: nothing else can be named in a file, so nothing else can be made by
reading one. Writing checks what reading checks, so that whatever was written can be read.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from inspect import get_annotations
from typing import Any, get_args, get_origin

from headrace.model.errors import WireError
from headrace.model.going_over import GoingOver
from headrace.model.relation import Projection
from headrace.model.types import Value
from headrace.model.wire_values import Json, read_value, write_value

Places = Mapping[int, int]
"""The number of the entry of each noun that is written, by its identity."""


@dataclass(frozen=True, slots=True)
class Form:
    """`nouns` finds the nouns inside a value; None if there never are any."""

    write: Callable[[Any, Places], Json]
    read: Callable[[Json, Sequence[object]], Any]
    nouns: Callable[[Any], Iterable[object]] | None = None


@dataclass(frozen=True, slots=True)
class NounField:
    """`default` is MISSING for a field that every entry must have."""

    name: str
    form: Form
    default: object


@dataclass(frozen=True, slots=True)
class Noun:
    """A class of ours, known in files by its tag."""

    kind: type
    fields: tuple[NounField, ...]

    def nouns_in(self, value: object) -> Iterator[object]:
        for field in self.fields:
            if field.form.nouns is not None:
                yield from field.form.nouns(getattr(value, field.name))

    def write(self, value: object, places: Places) -> Json:
        """Fields that are as they are by default are left out."""
        entry = {"is": tag_of(self.kind)}
        for field in self.fields:
            inside = getattr(value, field.name)
            if inside is not field.default:
                try:
                    entry[field.name] = field.form.write(inside, places)
                except WireError as error:
                    raise WireError(f'{self.kind.__name__}, field "{field.name}": {error}') from error
        return entry

    def read(self, entry: Mapping[str, Json], before: Sequence[object]) -> object:
        inside, left = [], len(entry) - 1
        for field in self.fields:
            if field.name in entry:
                left -= 1
                try:
                    inside.append(field.form.read(entry[field.name], before))
                except WireError as error:
                    raise WireError(f'field "{field.name}": {error}') from error
            elif field.default is MISSING:
                raise WireError(f'there is no field "{field.name}"')
            else:
                inside.append(field.default)
        if left:
            unknown = sorted(entry.keys() - {field.name for field in self.fields} - {"is"})
            raise WireError(f'field "{unknown[0]}" is not known')
        return self.kind(*inside)


TAGS: Mapping[type, str] = {Projection: "Project"}
"""Nouns whose class was renamed: files keep the name that they were first written with."""


def tag_of(kind: type) -> str:
    """The name of a noun in files."""
    return TAGS.get(kind, kind.__name__)


@cache
def nouns() -> Mapping[str, Noun]:
    """Every class that a plan on its way to run can hold, by its tag."""
    found: dict[str, Noun] = {}
    waiting: list[type] = [GoingOver]
    while waiting:
        kind = waiting.pop()
        known = found.get(tag_of(kind))
        if known is None:
            hints = get_annotations(kind, eval_str=True)
            found[tag_of(kind)] = Noun(kind, tuple(_field(one, hints[one.name]) for one in fields(kind)))
            waiting += [inside for hint in hints.values() for inside in classes_in(hint)]
        elif known.kind is not kind:
            raise TypeError(f"two classes are called {kind.__name__}: {known.kind.__module__}, {kind.__module__}")
    return found


def classes_in(hint: object) -> Iterator[type]:
    """The nouns that an annotation mentions."""
    if isinstance(hint, type) and is_dataclass(hint):
        yield hint
    elif hint is not Value:
        for inside in get_args(hint):
            yield from classes_in(inside)


def _field(field: Any, hint: object) -> NounField:
    made = field.default if field.default_factory is MISSING else field.default_factory()
    return NounField(field.name, form_of(hint), made)


# Forms


def form_of(hint: Any) -> Form:
    origin, inside = get_origin(hint), get_args(hint)
    if hint is Value:
        return Form(lambda value, places: write_value(value), lambda written, before: read_value(written))
    if origin is types.UnionType:
        return _union(inside)
    if origin is tuple:
        return _sequence(form_of(inside[0])) if inside[1:] == (...,) else _record(tuple(map(form_of, inside)))
    if origin is Mapping:
        return _object(form_of(inside[1])) if inside[0] is str else _pairs(form_of(inside[0]), form_of(inside[1]))
    if isinstance(hint, type) and is_dataclass(hint):
        return _noun((hint,))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enum(hint)
    if hint is float:
        return Form(_write_number, _read_number)
    if hint in (str, int, bool):
        return _plain((hint,))
    raise TypeError(f"a field of a noun cannot be {hint}: say here how it is written")


def _plain(kinds: tuple[type, ...]) -> Form:
    expected = " or ".join(kind.__name__ for kind in kinds)

    def read(written: Json, before: Sequence[object]) -> object:
        if type(written) not in kinds:
            raise WireError(f"{_brief(written)} is not {expected}")
        return written

    def write(value: object, places: Places) -> Json:
        """Text of an enum is text."""
        return read(str(value) if isinstance(value, str) else value, ())

    return Form(write, read)


_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def _write_number(value: object, places: Places) -> Json:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WireError(f"{_brief(value)} is not a number")
    if isinstance(value, int):
        return value
    return float(value) if math.isfinite(value) else repr(float(value))


def _read_number(written: Json, before: Sequence[object]) -> object:
    if type(written) is float or type(written) is int:
        return written
    if isinstance(written, str) and written in _NOT_FINITE:
        return _NOT_FINITE[written]
    raise WireError(f"{_brief(written)} is not a number")


def _enum(kind: type[Enum]) -> Form:
    members = {member.value: member for member in kind}

    def read(written: Json, before: Sequence[object]) -> object:
        if not isinstance(written, str) or written not in members:
            raise WireError(f"{_brief(written)} is not one of {', '.join(members)}")
        return members[written]

    def write(value: object, places: Places) -> Json:
        if not isinstance(value, kind):
            raise WireError(f"{_brief(value)} is no {kind.__name__}")
        return value.value

    return Form(write, read)


def _noun(kinds: tuple[type, ...]) -> Form:
    """A noun is its entry's number: what is inside comes before what holds it, and is written once."""
    allowed = frozenset(kinds)
    expected = " or ".join(sorted(kind.__name__ for kind in kinds))

    def write(value: object, places: Places) -> Json:
        if type(value) not in allowed:
            raise WireError(f"{_brief(value)} is no {expected}")
        return places[id(value)]

    def read(written: Json, before: Sequence[object]) -> object:
        if type(written) is not int or not 0 <= written < len(before):
            raise WireError(f"{_brief(written)} is not the number of an earlier entry")
        if type(before[written]) not in allowed:
            raise WireError(f"entry {written} is no {expected}")
        return before[written]

    return Form(write, read, lambda value: (value,))


def _enum_or_noun(kind: type[Enum], nouns: tuple[type, ...]) -> Form:
    """Text is a member, and a number that of a noun."""
    member, noun = _enum(kind), _noun(nouns)

    def read(written: Json, before: Sequence[object]) -> object:
        return (member if isinstance(written, str) else noun).read(written, before)

    def write(value: object, places: Places) -> Json:
        return (member if isinstance(value, kind) else noun).write(value, places)

    return Form(write, read, lambda value: () if isinstance(value, kind) else (value,))


def _union(options: tuple[Any, ...]) -> Form:
    """The form of a union of nouns, with an enum or without, or of plain kinds; either may be None as well.

    Numbers would be taken for entries beside nouns.
    """
    some = tuple(option for option in options if option is not types.NoneType)
    held: tuple[type, ...] = tuple(option for option in some if isinstance(option, type) and is_dataclass(option))
    enums = [option for option in some if isinstance(option, type) and issubclass(option, Enum)]
    if len(held) == len(some):
        form = _noun(some)
    elif held and len(enums) == 1 and len(held) + 1 == len(some):
        form = _enum_or_noun(enums[0], held)
    elif len(some) == 1:
        form = form_of(some[0])
    else:
        form = _plain(some)
    return form if len(some) == len(options) else _optional(form)


def _optional(form: Form) -> Form:
    nouns_inside = form.nouns
    return Form(
        lambda value, places: None if value is None else form.write(value, places),
        lambda written, before: None if written is None else form.read(written, before),
        None if nouns_inside is None else lambda value: () if value is None else nouns_inside(value),
    )


def _sequence(form: Form) -> Form:
    def read(written: Json, before: Sequence[object]) -> object:
        return tuple([form.read(one, before) for one in _list(written)])

    def write(value: object, places: Places) -> Json:
        return [form.write(one, places) for one in _tuple(value)]

    return Form(write, read, _nouns_in_each(form))


def _record(forms: tuple[Form, ...]) -> Form:
    def read(written: Json, before: Sequence[object]) -> object:
        return tuple([form.read(one, before) for form, one in _pair_forms(forms, _list(written))])

    def write(value: object, places: Places) -> Json:
        return [form.write(one, places) for form, one in _pair_forms(forms, _tuple(value))]

    def find(value: Sequence[object]) -> Iterator[object]:
        for form, one in _pair_forms(forms, value):
            if form.nouns is not None:
                yield from form.nouns(one)

    return Form(write, read, None if all(form.nouns is None for form in forms) else find)


def _object(form: Form) -> Form:
    inside = _nouns_in_each(form)

    def read(written: Json, before: Sequence[object]) -> object:
        if not isinstance(written, dict):
            raise WireError(f"{_brief(written)} is not an object")
        return {name: form.read(one, before) for name, one in written.items()}

    def write(value: Mapping[str, object], places: Places) -> Json:
        if not all(isinstance(name, str) for name in value):
            raise WireError("a name is not text")
        return {str(name): form.write(one, places) for name, one in value.items()}

    return Form(write, read, None if inside is None else lambda value: inside(value.values()))


def _pairs(key: Form, form: Form) -> Form:
    pairs = _sequence(_record((key, form)))
    inside = pairs.nouns
    return Form(
        lambda value, places: pairs.write(tuple(value.items()), places),
        lambda written, before: dict(pairs.read(written, before)),
        None if inside is None else lambda value: inside(value.items()),
    )


def _nouns_in_each(form: Form) -> Callable[[Iterable[object]], Iterator[object]] | None:
    inside = form.nouns
    return None if inside is None else lambda values: (noun for value in values for noun in inside(value))


def _pair_forms(forms: tuple[Form, ...], values: Sequence[object]) -> Iterator[tuple[Form, object]]:
    if len(values) != len(forms):
        raise WireError(f"{_brief(values)} does not have {len(forms)} parts")
    return zip(forms, values, strict=True)


def _list(written: Json) -> list[Json]:
    if not isinstance(written, list):
        raise WireError(f"{_brief(written)} is not a list")
    return written


def _tuple(value: object) -> tuple[object, ...]:
    if not isinstance(value, tuple):
        raise WireError(f"{_brief(value)} is not a tuple")
    return value


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
