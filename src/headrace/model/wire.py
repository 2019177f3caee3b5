"""Plans, catalogues, blocks, relations and expressions as JSON text, so that they can be kept and sent.

    {"format": "headrace/1", "written_by": "0.2.0", "entries": [
    {"is": "Simple", "kind": "bigint"},
    {"is": "Column", "name": "orders.total", "type": 0},
    ...
    ]}

An entry is one noun, named by its class. What it holds is either plain or the number of an earlier entry, so that no
text is nested deeply, whatever the query, and equal parts are written once. The last entry is the value itself.

The text is never code: reading makes nouns and nothing else (`wire_forms`), checks every field, and raises `WireError`
for what it does not know. Fields that have their default value are left out; so a new field with a default may be
added without another FORMAT. Any other change of a noun needs one: `tests/golden/wire/nouns.txt` shows it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NoReturn, TypeVar

from headrace.model.errors import WireError
from headrace.model.wire_forms import nouns, tag_of
from headrace.model.wire_values import Json

FORMAT = "headrace/1"

Kept = TypeVar("Kept")


def write_wire(value: object, written_by: str) -> str:
    """The text of a noun. `written_by` is a version of Headrace, for those who cannot read the text."""
    known, places, positions = nouns(), dict[int, int](), dict[str, int]()
    waiting = [value]
    while waiting:  # a loop, not a recursion: queries may be nested more deeply than calls
        noun = known.get(tag_of(type(waiting[-1])))
        if noun is None or noun.kind is not type(waiting[-1]):
            raise WireError(f"{type(waiting[-1]).__name__} is not part of a plan")
        inside = [one for one in noun.nouns_in(waiting[-1]) if id(one) not in places]
        if inside:
            waiting += reversed(inside)
        else:
            done = waiting.pop()
            text = json.dumps(noun.write(done, places), allow_nan=False)
            places[id(done)] = positions.setdefault(text, len(positions))
    # The value's own entry comes last: it holds all others, so that no entry before it can be equal.
    head = f'{{"format": {json.dumps(FORMAT)}, "written_by": {json.dumps(written_by)}, "entries": [\n'
    return head + ",\n".join(positions) + "\n]}\n"


def read_wire(text: str | bytes, kind: type[Kept]) -> Kept:
    """The value that a text holds, which must be of this kind. Raises WireError."""
    entries = _entries(_load(text))
    known, made = nouns(), list[object]()
    for number, entry in enumerate(entries):
        tag = entry.get("is") if isinstance(entry, dict) else None
        noun = known.get(tag) if isinstance(tag, str) else None
        if noun is None:
            raise WireError(f"entry {number} is of an unknown kind: {tag!r}")
        try:
            made.append(noun.read(entry, made))
        except WireError as error:
            raise WireError(f"entry {number} ({tag}), {error}") from error
    if not isinstance(made[-1], kind):
        raise WireError(f"it holds a {type(made[-1]).__name__}, not a {kind.__name__}")
    return made[-1]


def _load(text: str | bytes) -> Json:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise WireError("it is nested too deeply") from error
    except ValueError as error:
        raise WireError(f"it is not JSON, or not all of it ({error})") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _entries(document: Json) -> Sequence[Json]:
    if not isinstance(document, dict) or not isinstance(document.get("format"), str):
        raise WireError('it does not say its "format"')
    if document["format"] != FORMAT:
        by = document.get("written_by", "another version")
        raise WireError(f'Headrace {by} wrote it in the format "{document["format"]}"; this one reads "{FORMAT}"')
    entries = document.get("entries")
    if not isinstance(entries, list) or not entries:
        raise WireError('it has no "entries"')
    return entries
