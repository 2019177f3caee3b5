"""Streams of devices as relations over all devices of a group: what they are called, and which columns they have.

declared    device, seq, at, and the stream's own columns. Of the latest row there is one per device
derived     device, position, and the view's columns: any number of rows per device
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.model.catalogue import Catalogue, Devices, DeviceStream, SourceColumn
from headrace.model.template_names import DEVICE, POSITION, RESERVED, name_stream
from headrace.model.types import BIGINT, STRING, Type
from headrace.plan.place.lifting import PairWorld, StreamRows

ASSUMED_RATE = 0.1
"""Rows per second of a device's stream of which nobody said how many it has."""


def find_id_type(catalogue: Catalogue, devices: Devices) -> Type:
    """The type by which relations name devices."""
    columns = catalogue.sources[devices.table].columns or ()
    return next((one.type for one in columns if one.name == devices.id), STRING)


def find_pair_world(devices: Devices, id_type: Type, sides: Iterable[str]) -> PairWorld:
    """All that a view of these sides may read of its devices."""
    chosen = tuple(sides)
    rows = {one.name: _find_rows(devices, one, id_type) for one in devices.streams}
    streams = {f"{side}.{name}": found for side in chosen for name, found in rows.items()}
    return PairWorld(streams, id_type, chosen)


def _find_rows(devices: Devices, stream: DeviceStream, id_type: Type) -> StreamRows:
    columns = {one.name: one.type for one in find_columns(stream, id_type)}
    return StreamRows(name_stream(devices.name, stream.name), tuple(columns), tuple(columns.values()), stream.keep_s)


def find_columns(stream: DeviceStream, id_type: Type) -> tuple[SourceColumn, ...]:
    more = RESERVED if stream.derived is None else {POSITION: BIGINT}
    return (
        SourceColumn(DEVICE, id_type),
        *(SourceColumn(name, type_) for name, type_ in more.items()),
        *stream.columns,
    )


def find_key(stream: DeviceStream) -> tuple[str, ...]:
    if stream.derived is not None:
        return DEVICE, POSITION
    return (DEVICE,) if stream.keep_s is None else (DEVICE, next(iter(RESERVED)))


def stream_rate(stream: DeviceStream) -> float:
    """Rows per second of one device."""
    return ASSUMED_RATE if stream.rate is None else stream.rate
