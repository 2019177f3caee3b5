"""Watches revoked tokens at a broker of somebody else's: each is a trouble until the broker refuses it.

The service cannot change a password there, and nobody else would notice that it was not done. So it tries to sign in
with the old tokens now and then. Which of them the broker has refused is kept in a file: a restart forgets nothing, and
nothing that was refused is tried again.

    devices-revoked.json    {"17": 3}     of device 17, the broker has refused all tokens before the third
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headrace.connect.mqtt.client import BrokerAccess
from headrace.connect.mqtt.external import is_signed_in
from headrace.model.errors import HeadraceError
from headrace.site.devices.registry import FIRST_GENERATION, Registry, read_registry, registry_version
from headrace.site.devices.tokens import DeviceToken, find_device_key, make_token
from headrace.site.folder import Folder
from headrace.site.troubles import BROKER, Troubles

log = logging.getLogger("headrace.devices")

FILE = "devices-revoked.json"
KEY = f"{BROKER}revoked"
LOOK_S, TRY_AGAIN_S = 1.0, 60.0
NAMED = 3
"""Devices that the trouble names."""

SignsIn = Callable[[BrokerAccess], bool | None]
"""Whether a broker lets somebody sign in; None if it does not say."""


@dataclass(slots=True)
class RevokedTokens:
    """Used by one thread. `access` is the broker; devices sign in there with users of their own."""

    folder: Folder
    project: str
    access: BrokerAccess
    troubles: Troubles
    signs_in: SignsIn = is_signed_in
    _version: tuple[int, int] | None = None
    _tried_s: float = float("-inf")

    def run(self, end: threading.Event) -> None:
        while not end.wait(LOOK_S):
            version, now_s = registry_version(self.folder), time.monotonic()
            if version != self._version or now_s - self._tried_s >= TRY_AGAIN_S:
                self._version, self._tried_s = version, now_s
                self._try()

    def _try(self) -> None:
        try:
            self.look()
        except Exception as error:  # nobody else would hear of it, and the thread would end
            if not isinstance(error, HeadraceError | OSError):
                log.exception("looking for revoked tokens failed")
            what = f"whether the broker still takes tokens that were revoked is not known: {error}"
            self.troubles.report(KEY, what, "the service keeps trying")

    def look(self) -> None:
        """Tells which devices have an old token that the broker may still take. Raises `UnreadableState`."""
        registry, refused = read_registry(self.folder), self._read_refused()
        open_ = find_unrefused(registry, refused)
        # Told before anything is tried: a broker may take long to answer.
        self._tell(tuple(open_))
        done = self._find_refused(open_)
        if done:
            found = {**refused, **{device: registry.generation_of(device) for device in done}}
            self.folder.write_json(FILE, dict(sorted(found.items())), is_durable=True)
            self._tell(tuple(device for device in open_ if device not in done))

    def _read_refused(self) -> dict[str, int]:
        found = self.folder.read_json(FILE) or {}
        try:
            return {str(device): int(generation) for device, generation in found.items()}
        except (AttributeError, TypeError, ValueError) as error:
            raise self.folder.unreadable(FILE, "it does not say which tokens a broker has refused") from error

    def _find_refused(self, unrefused: Mapping[str, range]) -> set[str]:
        """Devices of which the broker refuses all these tokens. One that does not answer is not asked for others."""
        key, found = find_device_key(self.folder.root), set[str]()
        for device, generations in unrefused.items():
            tokens = (make_token(key, self.project, device, one) for one in generations)
            answers = [self._signs_in(one) for one in tokens]
            if None in answers:
                break
            if not any(answers):
                found.add(device)
        return found

    def _signs_in(self, token: DeviceToken) -> bool | None:
        return self.signs_in(BrokerAccess(self.access.url, token.user, token.token, self.access.certificate))

    def _tell(self, devices: tuple[str, ...]) -> None:
        if not devices:
            self.troubles.clear(KEY)
            return
        named = ", ".join(devices[:NAMED]) + (", ..." if len(devices) > NAMED else "")
        whose = f"device {named}" if len(devices) == 1 else f"{len(devices)} devices ({named})"
        what = f"the token of {whose} was revoked, and the broker may still take the old one: it is not Headrace's"
        hint = (
            "at the broker, change the password of the device's user to what `headrace devices tokens ID` shows before "
            '"@", or remove the user, and end its session. This is over once the broker refuses the old token'
        )
        self.troubles.report(KEY, what, hint)


def find_unrefused(registry: Registry, refused: Mapping[str, int]) -> dict[str, range]:
    """Generations of tokens that were revoked, and that the broker has not been seen to refuse, by device."""
    found = {
        device: range(refused.get(device, FIRST_GENERATION), generation)
        for device, generation in sorted(registry.generations.items())
    }
    return {device: old for device, old in found.items() if old}
