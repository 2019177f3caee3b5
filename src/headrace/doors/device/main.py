"""`headrace device`: rows as JSON lines on stdin, results as JSON lines on stdout, what people should know on stderr.

    {"stream": "location", "row": {"lat": 39.9, "lng": 116.4}, "at": 1731844800000}         "at" may be left out
    {"view": "nearby", "pair": ["17", "23"], "op": "insert", "row": {"metres": 71.2}, "at": 1731844800123}

A line that is no row is refused alone. At the end of stdin the command waits until the cloud has everything, and ends;
with --stay it goes on with the rows of others. It imports nothing that only the cloud needs: it starts at once, and
fits a small machine.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import IO, Any, NoReturn

from headrace.model.errors import ConnectError, UsageError, WireError

TOKEN = "HEADRACE_DEVICE_TOKEN"
DONE, WRONG_USE, INTERRUPTED = 0, 2, 130
NOT_SENT = 1
SENT_WITHIN_S = 30.0
LONGEST_LINE = 1_000_000


def main(arguments: Sequence[str] | None = None) -> int:
    """One device, until stdin ends or somebody ends it; the exit status."""
    words = sys.argv[1:] if arguments is None else arguments
    as_json = "--json" in words
    try:
        return _run(_read_arguments(words))
    except SystemExit as end:  # --help was shown
        return int(end.code or DONE)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "paho":
            raise
        _say('this needs the package "paho-mqtt", which is not installed', "pip install 'headrace[device]'", as_json)
    except (UsageError, ConnectError) as error:
        _say(error.message, error.hint, as_json)
    except KeyboardInterrupt:
        return INTERRUPTED
    return WRONG_USE


def _run(wishes: argparse.Namespace) -> int:
    from headrace_device import Device, DeviceResult

    def show(result: DeviceResult) -> None:
        _write_line(json.dumps(result.as_json(), ensure_ascii=False))

    device = Device(
        wishes.id,
        wishes.broker,
        wishes.token or os.environ.get(TOKEN, ""),
        state=wishes.state,
        functions=_find_functions(wishes.function),
        ca_file=wishes.ca,
        without_tls=wishes.without_tls,
        tell=lambda text: _warn(text, wishes.json),
        on_failure=_raise_failures(),
    )
    try:
        device.on_result(show)
        _read_rows(sys.stdin.buffer, device.publish, lambda text: _warn(text, wishes.json))
        if wishes.stay:
            signal.pause()
        return DONE if device.wait_sent(SENT_WITHIN_S) else _say_unsent()
    finally:
        device.close()


def _raise_failures() -> Callable[[ConnectError], None]:
    """Call what this returns in any thread to raise an error in this one, whether it waits for stdin or just waits."""
    failures: list[ConnectError] = []
    here = threading.get_ident()

    def fail(number: int, frame: object) -> None:
        raise failures[0]

    def wake(error: ConnectError) -> None:
        failures.append(error)
        signal.pthread_kill(here, signal.SIGUSR1)

    signal.signal(signal.SIGUSR1, fail)
    return wake


def _read_rows(lines: IO[bytes], publish: Callable[..., None], warn: Callable[[str], None]) -> None:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            publish(*_read_line(line))
        except WireError as error:
            warn(f"line {number} is refused: {error}")


def _read_line(line: bytes) -> tuple[str, Any, int | None]:
    example = '{"stream": "location", "row": {"lat": 39.9, "lng": 116.4}}'
    if len(line) > LONGEST_LINE:
        raise WireError(f"it has {len(line):,} bytes; {LONGEST_LINE:,} are read")
    try:
        told = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise WireError(f"it is not JSON ({error}); a row is written {example}") from error
    if not isinstance(told, dict) or not isinstance(told.get("stream"), str) or not isinstance(told.get("row"), dict):
        raise WireError(f"a row is written {example}")
    at = told.get("at")
    if at is not None and (not isinstance(at, int) or isinstance(at, bool) or abs(at) >= 1 << 53):
        raise WireError('"at" is a whole number of milliseconds since 1970')
    unknown = sorted(told.keys() - {"stream", "row", "at"})
    if unknown:
        raise WireError(f'"{unknown[0]}" is not known; a row is written {example}')
    return told["stream"], told["row"], at


def _find_functions(given: Sequence[str]) -> dict[str, Callable[..., Any]]:
    """`NAME@VERSION=module:function`, each an installed one."""
    found = {}
    for one in given:
        name, is_, target = one.partition("=")
        module, colon, attribute = target.partition(":")
        if not (is_ and colon and "@" in name and attribute):
            raise UsageError(f'"{one}" names no function', "such as --function near@1=mycode.places:near")
        try:
            found[name] = getattr(import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise UsageError(f'function "{name}" is not at "{target}": {error}') from error
    return found


# Words


class _Parser(argparse.ArgumentParser):
    """Says what is wrong as all of our commands do."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, "headrace device --help")


def _read_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(
        prog="headrace device",
        description="Run a device: rows as JSON lines on stdin, results as JSON lines on stdout.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--id", required=True, help="Its id, as in the table of devices.")
    add("--broker", required=True, metavar="URL", help="mqtt://HOST:PORT[/PROJECT], or mqtts:// for TLS.")
    add("--token", help=f"As `headrace devices tokens` shows it; better given as {TOKEN}, which others cannot see.")
    add("--state", metavar="DIR", help="A folder for this device alone; by default one in ~/.local/state.")
    add("--ca", metavar="FILE", help="Certificates to trust, in PEM; by default the system's.")
    add("--without-tls", action="store_true", help="Send the token in the clear beyond this machine.")
    add("--function", action="append", default=[], metavar="NAME@N=MODULE:NAME",
        help="A Python function that views may call.")  # fmt: skip
    add("--stay", action="store_true", help="Go on when stdin has ended.")
    add("--json", action="store_true", help="Write what people should know as JSON lines, too.")
    return parser.parse_args(list(arguments))


def _say(message: str, hint: str | None, as_json: bool) -> None:
    if as_json:
        told = {"message": message, "file": None, "line": None, "column": None, "hint": hint}
        _write_line(json.dumps({"errors": [told]}))
        return
    print(f"error: {message}" + (f"\n  hint: {hint}" if hint else ""), file=sys.stderr, flush=True)


def _warn(text: str, as_json: bool) -> None:
    print(json.dumps({"warning": text}) if as_json else f"warning: {text}", file=sys.stderr, flush=True)


def _say_unsent() -> int:
    _warn(f"not all rows were sent within {SENT_WITHIN_S:.0f} s; they are sent when the device is started again", False)
    return NOT_SENT


def _write_line(text: str) -> None:
    """Whoever read stdout may have gone: that is no reason for a device to end."""
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123


def run(arguments: Sequence[str] | None = None) -> NoReturn:
    """The command `headrace-device`, and `headrace device`. Told to end (SIGTERM), it says that the device is gone."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(DONE))
    sys.exit(main(arguments))


if __name__ == "__main__":
    run()
