"""Tokens of devices, for whoever owns a project's folder; nothing has to run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from headrace.app.project import load_project
from headrace.connect.mqtt.users import mosquitto_acl, refuse_id
from headrace.model.catalogue import Catalogue
from headrace.model.errors import UsageError
from headrace.site.devices.registry import find_tokens, read_registry, revoke_device
from headrace.site.devices.tokens import DeviceToken
from headrace.site.folder import Folder
from headrace.site.process import running_process

__all__ = ["DeviceToken", "SessionEnds", "list_device_tokens", "mosquitto_rights", "revoke_device_token"]


def list_device_tokens(directory: Path, devices: Sequence[str]) -> tuple[DeviceToken, ...]:
    """The tokens of some devices, or of all that are known. Any id has one, since its row may come later."""
    for device in devices:
        refused = refuse_id(device)
        if refused is not None:
            raise UsageError(f"this is no id of a device: {refused}")
    project, folder = _name_project(directory), Folder(directory)
    folder.prepare()
    return find_tokens(folder, project, devices or read_registry(folder).devices)


class SessionEnds(StrEnum):
    """What ends the session of a device whose token was revoked."""

    SERVICE = "service"
    NOBODY = "nobody"
    BROKER = "broker"


def revoke_device_token(directory: Path, device: str) -> tuple[DeviceToken, SessionEnds]:
    """The token that a device needs from now on, and who ends its session: a broker of somebody else's knows nothing
    of it until it is told.
    """
    project, folder = _read_project(directory), Folder(directory)
    revoke_device(folder, device)
    (token,) = find_tokens(folder, project.project, (device,))
    if any(one.broker is not None for one in project.devices.values()):
        return token, SessionEnds.BROKER
    return token, SessionEnds.NOBODY if running_process(folder) is None else SessionEnds.SERVICE


def mosquitto_rights(directory: Path, cloud: str) -> str:
    """What a Mosquitto of somebody else's needs to know, if `cloud` is our user there."""
    return mosquitto_acl(_name_project(directory), cloud)


def _name_project(directory: Path) -> str:
    return _read_project(directory).project


def _read_project(directory: Path) -> Catalogue:
    if not (directory / "headrace.yml").is_file():
        raise UsageError(f'there is no project in "{directory}"', "name its folder with --directory, or change to it")
    return load_project(directory, os.environ)
