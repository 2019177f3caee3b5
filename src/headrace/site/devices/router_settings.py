"""What the router is told when it starts: one line of JSON, and another whenever something of it changes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from headrace.model.errors import UsageError
from headrace.model.type_names import type_named
from headrace.run.devices.intake import Columns


def _type_name(text: str) -> str:
    if type_named(text) is None:
        raise ValueError(f'no type is called "{text}"')
    return text


@dataclass(frozen=True, slots=True, eq=False)
class RoutedSource:
    """A source that the router writes; `key` are positions of columns. Each is its own, so that looking one up is
    quick.
    """

    inbox: Path
    columns: Columns
    key: tuple[int, ...]


class RoutedSourceFile(BaseModel):
    """Where a source is. Columns map names to types as they are written in project files."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    inbox: Path
    columns: tuple[tuple[str, Annotated[str, BeforeValidator(_type_name)]], ...]
    key: tuple[str, ...]

    def read(self) -> RoutedSource:
        columns = tuple((name, type_) for name, text in self.columns if (type_ := type_named(text)) is not None)
        names = [name for name, _ in columns]
        return RoutedSource(self.inbox, columns, tuple(names.index(name) for name in self.key))


class StreamFile(BaseModel):
    """A stream of a group of devices. With `keep_s`, all its rows of so many seconds count. A value of a stream that is
    `derived` is any number of rows.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    devices: str
    stream: str
    keep_s: float | None = None
    derived: bool = False
    source: RoutedSourceFile


class TemplateFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    template: str
    sides: int
    source: RoutedSourceFile


class BrokerFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    url: str
    user: str
    password: str
    certificate: str | None = None
    log: Path | None = None


class RouterFile(BaseModel):
    """`directory` is the project's folder: who the devices are is looked up there."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    project: str
    directory: Path
    broker: BrokerFile
    streams: tuple[StreamFile, ...] = ()
    templates: tuple[TemplateFile, ...] = ()


def parse_settings(text: str) -> RouterFile:
    try:
        return RouterFile.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(f"the router's settings are wrong at {where}: {first['msg']}") from None
