"""`headrace sites`: sites that join from elsewhere, and those that are gone for good."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.doors.cli import output
from headrace.doors.cli.options import Directory, Json
from headrace.doors.cli.output import Exit

sites = typer.Typer(help="Sites: let them join from elsewhere, or forget them.", no_args_is_help=True)

SiteName = Annotated[str, typer.Argument(metavar="SITE", help="A site of the project.")]


@sites.callback()
def group() -> None:
    """What comes before the name of a command of the group."""


@sites.command()
def invite(site: SiteName, directory: Directory = Path(), json: Json = False) -> int:
    """Print the command with which a site joins: once, within 15 minutes."""
    from headrace.app.inviting import invite_site

    found = invite_site(directory, site)
    minutes = round((found.until - time.time()) / 60)
    document = {"site": site, "url": found.url, "token": found.token, "until": found.until, "command": found.command}
    return output.show(
        json,
        Exit.DONE,
        text=lambda: f"run this where the site is, within {minutes} minutes:\n\n{_break_command(found.command)}\n",
        document=lambda: document,
    )


def _break_command(command: str) -> str:
    """Lines that fit a terminal, and can be pasted into a shell as they are."""
    return "  " + command.replace(" --", " \\\n    --")


@sites.command("list")
def list_(directory: Directory = Path(), json: Json = False) -> int:
    """List the sites that run apart, where they are, and how."""
    from headrace.app.inviting import list_sites

    found = list_sites(directory)
    return output.show(
        json,
        Exit.DONE,
        text=lambda: "\n".join(map(_say_site, found)) or "all sites run in one process",
        document=lambda: {"sites": found},
    )


def _say_site(one: dict[str, Any]) -> str:
    where = "" if one["address"] is None else f"  {one['address']}"
    process = "" if one["pid"] is None else f"  process {one['pid']}"
    version = "" if one["version"] is None else f"  headrace {one['version']}"
    return f"{one['id']}  {one['state']}{where}{process}{version}"


@sites.command()
def forget(site: SiteName, directory: Directory = Path(), json: Json = False) -> int:
    """Plan without a site that is gone for good. Refused while the site answers."""
    from headrace.app.inviting import forget_site

    found = forget_site(directory, site)
    return output.show(
        json,
        Exit.DONE,
        text=lambda: f'site "{site}" is forgotten: the project is planned without it',
        document=lambda: {"site": site, "forgotten": True, **found},
    )
