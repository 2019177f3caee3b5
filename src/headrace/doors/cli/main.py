"""The `headrace` command: its sub-commands, and what holds for all of them.

Every command takes `--json` and ends with 0 done, 1 the answer is no, 2 wrong use or input, 70 our own fault. A user's
mistake has no traceback; our own has one. Commands import what they need when they run, so that `--help` is quick.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from headrace.doors.cli import (
    apply,
    audit,
    bench,
    changes,
    check,
    check_plan,
    demo,
    doctor,
    down,
    events,
    feeds,
    init,
    place,
    plan,
    show,
    sources,
    status,
    up,
    whatif,
    why,
)
from headrace.doors.cli.extras import explain_missing, need_extras
from headrace.doors.cli.output import Exit, show_errors
from headrace.model.errors import ConnectError, InputError, Problem, UsageError

cli = typer.Typer(
    name="headrace",
    help="Declare SQL views, where you need them and how fresh; Headrace keeps them that fresh at the lowest cost.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
cli.command()(init.init)
cli.command()(check.check)
cli.command()(plan.plan)
cli.command()(up.up)
cli.command()(down.down)
cli.command()(apply.apply)
cli.command()(status.status)
cli.command()(show.show)
cli.command()(changes.changes)
cli.command()(events.events)
cli.command()(audit.audit)
cli.command()(doctor.doctor)
cli.command()(why.why)
cli.command()(whatif.whatif)
cli.command("check-plan")(check_plan.check_plan)
cli.command()(demo.demo)
cli.command()(place.place)
cli.add_typer(feeds.feeds, name="feeds")
cli.add_typer(sources.sources, name="sources")
cli.command(context_settings={"allow_extra_args": True, "allow_interspersed_args": False})(bench.bench)


def print_version(wanted: bool) -> None:
    if wanted:
        import headrace

        typer.echo(f"headrace {headrace.__version__}")
        raise typer.Exit


@cli.callback()
def headrace(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """What comes before the name of a command."""


def main() -> None:
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str], commands: typer.Typer = cli) -> int:
    """One command, from its words to its exit status."""
    as_json = "--json" in arguments
    try:
        if "--help" not in arguments:
            need_extras(_command_in(arguments))
        status = commands(list(arguments) or ["--help"], standalone_mode=False)
        return status if isinstance(status, int) else Exit.DONE
    except InputError as error:
        show_errors(as_json, error.problems)
    except (UsageError, ConnectError) as error:
        show_errors(as_json, [Problem(error.message, None, error.hint)])
    except typer.TyperException as error:
        show_errors(as_json, [_misuse(error, arguments)])
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except Exception as error:
        missing = explain_missing(error) if isinstance(error, ModuleNotFoundError) else None
        if missing is None:
            _confess(as_json, error)
            return Exit.OUR_FAULT
        show_errors(as_json, [missing])
    return Exit.WRONG_USE


def _command_in(arguments: Sequence[str]) -> str:
    return next((word for word in arguments if not word.startswith("-")), "")


def _misuse(error: typer.TyperException, arguments: Sequence[str]) -> Problem:
    """Typer's complaint in our words: lower case, no full stop, what to do."""
    message = error.format_message().replace("'", '"').rstrip(".")
    command = _command_in(arguments)
    known = command in {registered.name or registered.callback.__name__ for registered in cli.registered_commands}  # type: ignore[union-attr]
    return Problem(message[:1].lower() + message[1:], None, f"headrace {f'{command} ' if known else ''}--help")


def _confess(as_json: bool, error: Exception) -> None:
    traceback.print_exception(error)
    print("this is a bug in headrace, not in your project; the lines above say where", file=sys.stderr)
    if as_json:
        message = f"this is a bug in headrace: {type(error).__name__}: {error}"
        show_errors(as_json, [Problem(message, None, "the traceback is on stderr")])
