"""A jsonb that is changed at a path, without its nulls, or over several lines, as PostgreSQL has them.

A path is a text that holds an array of names and places, as JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from headrace.meaning.scalar_json import read_exactly, write_jsonb
from headrace.model.errors import EvaluationError
from headrace.model.types import Value

Change = Callable[[Any, str], None]
"""Changes a container at the last step of a path."""
_INDENT = "    "


def set_at(text: str, path: str, new: str, create: bool) -> str:
    """`jsonb_set`: another value at a path; one that is missing is added at its end if asked for."""
    value = read_exactly(new)

    def change(inside: Any, step: str) -> None:
        if isinstance(inside, dict):
            if create or step in inside:
                inside[step] = value
            return
        at = _read_place(step)
        if -len(inside) <= at < len(inside):
            inside[at] = value
        elif create:
            inside.insert(len(inside) if at > 0 else 0, value)

    return _change(text, path, change)


def insert_at(text: str, path: str, new: str, after: bool) -> str:
    """`jsonb_insert`: a value beside an element of an array, or a new member of an object."""
    value = read_exactly(new)

    def change(inside: Any, step: str) -> None:
        if isinstance(inside, dict):
            if step in inside:
                raise EvaluationError(f'jsonb_insert: there is a member "{step}" already')
            inside[step] = value
            return
        at = _read_place(step)
        if -len(inside) <= at < len(inside):
            inside.insert((at if at >= 0 else len(inside) + at) + after, value)
        else:
            inside.insert(len(inside) if at > 0 else 0, value)

    return _change(text, path, change)


def delete_at(text: str, path: str) -> str:
    """`#-`: a text without what is at a path."""

    def change(inside: Any, step: str) -> None:
        if isinstance(inside, dict):
            inside.pop(step, None)
        elif -len(inside) <= _read_place(step) < len(inside):
            del inside[_read_place(step)]

    return _change(text, path, change)


def _change(text: str, path: str, change: Change) -> str:
    """The text with a change at a path; as it is if there is no such path, but for its last step."""
    whole, steps = read_exactly(text), read_exactly(path)
    if not isinstance(steps, list) or not all(isinstance(step, str) for step in steps):
        raise EvaluationError(f"'{path[:100]}' is not a path")
    if not isinstance(whole, dict | list):
        raise EvaluationError("a simple value has no paths")
    inside = whole
    for step in steps[:-1]:
        inside = _step(inside, step)
    if steps and isinstance(inside, dict | list):
        change(inside, steps[-1])
    return write_jsonb(whole)


def _step(inside: Any, step: str) -> Any:
    if isinstance(inside, dict):
        return inside.get(step)
    if isinstance(inside, list):
        at = _read_place(step)
        return inside[at] if -len(inside) <= at < len(inside) else None
    return None


def _read_place(step: str) -> int:
    if re.fullmatch(r"\s*[+-]?[0-9]{1,9}", step) is None:
        raise EvaluationError(f"'{step}' in a path is not the place of an element")
    return int(step)


def drop_nulls(text: str) -> str:
    """A text without the members of objects that are null; elements of arrays stay."""
    return write_jsonb(_drop_nulls(read_exactly(text)))


def _drop_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _drop_nulls(inner) for name, inner in value.items() if inner is not None}
    return [_drop_nulls(inner) for inner in value] if isinstance(value, list) else value


def write_lines(text: str) -> str:
    """`jsonb_pretty`: each member and element on a line of its own."""
    return _write_lines(read_exactly(text), 0)


def _write_lines(value: Any, depth: int) -> str:
    if not isinstance(value, dict | list):
        return write_jsonb(value)
    first, last = "{}" if isinstance(value, dict) else "[]"
    inner = f"\n{_INDENT * (depth + 1)}"
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: (len(name.encode()), name.encode()))
        parts = [f"{inner}{write_jsonb(name)}: {_write_lines(value[name], depth + 1)}" for name in names]
    else:
        parts = [f"{inner}{_write_lines(item, depth + 1)}" for item in value]
    return f"{first}{','.join(parts)}\n{_INDENT * depth}{last}"


POSTGRES: Mapping[str, Callable[..., Value]] = {
    "jsonb_changed": set_at,
    "jsonb_inserted": insert_at,
    "jsonb_pretty_text": write_lines,
    "jsonb_without_nulls": drop_nulls,
    "jsonb_without_path": delete_at,
}
"""Functions of values that are not NULL, which Spark does not have."""
