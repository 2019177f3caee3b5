"""What the router is told of the templates that run: where the rows of streams and the results of devices go."""

from __future__ import annotations

from headrace.coordinate.devices.kept import KeptTemplates
from headrace.model.catalogue import Source
from headrace.model.source_clock import clock_of
from headrace.site.devices.router_settings import RoutedSourceFile, StreamFile, TemplateFile
from headrace.site.folder import Folder


def describe_streams(kept: KeptTemplates, folder: Folder) -> tuple[StreamFile, ...]:
    """All streams, also those that no template reads: a device may send rows of one before the router hears that it is
    read now, and once they are acknowledged it does not send them again.
    """
    return tuple(
        StreamFile(
            devices=name,
            stream=stream,
            keep_s=group.terms.streams[stream].keep_s or None,
            derived=stream in group.terms.derived,
            source=_describe_source(source, folder),
        )
        for name, group in kept.groups.items()
        for stream, source in group.streams.items()
    )


def describe_templates(kept: KeptTemplates, folder: Folder) -> tuple[TemplateFile, ...]:
    return tuple(
        TemplateFile(template=name, sides=len(one.sides), source=_describe_source(one.reported, folder))
        for name, one in kept.templates.items()
    )


def _describe_source(source: Source, folder: Folder) -> RoutedSourceFile:
    columns = tuple((column.name, str(column.type)) for column in source.columns or ())
    return RoutedSourceFile(inbox=folder.capture(clock_of(source)).absolute(), columns=columns, key=source.key)
