"""Rows on their way from one site to another: an Arrow stream, compressed."""

from __future__ import annotations

import pyarrow as pa

from headrace.model.errors import ConnectError

MEDIA_TYPE = "application/vnd.apache.arrow.stream"
AFTER, UPTO = "X-Headrace-After", "X-Headrace-Upto"
ENDING = "X-Headrace-Ending"
"""Said by a site that is about to end: what others lack of it they take now."""
PART, PARTS = "X-Headrace-Part", "X-Headrace-Parts"


def write_rows(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_table(rows)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def read_rows(body: bytes) -> pa.Table:
    """Raises ConnectError for what is not whole."""
    try:
        with pa.ipc.open_stream(body) as reader:
            return reader.read_all()
    except (pa.ArrowInvalid, OSError) as error:
        raise ConnectError(f"what the other site has sent cannot be read: {error}") from error
