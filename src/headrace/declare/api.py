"""The project as Python calls: the same declarations, defaults and checks as `headrace.yml`.

    Project("city").site("us").site("eu").link(between=("us", "eu"), bandwidth="100 Mbps") ...

A call only notes what was said and where; `catalogue` checks everything at once, through the same code as a project
file. Mistakes point at the call's line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, Self

from headrace.declare import document as written
from headrace.declare.dialect_line import read_dialect_line
from headrace.declare.project_file import read_name
from headrace.declare.project_text import ProjectText
from headrace.declare.read import in_order, read_text
from headrace.declare.sql import ViewText
from headrace.declare.units import Unreadable, Written
from headrace.declare.yaml_text import yaml_of
from headrace.model.catalogue import Catalogue
from headrace.model.errors import InputError, Location, Problem

Column = str | Mapping[str, str | float]
"""A type, or `{"type": ..., "width": ..., "distinct": ...}`."""

Engine = Mapping[str, Written | Mapping[str, Written]]
"""`{"kind": "spark", "memory": "4 GB", "properties": {...}}`."""


class Project:
    """Declarations, one call each. Every method returns the project, so that calls can be chained."""

    def __init__(
        self,
        name: str,
        *,
        admission: Literal["sustainable", "paper"] | None = None,
        dialect: Literal["spark", "postgres"] | None = None,
        headroom: Mapping[str, Written] | None = None,
        engine: Engine | None = None,
        method: Literal["cheapest", "dpd", "dpt", "smile"] | None = None,
        share: Literal["none", "merge", "plumb", "marginal"] | None = None,
        wide_area: Literal["default", "net", "mqo", "sana", "no-share", "strict-share", "max-share"] | None = None,
    ) -> None:
        self._start = _caller()
        self._value: dict[str, object] = {}
        self._places: dict[written.Path, Location] = {}
        self._views: dict[str, ViewText] = {}
        self._view_places: dict[str, Location] = {}
        self._problems: list[Problem] = []
        fields = {
            "project": name,
            "admission": admission,
            "dialect": dialect,
            "headroom": headroom,
            "engine": engine,
            "method": method,
            "share": share,
            "wide_area": wide_area,
        }
        for field, value in fields.items():
            if value is not None:
                self._value[field] = _plain(value)

    @property
    def catalogue(self) -> Catalogue:
        """All declarations, checked. Raises InputError with all mistakes."""
        document = written.WrittenDocument(self._value, self._places, self._places, self._start)
        directory = str(Path(self._start.file).parent)
        text = ProjectText(directory, document, self._views, tuple(self._problems))
        try:
            found = read_text(text, os.environ)
        except InputError as error:
            raise InputError(in_order(map(self._place_problem, error.problems))) from None
        return replace(found, problems=in_order(map(self._place_problem, found.problems)))

    def host(self, name: str, *, cores: Written) -> Self:
        return self._add("hosts", name, {"cores": cores})

    def site(
        self,
        name: str,
        *,
        cpu: Written | None = None,
        disk: Written | None = None,
        cores: Written | None = None,
        disk_capacity: Written | None = None,
        speed: Written | None = None,
        host: str | None = None,
        engine: Engine | None = None,
    ) -> Self:
        fields = {
            "cpu": cpu,
            "disk": disk,
            "cores": cores,
            "disk_capacity": disk_capacity,
            "speed": speed,
            "host": host,
            "engine": engine,
        }
        return self._add("sites", name, fields)

    def link(
        self,
        *,
        between: tuple[str, str] | None = None,
        from_: str | None = None,
        to: str | None = None,
        bandwidth: Written | None = None,
        latency: Written | None = None,
        price: Written | None = None,
        limit: Written | None = None,
    ) -> Self:
        """Both directions with `between`, one with `from_` and `to`."""
        fields = {
            "between": between,
            "from": from_,
            "to": to,
            "bandwidth": bandwidth,
            "latency": latency,
            "price": price,
            "limit": limit,
        }
        links = self._value.setdefault("links", [])
        assert isinstance(links, list)
        self._places["links", len(links)] = _caller()
        links.append(_drop_missing(fields))
        return self

    def source(
        self,
        name: str,
        *,
        at: str,
        kind: Literal["table", "stream"] = "table",
        key: str | Sequence[str] | None = None,
        columns: Mapping[str, Column] | None = None,
        rows: Written | None = None,
        rate: Written | None = None,
        static: bool | None = None,
        parent_first: bool | None = None,
        stays: str | Sequence[str] | Mapping[str, str | Sequence[str]] | None = None,
        time: str | None = None,
        retention: Written | None = None,
        postgres: Mapping[str, str] | None = None,
        files: Mapping[str, str] | None = None,
        **other: Mapping[str, str],
    ) -> Self:
        """`other` is where rows of any other kind of source are, by the name of the kind."""
        fields = {
            "kind": kind,
            "at": at,
            "key": key,
            "columns": columns,
            "rows": rows,
            "rate": rate,
            "static": static,
            "parent_first": parent_first,
            "stays": stays,
            "time": time,
            "retention": retention,
            "postgres": postgres,
            "files": files,
            **other,
        }
        return self._add("sources", name, fields)

    def view(self, name: str, sql: str) -> Self:
        """A query. Mistakes in it point at this call, and say the line and column of the SQL."""
        where = _caller()
        if name in self._views:
            self._twice(f'view "{name}"', where, self._view_places[name])
            return self
        try:
            read_name(name)
        except Unreadable as error:
            self._problems.append(Problem(f"view {error.message}", where, error.hint))
        view = ViewText(name, sql, f"{where.file}:{where.line}")
        try:
            self._views[name] = read_dialect_line(view)
        except InputError as error:
            self._views[name] = view
            self._problems.extend(replace(problem, where=where) for problem in error.problems)
        self._view_places[name] = where
        return self

    def contract(
        self,
        name: str,
        *,
        view: str,
        at: str,
        freshness: Written,
        penalty: Written | None = None,
        owner: str | None = None,
        deliver: Mapping[str, str | Mapping[str, str]] | None = None,
        refresh: Literal["incremental", "full", "auto"] | None = None,
    ) -> Self:
        fields = {
            "view": view,
            "at": at,
            "freshness": freshness,
            "penalty": penalty,
            "owner": owner,
            "deliver": deliver,
            "refresh": refresh,
        }
        return self._add("contracts", name, fields)

    def feed(
        self,
        name: str,
        *,
        events: Mapping[str, str] | Literal["api"],
        follows: Mapping[str, str] | Literal["api"],
        at: str | None = None,
        freshness: Written | None = None,
        coherency: Literal["per-producer", "global"] | None = None,
        limit: int | None = None,
        per_producer: int | None = None,
        keep: int | None = None,
        diversity: Mapping[str, Written] | None = None,
        latency: Mapping[str, Written] | None = None,
        pool: int | None = None,
        rank: str | None = None,
        reads: Written | None = None,
        store: Literal["postgres"] | Mapping[str, Mapping[str, str]] | None = None,
    ) -> Self:
        fields = {
            "at": at,
            "freshness": freshness,
            "events": events,
            "follows": follows,
            "coherency": coherency,
            "limit": limit,
            "per_producer": per_producer,
            "keep": keep,
            "diversity": diversity,
            "latency": latency,
            "pool": pool,
            "rank": rank,
            "reads": reads,
            "store": store,
        }
        return self._add("feeds", name, fields)

    def devices(
        self,
        name: str,
        *,
        table: str,
        id: str,  # noqa: A002 - the project file's word
        streams: Mapping[str, Mapping[str, object]],
        up: Written | None = None,
        down: Written | None = None,
        capacity: int | str | None = None,
        broker: Mapping[str, str] | None = None,
        buffer: Written | None = None,
        forget: Written | None = None,
    ) -> Self:
        fields = {
            "table": table,
            "id": id,
            "up": up,
            "down": down,
            "capacity": capacity,
            "streams": streams,
            "broker": broker,
            "buffer": buffer,
            "forget": forget,
        }
        return self._add("devices", name, fields)

    def template(
        self,
        name: str,
        *,
        per: Mapping[str, str],
        devices: str,
        view: str,
        every: Mapping[str, Written] | None = None,
        notify: str | None = None,
    ) -> Self:
        fields = {"per": per, "devices": devices, "view": view, "every": every, "notify": notify}
        return self._add("templates", name, fields)

    def function(
        self, name: str, *, python: str, arguments: Sequence[str], returns: str, deterministic: bool, version: int = 1
    ) -> Self:
        fields = {
            "python": python,
            "arguments": arguments,
            "returns": returns,
            "version": version,
            "deterministic": deterministic,
        }
        return self._add("functions", name, fields)

    def selectivity(self, source: str, predicate: str, share: Written) -> Self:
        """The share of a source's rows for which a condition over its columns holds."""
        self._places.setdefault(("selectivity", source), _caller())
        of_source = _section(_section(self._value, "selectivity"), source)
        return self._put(of_source, ("selectivity", source, predicate), share)

    def operator_time(
        self,
        operator: str,
        *,
        fixed: Written | None = None,
        per_in: Written | None = None,
        per_out: Written | None = None,
    ) -> Self:
        return self._add("operator_times", operator, {"fixed": fixed, "per_in": per_in, "per_out": per_out})

    def write(self, directory: str | Path) -> None:
        """Writes a folder for the commands: `headrace.yml`, and a file for each view. Replaces what is there."""
        folder = Path(directory)
        (folder / "views").mkdir(parents=True, exist_ok=True)
        (folder / "headrace.yml").write_text(yaml_of(self._value))
        for view in self._views.values():
            (folder / "views" / f"{view.name}.sql").write_text(view.sql)

    def _add(self, section: str, name: str, fields: Mapping[str, object]) -> Self:
        return self._put(_section(self._value, section), (section, name), _drop_missing(fields))

    def _put(self, entries: dict[str, object], path: written.Path, value: object) -> Self:
        where, name = _caller(), str(path[-1])
        if name in entries:
            self._twice(f'"{name}"', where, self._places[path])
        else:
            entries[name] = value
            self._places[path] = where
        return self

    def _twice(self, what: str, where: Location, first: Location) -> None:
        self._problems.append(
            Problem(f"{what} is written twice", where, f"the first is on line {first.line}; keep one")
        )

    def _place_problem(self, problem: Problem) -> Problem:
        """A mistake in SQL stands in a text of its own: point at the call, and say where in the text."""
        for view in self._views.values():
            if problem.where is not None and problem.where.file == view.file:
                within = f"{problem.message} (line {problem.where.line}, column {problem.where.column} of its SQL)"
                return Problem(within, self._view_places[view.name], problem.hint, problem.severity)
        return problem


def _section(value: dict[str, object], name: str) -> dict[str, object]:
    section = value.setdefault(name, {})
    assert isinstance(section, dict)
    return section


def _drop_missing(fields: Mapping[str, object]) -> dict[str, object]:
    return {name: _plain(value) for name, value in fields.items() if value is not None}


def _plain(value: object) -> object:
    """Mappings and sequences as YAML would give them."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(inner) for inner in value]
    return value


def _caller() -> Location:
    """The line outside this module that called."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename == __file__ and frame.f_back is not None:
        frame = frame.f_back
    path = Path(frame.f_code.co_filename)
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return Location(str(shown), frame.f_lineno)
