"""Places that copies of views are delivered to: what people call them, and how they are written for programs.

A new kind of place is told apart here and nowhere else, except where its copy is opened (`site/deliver/copies.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from headrace.model.catalogue import CopyPlace, DeltaFolder, PostgresTable
from headrace.model.table_name import show_table


def name_place(place: CopyPlace) -> str:
    """What people call a place: `table sales.orders`, `folder "out/orders"`."""
    match place:
        case PostgresTable():
            return f"table {show_table(place.table)}"
        case DeltaFolder():
            return f'folder "{place.path}"'
        case _:
            assert_never(place)


def place_document(place: CopyPlace) -> dict[str, str]:
    """A place by its kind, without its address."""
    match place:
        case PostgresTable():
            return {"postgres": place.table}
        case DeltaFolder():
            return {"delta": place.path}
        case _:
            assert_never(place)


def read_place(fields: Mapping[str, str]) -> CopyPlace:
    """A place that was stored by its fields; each kind has fields of its own."""
    return DeltaFolder(**fields) if "path" in fields else PostgresTable(**fields)
