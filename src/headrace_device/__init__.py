"""A device of a Headrace project, in Python:

    from headrace_device import Device

    with Device("17", "mqtt://127.0.0.1:1883", token) as device:
        device.on_result(print)
        device.publish("location", {"lat": 39.906, "lng": 116.391})

Rows are kept on disk until the cloud has them, so `publish` works without a connection, too. Views that are placed on
this device run here; their results come to the callback as they come and go.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from headrace.connect.device.address import identify, read_address
from headrace.connect.device.folder import find_folder
from headrace.connect.device.outbox import open_outbox
from headrace.model.errors import ConnectError, HeadraceError, UsageError, WireError
from headrace.run.device.fitting import write_json

if TYPE_CHECKING:
    from headrace.run.device.agent import Result

__all__ = ["ConnectError", "Device", "DeviceResult", "HeadraceError", "UsageError", "WireError"]


class DeviceResult:
    """A row of a view that runs on this device: it came (`op` is "insert") or went ("delete").

    `pair` are the ids that the view is about; `row` has the values by their names; `at` is in ms since 1970.
    """

    __slots__ = ("at", "op", "pair", "row", "view")

    def __init__(self, result: Result) -> None:
        self.view = result.template
        self.pair = result.pair
        self.op = "insert" if result.weight > 0 else "delete"
        self.row: Mapping[str, Any] = dict(zip(result.columns, result.row, strict=False))
        self.at = result.at_ms

    def as_json(self) -> dict[str, Any]:
        """The object that `headrace device` prints."""
        row = {name: write_json(value) for name, value in self.row.items()}
        return {"view": self.view, "pair": list(self.pair), "op": self.op, "row": row, "at": self.at}

    def __repr__(self) -> str:
        return f"DeviceResult({self.view!r}, {self.pair}, {self.op!r}, {self.row}, at={self.at})"


class Device:
    """Connects by itself, now or later, and again. Methods may be called from any thread.

    `state` is a folder for this device alone; by default one of the user's. `functions` are Python functions that views
    may call, by `NAME@VERSION`. `ca_file` has the certificates (PEM) to trust for `mqtts://`; by default the system's.
    `tell` is called with texts that somebody should know; by default they go to stderr. `on_failure` is called once, in
    another thread, if the device cannot go on because its disk fails; without it, `tell` is. `publish` raises the same
    error from then on.
    """

    def __init__(
        self,
        id: str,  # noqa: A002  # what it is called everywhere else
        broker: str,
        token: str,
        *,
        state: str | Path | None = None,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        ca_file: str | None = None,
        without_tls: bool = False,
        tell: Callable[[str], None] | None = None,
        on_failure: Callable[[ConnectError], None] | None = None,
    ) -> None:
        from headrace.connect.device.client import DeviceClient

        address = read_address(broker, without_tls)
        identity = identify(str(id), address, token)
        self._callbacks: list[Callable[[DeviceResult], None]] = []
        self._early: list[DeviceResult] = []
        self._tell = tell or _write_to_stderr
        store = open_outbox(find_folder(identity) if state is None else Path(state))
        self._client = DeviceClient(identity, address, store, self._pass_on, self._tell, functions, ca_file, on_failure)
        self._client.start()

    def publish(self, stream: str, row: Mapping[str, Any], at: int | None = None) -> None:
        """A row of a stream, by the names of its columns; `at` is its time in ms since 1970, now by default.

        Returns when the row is kept on disk. Raises `WireError` if it does not fit the stream.
        """
        self._client.publish(stream, dict(row), at)

    def on_result(self, callback: Callable[[DeviceResult], None]) -> None:
        """Has each change of a result call this, one at a time; it may publish."""
        self._callbacks.append(callback)
        early, self._early = self._early, []
        for result in early:
            callback(result)

    @property
    def plan(self) -> int:
        """The number of the document that runs, 0 if none came yet."""
        return self._client.plan

    def wait_sent(self, seconds: float = 10.0) -> bool:
        """Waits until the cloud has all that was published; whether it has."""
        return self._client.wait_idle(seconds)

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Device:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _pass_on(self, result: Result) -> None:
        made = DeviceResult(result)
        if not self._callbacks:
            self._early = [*self._early[-MOST_EARLY + 1 :], made]
        for callback in self._callbacks:
            try:
                callback(made)
            except Exception as error:
                # It is not the device's to end because its app has a mistake, nor are results to be told twice.
                self._tell(f"a callback failed for a result of {made.view!r}: {error!r}")


MOST_EARLY = 1_000
"""Results that wait for the first callback."""


def _write_to_stderr(text: str) -> None:
    print(f"headrace device: {text}", file=sys.stderr, flush=True)
