"""`headrace devices`: tokens with which devices sign in, and taking them back."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from headrace.doors.cli import output
from headrace.doors.cli.device_status import add_status_commands
from headrace.doors.cli.options import Json
from headrace.doors.cli.output import Exit

devices = typer.Typer(help="Devices: who they are, and what they run.", no_args_is_help=True)

ProjectFolder = Annotated[
    Path, typer.Option("--directory", metavar="DIR", help="The project's folder.", show_default="here")
]

add_status_commands(devices)


class BrokerKind(StrEnum):
    MOSQUITTO = "mosquitto"


@devices.callback()
def group() -> None:
    """What comes before the name of a command of the group."""


@devices.command()
def tokens(
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID...", help="Devices; all if left out.")] = None,
    directory: ProjectFolder = Path(),
    acl: Annotated[
        BrokerKind | None, typer.Option(help="Print the rights that a broker of this kind needs instead.")
    ] = None,
    cloud: Annotated[str, typer.Option(help="Our own user at that broker.")] = "headrace",
    json: Json = False,
) -> int:
    """Print what devices sign in with: their id, MQTT user and token."""
    from headrace.app.device_tokens import list_device_tokens, mosquitto_rights

    if acl is not None:
        rights = mosquitto_rights(directory, cloud)
        return output.show(json, Exit.DONE, text=lambda: rights.rstrip(), document=lambda: {"acl": rights})
    found = list_device_tokens(directory, ids or ())
    document = {
        "devices": [
            {
                "device": one.device,
                "user": one.user,
                "token": one.shown,
                "password": one.token,
                "generation": one.generation,
            }
            for one in found
        ]
    }
    lines = [f"{one.device}  {one.user}  {one.shown}" for one in found]
    nobody = "no devices are known before the project has run; name some: `headrace devices tokens ID`"
    return output.show(json, Exit.DONE, text=lambda: "\n".join(lines) or nobody, document=lambda: document)


@devices.command()
def revoke(
    id_: Annotated[str, typer.Argument(metavar="ID", help="A device.")],
    directory: ProjectFolder = Path(),
    json: Json = False,
) -> int:
    """Have a device's token count no more. Its session ends; it needs the new token, which is printed."""
    from headrace.app.device_tokens import SessionEnds, revoke_device_token

    token, ended_by = revoke_device_token(directory, id_)
    document = {"device": id_, "revoked": True, "generation": token.generation, "token": token.shown}
    ends = {
        SessionEnds.SERVICE: "its session ends within a second",
        SessionEnds.NOBODY: "no service runs, so it has no session",
        SessionEnds.BROKER: "the broker is not Headrace's: the old token still signs in there until you change "
        f'the password of its user "{token.user}" to the part of the new token before "@", and end its session. '
        "`headrace status` says so until the broker refuses it",
    }[ended_by]
    told = f'the token of device "{id_}" is revoked; {ends}\n{token.shown}'
    return output.show(json, Exit.DONE, text=lambda: told, document=lambda: document)
