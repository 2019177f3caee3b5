"""`headrace feeds tokens`: which apps may use the feeds of a project, and tokens for their consumers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.doors.cli import output
from headrace.doors.cli.options import Directory, Json
from headrace.doors.cli.output import Exit, table
from headrace.model.errors import UsageError

if TYPE_CHECKING:
    from headrace.app.feed_tokens import FeedApp

tokens = typer.Typer(help="Tokens of apps and consumers.", no_args_is_help=True)
App = Annotated[str, typer.Argument(help="A name for whoever uses feeds.")]


@tokens.command()
def add(
    app: App,
    directory: Directory = Path(),
    feed: Annotated[list[str] | None, typer.Option(help="A feed that it may use; all if left out.")] = None,
    json: Json = False,
) -> int:
    """Add an app, and print its token. Only now: nobody can find it out later."""
    from headrace.app.feed_tokens import add_feed_app

    token = add_feed_app(directory, app, feed or ())
    document = {"app": app, "feeds": feed or None, "token": token}
    return output.show(json, Exit.DONE, text=lambda: token, document=lambda: document)


@tokens.command("list")
def list_(directory: Directory = Path(), json: Json = False) -> int:
    """List the apps that may use feeds."""
    from headrace.app.feed_tokens import list_feed_apps

    apps = list_feed_apps(directory)
    document = {"apps": [_tell(app) for app in apps]}
    return output.show(json, Exit.DONE, text=lambda: _list_text(apps), document=lambda: document)


@tokens.command()
def revoke(app: App, directory: Directory = Path(), json: Json = False) -> int:
    """Remove an app: its token, and all that it has minted, are refused from now on."""
    from headrace.app.feed_tokens import revoke_feed_app

    revoke_feed_app(directory, app)
    told = f'app "{app}" is revoked, with all tokens that it has minted'
    return output.show(json, Exit.DONE, text=lambda: told, document=lambda: {"app": app, "revoked": True})


@tokens.command()
def mint(
    feed: Annotated[str, typer.Argument(help="A feed.")],
    consumer: Annotated[str, typer.Argument(help="Whose feed.")],
    directory: Directory = Path(),
    app: Annotated[str, typer.Option("--app", help="The app that it counts for.")] = "",
    duration: Annotated[str, typer.Option("--for", help="How long it holds, at most 30 days.")] = "1 h",
    json: Json = False,
) -> int:
    """Print a token with which a consumer reads its own feed, and nothing else."""
    from headrace.app.feed_tokens import mint_feed_token, read_duration

    if not app:
        raise UsageError("a token is minted for an app", "--app NAME; `headrace feeds tokens list` shows all apps")
    minted = mint_feed_token(directory, app, feed, consumer, read_duration(duration))
    return output.show(json, Exit.DONE, text=lambda: str(minted["token"]), document=lambda: minted)


def _list_text(apps: tuple[FeedApp, ...]) -> str:
    if not apps:
        return "no app may use feeds; `headrace feeds tokens add NAME` adds one"
    rows = [(app.name, ", ".join(app.feeds) if app.feeds is not None else "all feeds", _day(app)) for app in apps]
    return "\n".join(table(rows))


def _tell(app: FeedApp) -> dict[str, Any]:
    return {"app": app.name, "feeds": app.feeds, "added": app.added}


def _day(app: FeedApp) -> str:
    return time.strftime("added %Y-%m-%d", time.gmtime(app.added))
