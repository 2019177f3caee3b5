"""Which devices there are, and which generation of its token each of them has.

    devices.json    {"groups": {"phones": ["1", "2"]}, "generations": {"2": 3}}

Members are rows of the groups' tables, as the service found them last: so the broker knows its users before any table
has been read again. A device without a generation has the first. Nothing of it is secret.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace.connect.files import open_private
from headrace.model.errors import UnknownName, nearest_name
from headrace.site.devices.tokens import DeviceToken, find_device_key, make_token
from headrace.site.folder import Folder

FILE, LOCK = "devices.json", "devices.lock"
FIRST_GENERATION = 1


@dataclass(frozen=True, slots=True)
class Registry:
    """Ids of devices by group, and generations of those whose first token was revoked."""

    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    generations: Mapping[str, int] = field(default_factory=dict)

    @property
    def devices(self) -> tuple[str, ...]:
        """All of them, in one order."""
        return tuple(sorted({device for members in self.groups.values() for device in members}))

    @property
    def shared(self) -> tuple[str, ...]:
        """Ids that several groups have. Topics and tokens could not tell these devices apart: none may sign in."""
        times = Counter(device for members in self.groups.values() for device in set(members))
        return tuple(sorted(device for device, count in times.items() if count > 1))

    def generation_of(self, device: str) -> int:
        return self.generations.get(device, FIRST_GENERATION)


def read_registry(folder: Folder) -> Registry:
    """Raises `UnreadableState`: without generations, tokens that were revoked would count again."""
    found = folder.read_json(FILE)
    if found is None:
        return Registry()
    try:
        groups = {str(name): tuple(map(str, members)) for name, members in found["groups"].items()}
        return Registry(groups, {str(device): int(number) for device, number in found["generations"].items()})
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise folder.unreadable(FILE, "it does not say which devices there are") from error


def registry_version(folder: Folder) -> tuple[int, int] | None:
    """Differs when somebody has changed the registry; None if there is none yet."""
    try:
        found = (folder.root / FILE).stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def set_members(folder: Folder, groups: Mapping[str, Sequence[str]]) -> bool:
    """Notes which devices there are; whether that is new. Generations stay, also of devices that are gone."""
    with _changing(folder):
        before = read_registry(folder)
        after = replace(before, groups={name: tuple(sorted(set(members))) for name, members in groups.items()})
        if after != before:
            _write(folder, after)
        return after != before


def revoke_device(folder: Folder, device: str) -> int:
    """Its token counts no more from now on; the generation of the next one. Raises `UnknownName`."""
    with _changing(folder):
        before = read_registry(folder)
        if device not in before.devices and device not in before.generations:
            hint = nearest_name(device, before.devices) or "`headrace devices tokens` shows those that are known"
            raise UnknownName(f'there is no device "{device}"', hint)
        generation = before.generation_of(device) + 1
        _write(folder, replace(before, generations={**before.generations, device: generation}))
        return generation


def find_tokens(folder: Folder, project: str, devices: Sequence[str]) -> tuple[DeviceToken, ...]:
    """The tokens of devices, whether they are members or not yet."""
    registry, key = read_registry(folder), find_device_key(folder.root)
    return tuple(make_token(key, project, device, registry.generation_of(device)) for device in devices)


def _write(folder: Folder, registry: Registry) -> None:
    """Replaces the file, and returns when it is on disk: a loss of power must not let a revoked token count again."""
    told = {"groups": {name: list(ids) for name, ids in sorted(registry.groups.items())}}
    told_in_full = told | {"generations": dict(sorted(registry.generations.items()))}
    file = folder.root / FILE
    unfinished = file.with_name(f".{FILE}.{os.getpid()}")
    with open_private(unfinished) as opened:
        opened.write(json.dumps(told_in_full, ensure_ascii=False).encode())
        opened.flush()
        os.fsync(opened.fileno())
    unfinished.replace(file)
    _sync(folder.root)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _changing(folder: Folder) -> Iterator[None]:
    """One process at a time: of two who change the registry, neither loses what the other did."""
    folder.prepare()
    lock = folder.root / LOCK
    lock.touch(0o600)
    with lock.open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
