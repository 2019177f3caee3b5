"""All entries of a document, read one by one: what is right is kept, what is wrong becomes Problems."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from headrace.declare.document import Path, WrittenDocument
from headrace.declare.project_file import (
    ContractEntry,
    DevicesEntry,
    Entry,
    FeedEntry,
    FunctionEntry,
    HostEntry,
    LinkEntry,
    OperatorTimeEntry,
    ProjectFields,
    SiteEntry,
    SourceEntry,
    TemplateEntry,
    read_name,
)
from headrace.declare.units import Unreadable, read_share
from headrace.declare.validate import KINDS, read_entry, wrong_kind
from headrace.model.errors import Problem, nearest_name

E = TypeVar("E", bound=Entry)


@dataclass(frozen=True, slots=True)
class Entries:
    """What could be read, by name; links by their position.

    `written` has every name of a part of the project, also of entries that are wrong: a reference to one is no second
    mistake. `lost` has the wrong fields of each entry: what stands for them there means nothing. `unread` are parts
    of the project that are no mapping at all.
    """

    document: WrittenDocument
    fields: ProjectFields | None
    hosts: Mapping[str, HostEntry]
    sites: Mapping[str, SiteEntry]
    links: Mapping[int, LinkEntry]
    sources: Mapping[str, SourceEntry]
    contracts: Mapping[str, ContractEntry]
    feeds: Mapping[str, FeedEntry]
    devices: Mapping[str, DevicesEntry]
    templates: Mapping[str, TemplateEntry]
    functions: Mapping[str, FunctionEntry]
    operator_times: Mapping[str, OperatorTimeEntry]
    selectivity: Mapping[tuple[str, str], float]
    written: Mapping[str, tuple[str, ...]]
    lost: Mapping[Path, frozenset[str]]
    unread: frozenset[str]


def read_entries(document: WrittenDocument) -> tuple[Entries, tuple[Problem, ...]]:
    reader = _Reader(document)
    entries = Entries(
        document=document,
        fields=reader.fields(),
        hosts=reader.section("hosts", HostEntry),
        sites=reader.section("sites", SiteEntry),
        links=reader.links(),
        sources=reader.section("sources", SourceEntry),
        contracts=reader.section("contracts", ContractEntry),
        feeds=reader.section("feeds", FeedEntry),
        devices=reader.section("devices", DevicesEntry),
        templates=reader.section("templates", TemplateEntry),
        functions=reader.section("functions", FunctionEntry),
        operator_times=reader.section("operator_times", OperatorTimeEntry),
        selectivity=reader.selectivity(),
        written=reader.written,
        lost=reader.lost,
        unread=frozenset(reader.unread),
    )
    return entries, tuple(reader.problems)


class _Reader:
    """Reads the parts of one document, noting mistakes on the way."""

    def __init__(self, document: WrittenDocument) -> None:
        self.document = document
        self.problems: list[Problem] = []
        self.written: dict[str, tuple[str, ...]] = {}
        self.lost: dict[Path, frozenset[str]] = {}
        self.unread: set[str] = set()

    def fields(self) -> ProjectFields | None:
        """The fields of the project itself; those that no project has are mistakes."""
        known = (*ProjectFields.model_fields, *KINDS)
        for name in self.document.value:
            if name not in known:
                hint = nearest_name(name, known) or f"fields are {', '.join(known)}"
                where = self.document.key_at((name,))
                self.problems.append(Problem(f'the project has no field "{name}"', where, hint))
        own = {name: value for name, value in self.document.value.items() if name in ProjectFields.model_fields}
        return self._entry(ProjectFields, own, ())

    def section(self, section: str, model: type[E]) -> dict[str, E]:
        found: dict[str, E] = {}
        self.written[section] = ()
        for name, written in self._mapping((section,)):
            self.written[section] += (name,)
            self._check_name((section, name), name)
            entry = self._entry(model, written, (section, name))
            if entry is not None:
                found[name] = entry
        return found

    def links(self) -> dict[int, LinkEntry]:
        written = self.document.value.get("links")
        if not isinstance(written, list):
            if written is not None:
                self.problems.append(wrong_kind(written, "a list", ("links",), self.document))
            return {}
        found: dict[int, LinkEntry] = {}
        for position, link in enumerate(written):
            entry = self._entry(LinkEntry, link, ("links", position))
            if entry is not None:
                found[position] = entry
        return found

    def selectivity(self) -> dict[tuple[str, str], float]:
        found: dict[tuple[str, str], float] = {}
        self.written["selectivity"] = tuple(source for source, _ in self._mapping(("selectivity",)))
        for source in self.written["selectivity"]:
            for predicate, share in self._mapping(("selectivity", source)):
                try:
                    found[source, predicate] = read_share(share)
                except Unreadable as error:
                    where = self.document.value_at(("selectivity", source, predicate))
                    what = f'selectivity of "{source}": {error.message}'
                    self.problems.append(Problem(what, where, error.hint))
        return found

    def _entry(self, model: type[E], written: object, path: Path) -> E | None:
        reading = read_entry(model, written, path, self.document)
        self.problems += reading.problems
        self.lost[path] = reading.lost
        return reading.entry

    def _mapping(self, path: Path) -> Iterator[tuple[str, object]]:
        """Names and values of a part of the project. One with nothing under it is empty: all may be commented out."""
        value: object = self.document.value
        for step in path:
            value = value.get(str(step)) if isinstance(value, Mapping) else None
        if isinstance(value, Mapping):
            yield from value.items()
        elif value is not None:
            self.unread.add(str(path[0]))
            self.problems.append(wrong_kind(value, "a mapping", path, self.document))

    def _check_name(self, path: Path, name: str) -> None:
        try:
            read_name(name)
        except Unreadable as error:
            what = f"{KINDS[str(path[0])]} {error.message}"
            self.problems.append(Problem(what, self.document.key_at(path), error.hint))
