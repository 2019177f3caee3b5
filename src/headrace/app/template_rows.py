"""Reads the rows that templates are about, and places their pairs in a plan."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.model.catalogue import Catalogue, Source
from headrace.model.errors import ConnectError, InputError
from headrace.model.plan import Plan

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from headrace.plan.place.family import Columns, ReadRows


def place_templates_of(plan: Plan, directory: Path, environment: Mapping[str, str]) -> Plan:
    """The plan with its templates as their rows have it. Where these cannot be read, that is said in its place."""
    if not plan.catalogue.templates:
        return plan
    from headrace.plan.place.family import with_templates

    return with_templates(plan, read_template_rows(plan.catalogue, directory, environment))


def read_template_rows(catalogue: Catalogue, directory: Path, environment: Mapping[str, str]) -> ReadRows:
    """Columns of the tables of templates and of their devices, by source; a text says why they were not read."""
    from headrace.plan.place.family import find_needed_columns

    needed = find_needed_columns(catalogue)
    return {
        name: _read(catalogue, catalogue.sources[name], columns, directory, environment)
        for name, columns in needed.items()
    }


def _read(
    catalogue: Catalogue, source: Source, columns: tuple[str, ...], directory: Path, environment: Mapping[str, str]
) -> Columns | str:
    if source.origin is None:
        return f'source "{source.name}" does not say where its rows are'
    from headrace.connect.sources import connector_of
    from headrace.site.sources.databases import place_of

    place = place_of(catalogue.project, directory, environment)
    try:
        found = connector_of(source.origin.kind).read_columns(source, columns, place)
    except InputError as error:
        return error.problems[0].message
    except ConnectError as error:
        return error.message
    except ModuleNotFoundError as error:  # planning needs no database, and so none of its packages
        return f'reading source "{source.name}" needs the package "{error.name}": pip install \'headrace[spark]\''
    if found is None:
        return f'rows of source "{source.name}" are known only while it runs'
    return read_arrays(found, find_ids(catalogue, source.name))


def find_ids(catalogue: Catalogue, source: str) -> frozenset[str]:
    """The columns of a source that name devices."""
    devices = {one.id for one in catalogue.devices.values() if one.table == source}
    pairs = {column for one in catalogue.templates.values() if one.table == source for column in one.sides.values()}
    return frozenset(devices | pairs)


def read_arrays(rows: pa.Table, ids: frozenset[str]) -> Columns:
    """Columns as arrays, of rows that name all their devices."""
    import pyarrow.compute as pc

    for name in sorted(ids & set(rows.column_names)):
        rows = rows.filter(pc.is_valid(rows[name]))
    return {name: _read_array(rows[name]) for name in rows.column_names}


def _read_array(column: pa.ChunkedArray) -> NDArray[Any]:
    """Whole numbers as they are, other numbers as doubles, all else as text."""
    import pyarrow as pa

    if pa.types.is_integer(column.type):
        found = column.cast(pa.int64()).to_numpy()
    elif pa.types.is_floating(column.type) or pa.types.is_decimal(column.type):
        found = column.cast(pa.float64()).to_numpy()
    else:
        found = column.cast(pa.string()).to_numpy().astype(str)
    read: NDArray[Any] = found
    return read
