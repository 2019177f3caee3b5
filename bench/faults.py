"""When the world changes under a running project, does it notice, say so, and end with the right rows?

Each fault gets a world of its own: a PostgreSQL with two databases, an application that writes, a project of four
contracts and a real service. The fault is provoked, `status` is watched, every view is compared with its query while
the fault lasts, the fault is undone, and all views are compared again once the project says that it is well.

    headrace bench faults [--only NAME ...] [--list] [--json] [--patience 12] [--heal 60] [--engine spark]
                          [--postgres FOLDER] [--keep FOLDER]

Ends with status 1 if rows were wrong while `status` said `kept`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import psycopg

from bench.faults_database import FAULTS as OF_DATABASES
from bench.faults_files import FAULTS as OF_FILES
from bench.faults_model import CannotTry, Comparison, Expected, Fault, Look, Outcome, find_seen
from bench.faults_processes import FAULTS as OF_PROCESSES
from bench.faults_tables import FAULTS as OF_TABLES
from bench.faults_values import FAULTS as OF_VALUES
from bench.faults_world import World, Writer, open_world
from headrace.doors.cli.output import table, wrap

FAULTS: tuple[Fault, ...] = (*OF_TABLES, *OF_VALUES, *OF_DATABASES, *OF_FILES, *OF_PROCESSES)
LOOK_EVERY_S = 0.2
STARTED_WITHIN_S = 60.0
LONGEST_WORD = 24


def main(arguments: Sequence[str] | None = None) -> None:
    options = _read_options(arguments)
    if options.list:
        print(*(line for one in options.only for line in wrap(one.sentence, f"{one.name:26} ")), sep="\n")
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left then either
    outcomes = []
    for one in options.only:
        print(f"{one.name}: {one.sentence}", file=sys.stderr, flush=True)
        outcomes.append(_try_fault(one, options))
        print(*_table(outcomes[-1:])[1:], sep="\n", file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps({"faults": [one.to_json() for one in outcomes]}, indent=2))
    else:
        print(*_table(outcomes), *_tell_wrong(outcomes), sep="\n")
    sys.exit(1 if any(one.wrong_while_kept for one in outcomes) else 0)


def _try_fault(one: Fault, options: argparse.Namespace) -> Outcome:
    part = one.part if options.engine is None or one.part.cluster else replace(one.part, engine=options.engine)
    try:
        with open_world(part, options.postgres) as world:
            answer = world.up()
            if answer.returncode != 0:
                refusal = (answer.stderr or answer.stdout).strip().splitlines()
                return Outcome(one, 0.0, f"`up`: {refusal[0] if refusal else 'it ended without a word'}")
            if not _wait_until_well(world, world.began, STARTED_WITHIN_S):
                return Outcome(one, not_tried=f"the project was not well before: {world.look(world.began).said}")
            try:
                return _watch_fault(one, world, options)
            finally:
                if options.keep is not None:
                    shutil.copytree(world.project, options.keep / one.name, dirs_exist_ok=True)
    except CannotTry as error:
        return Outcome(one, not_tried=str(error))
    except (psycopg.Error, OSError, subprocess.SubprocessError) as error:
        # One that cannot be provoked, or undone, says nothing about the others.
        return Outcome(one, not_tried=f"{type(error).__name__}: {str(error).splitlines()[0]}")


def _watch_fault(one: Fault, world: World, options: argparse.Namespace) -> Outcome:
    writer = Writer(world)
    writer.start()
    try:
        began, comparisons = time.time(), list[Comparison]()
        with one.happen(world):
            looks = _look_on(world, began, options.patience, one.expected)
            comparisons.append(world.compare(began))
        undone = time.time()
        looks += _look_on(world, began, 0.0, one.expected)
        healed = _wait_until_well(world, began, options.heal)
        healed_s = time.time() - undone if healed else None
    finally:
        writer.stop()
    # What was changed just now has ten seconds to be noticed.
    time.sleep(max(0.0, undone + options.patience - time.time()))
    if healed:
        _wait_until_well(world, began, options.heal)
    comparisons.append(world.compare(began))
    looks += tuple(look for pair in comparisons for look in (pair.before, pair.after))
    seen, all_kept = find_seen(looks), all(look.is_kept for look in looks)
    again = [event for event in world.happened(began) if event["kind"] == "read again"]
    said = (seen.said or "") if seen is not None else again[0]["text"] if again else ""
    also = one.also is None or one.also(world)
    seen_s = None if seen is None else seen.at_s
    return Outcome(one, seen_s, said, healed_s, tuple(comparisons), also, len(again), all_kept)


def _look_on(world: World, began: float, for_s: float, expected: Expected) -> tuple[Look, ...]:
    """Looks until what has to be noticed is, or for so long."""
    looks = [world.look(began)]
    until = time.monotonic() + for_s
    while (looks[-1].is_well or expected is Expected.UNTOUCHED) and time.monotonic() < until:
        time.sleep(LOOK_EVERY_S)
        looks.append(world.look(began))
    return tuple(looks)


def _wait_until_well(world: World, began: float, within_s: float) -> bool:
    until = time.monotonic() + within_s
    while not world.look(began).is_well:
        if time.monotonic() > until:
            return False
        time.sleep(LOOK_EVERY_S)
    return True


def _table(outcomes: Sequence[Outcome]) -> list[str]:
    head = ["fault", "seen after", "healed after", "rows equal", "said what"]
    return table([_row(one) for one in outcomes], 0, head)


def _row(one: Outcome) -> list[str]:
    if one.not_tried is not None:
        return [one.fault.name, "-", "-", "-", f"not tried: {one.not_tried}"]
    rows = f"{one.rows_equal}, WRONG" if one.wrong_while_kept else one.rows_equal
    said = one.said or ("read again" if one.read_again else "nothing")
    unlike = "" if one.is_as_expected else f" (expected: {one.fault.expected})"
    return [one.fault.name, _seconds(one.seen_s), _seconds(one.healed_s), rows, _shorten_words(said) + unlike]


def _shorten_words(text: str) -> str:
    """Paths and ids would leave the other columns no room; the document has them whole."""
    return " ".join(word if len(word) <= LONGEST_WORD else f"{word[:10]}...{word[-8:]}" for word in text.split())


def _seconds(found: float | None) -> str:
    return "never" if found is None else f"{found:.1f} s"


def _tell_wrong(outcomes: Sequence[Outcome]) -> list[str]:
    tried = [one for one in outcomes if one.not_tried is None]
    lines = [f"{sum(one.is_as_expected for one in tried)} of {len(tried)} faults ended as they should"]
    for one in outcomes:
        if one.wrong_while_kept:
            names = ", ".join(one.wrong_while_kept)
            lines.append(f"{one.fault.name}: rows of {names} were wrong while `status` said kept")
    return lines


def _read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="headrace bench faults", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these faults alone; `--list` names all")
    parser.add_argument("--list", action="store_true", help="says what the faults are, and tries none")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--patience", type=float, default=12.0, help="seconds in which a fault has to be noticed")
    parser.add_argument("--heal", type=float, default=60.0, help="seconds in which a project has to be well again")
    parser.add_argument("--engine", choices=("spark", "local"), help="instead of the one that a fault asks for")
    parser.add_argument("--postgres", type=Path, metavar="FOLDER", help="with the binaries of another PostgreSQL")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="copies each project with its logs there")
    options = parser.parse_args(arguments)
    known = {one.name: one for one in FAULTS}
    unknown = [name for name in options.only or () if name not in known]
    if unknown:
        parser.error(f'there is no fault "{unknown[0]}"; `--list` names all')
    options.only = tuple(known[name] for name in options.only) if options.only else FAULTS
    return options


if __name__ == "__main__":
    main()
