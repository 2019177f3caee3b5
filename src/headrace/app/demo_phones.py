"""The phones of the demo: a real session of each, and a thread that has all of them walk."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Mapping

from headrace.app.demo_tracks import DemoPlaces
from headrace.app.device_tokens import list_device_tokens
from headrace.connect.device.many import ManyDevices
from headrace.model.errors import ConnectError
from headrace.site.folder import Folder

log = logging.getLogger("headrace.demo")

STREAM = "location"
LOOK_EVERY_S = 0.05
CONNECTED_WITHIN_S = 60.0
DOCTOR = "`headrace doctor` looks for the cause"


class DemoPhones:
    """`rows` counts what each phone told, `last` is where it is, `away` are those without a connection."""

    def __init__(
        self, folder: Folder, project: str, broker: str, people: Mapping[int, str], places: DemoPlaces
    ) -> None:
        self._places = dict(zip(people, places.steps, strict=True))
        self._walking, self._end = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._walk, name="phones", daemon=True)
        self._lock = threading.Lock()
        self._devices = ManyDevices(broker, project, tell=lambda device, text: log.info("%s: %s", device, text))
        for one in list_device_tokens(folder.project, [*map(str, people)]):
            self._devices.add(one.device, one.token)
        self.rows: Counter[int] = Counter()
        self.last: dict[int, tuple[float, float]] = {}
        self.away: set[int] = set()

    def start(self) -> None:
        """Returns when all are connected and walk."""
        self._devices.start()
        if not self._devices.wait_connected(CONNECTED_WITHIN_S):
            raise ConnectError(f"the phones could not be connected within {CONNECTED_WITHIN_S:.0f} s", DOCTOR)
        self._began = time.monotonic()
        self._walking.set()
        self._thread.start()

    def stand_still(self) -> None:
        with self._lock:
            self._walking.clear()

    def unplug(self, uid: int) -> None:
        self.away.add(uid)
        self._devices.unplug(str(uid))

    def plug_in(self, uid: int) -> None:
        self.away.discard(uid)
        self._devices.plug_in(str(uid))

    def stop(self) -> None:
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)
        self._devices.stop()

    def _walk(self) -> None:
        """Each phone tells a place when it is there; whoever has been everywhere stays."""
        next_step = dict.fromkeys(self._places, 0)
        while not self._end.wait(LOOK_EVERY_S):
            now = time.monotonic() - self._began
            for uid, steps in self._places.items():
                while next_step[uid] < len(steps) and steps[next_step[uid]][0] <= now:
                    with self._lock:
                        if not self._walking.is_set():
                            return
                        self._tell(uid, *steps[next_step[uid]][1:])
                    next_step[uid] += 1

    def _tell(self, uid: int, lat: float, lng: float) -> None:
        self.rows[uid] += 1
        self.last[uid] = (lat, lng)
        self._devices.publish(str(uid), STREAM, {"lat": lat, "lng": lng}, None)
