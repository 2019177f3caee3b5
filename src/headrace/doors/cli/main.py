"""The `headrace` command: its sub-commands, and what holds for all of them.

Every command takes `--json` and ends with 0 done, 1 the answer is no, 2 wrong use or input, 70 our own fault. A user's
mistake has no traceback; our own has one. Commands import what they need when they run, so that `--help` is quick.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Annotated, NoReturn

import typer

from headrace.doors.cli.extras import explain_missing, need_extras
from headrace.doors.cli.output import Exit, show_errors
from headrace.model.errors import ConnectError, InputError, Problem, UsageError

COMMANDS = (
    "init",
    "check",
    "plan",
    "up",
    "down",
    "apply",
    "status",
    "show",
    "changes",
    "events",
    "audit",
    "doctor",
    "why",
    "whatif",
    "check-plan",
    "convert",
    "demo",
    "place",
    "feeds",
    "devices",
    "device",
    "agent",
    "sites",
    "sources",
    "bench",
)
"""In the order of `--help`. Each is a function, or a group of commands, of that name in a module of that name."""

PASSED_ON: dict[str, dict[str, object]] = {
    "bench": {"allow_extra_args": True, "allow_interspersed_args": False},
    "device": {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
}
"""Commands that read some of their words themselves: what follows the name of a benchmark is for the benchmark."""

RUN_THEMSELVES = frozenset({"agent", "demo", "up"})
"""Commands whose process runs a project."""
RUN_A_SERVICE = frozenset({"agent", "up"})
"""Commands that have ended in order all that they started when they are done."""
STAY = ("up", "agent", "demo", "bench", "audit", "changes", "events", "device")
"""Commands that may run for long, or read much."""

NO_PLUGINS = {"PYDANTIC_DISABLE_PLUGINS": "1"}
"""Pydantic looks through everything that is installed for plug-ins, which we have none of, unless this is set."""
NO_THREADS = {"OPENBLAS_NUM_THREADS": "1"}
"""NumPy reads this when it is imported: short commands have no matrices, and need no threads for them."""

COLLECT_AFTER = 200_000
"""Objects that are made before Python looks for garbage among them, some 20 MB. Python's own limit of 700 makes it look
through everything that was imported again and again, for a tenth of the time of `plan`. A process that runs a project
goes back to Python's limit once it runs.
"""


def print_version(wanted: bool) -> None:
    if wanted:
        import headrace

        typer.echo(f"headrace {headrace.__version__}")
        raise typer.Exit


def headrace(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """What comes before the name of a command."""


def make_commands(names: Sequence[str] = COMMANDS) -> typer.Typer:
    """The command line with some of its commands."""
    made = typer.Typer(
        name="headrace",
        help="Declare SQL views, where you need them and how fresh; Headrace keeps them that fresh at the lowest cost.",
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        callback=headrace,
    )
    for name in names:
        word = name.replace("-", "_")
        command = getattr(import_module(f"headrace.doors.cli.{word}"), word)
        if isinstance(command, typer.Typer):
            made.add_typer(command, name=name)
        else:
            made.command(name, context_settings=PASSED_ON.get(name))(command)
    return made


def main() -> None:
    arguments = sys.argv[1:]
    wanted = _command_in(arguments)
    if wanted in STAY and wanted not in RUN_THEMSELVES:
        sys.exit(run(arguments))
    for name, value in (NO_PLUGINS if wanted in STAY else NO_PLUGINS | NO_THREADS).items():
        os.environ.setdefault(name, value)
    gc.set_threshold(COLLECT_AFTER)
    status = run(arguments)
    if wanted in RUN_A_SERVICE:
        _end_at_once(status)
    if wanted in STAY:
        sys.exit(status)
    gc.freeze()  # the process ends: Python would look through everything once more
    sys.exit(status)


def _end_at_once(status: int) -> NoReturn:
    """Python would take most of a second to free all that a project needed, while others wait for its next process."""
    import logging

    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # nobody reads it any more
            stream.flush()
    os._exit(status)


def run(arguments: Sequence[str], commands: typer.Typer | None = None) -> int:
    """One command, from its words to its exit status."""
    as_json, wanted = "--json" in arguments, _command_in(arguments)
    try:
        if "--help" not in arguments:
            need_extras(wanted)
            _need_memory(wanted)
        # Only the command that is asked for is imported: people wait for it. A word that is none of them needs all,
        # to be told which there are.
        commands = commands or make_commands([wanted] if wanted in COMMANDS else COMMANDS)
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


def _need_memory(command: str) -> None:
    """Looks before a command that runs a project is imported: even that may fail without a word."""
    if command in RUN_THEMSELVES:
        from headrace.app.limits import need_address_space

        need_address_space(command)


def _command_in(arguments: Sequence[str]) -> str:
    return next((word for word in arguments if not word.startswith("-")), "")


def _misuse(error: typer.TyperException, arguments: Sequence[str]) -> Problem:
    """Typer's complaint in our words: lower case, no full stop, what to do."""
    message = error.format_message().replace("'", '"').rstrip(".")
    command = _command_in(arguments)
    hint = f"headrace {f'{command} ' if command in COMMANDS else ''}--help"
    return Problem(message[:1].lower() + message[1:], None, hint)


def _confess(as_json: bool, error: Exception) -> None:
    traceback.print_exception(error)
    print("this is a bug in headrace, not in your project; the lines above say where", file=sys.stderr)
    if as_json:
        message = f"this is a bug in headrace: {type(error).__name__}: {error}"
        show_errors(as_json, [Problem(message, None, "the traceback is on stderr")])
