"""How much processor time does `headrace plan` take, and how much of that are packages that it cannot do without?

Each command runs in a process of its own, in turn, so that a busy machine slows all of them down alike. The first round
compiles what is not compiled yet and does not count. Seconds are user and system time, of the process and its threads.

    python -m bench.start [--rounds 10]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

CITY = Path(__file__).parents[1] / "examples" / "city"
HEADRACE = [sys.executable, "-m", "headrace"]
COMMANDS = {
    "headrace plan": [*HEADRACE, "plan", str(CITY)],
    "headrace check": [*HEADRACE, "check", str(CITY)],
    "headrace --help": [*HEADRACE, "--help"],
    **{f"import {name}": [sys.executable, "-c", f"import {name}"] for name in ("sqlglot", "numpy", "typer._adapters")},
    "nothing": [sys.executable, "-c", ""],
}


def cpu_s(command: list[str]) -> float:
    """Raises if the command fails: what goes wrong quickly is no measurement."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    found: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(rounds + 1):
        for name, command in COMMANDS.items():
            found[name].append(cpu_s(command))
    least = {name: min(seconds[1:]) for name, seconds in found.items()}
    print(f"processor time of {rounds} runs, Python {sys.version.split()[0]}")
    print(f"{'command':24}  {'best s':>7}  {'median s':>8}  {'of plan':>7}")
    for name, seconds in found.items():
        share = least[name] / least["headrace plan"]
        print(f"{name:24}  {least[name]:7.3f}  {statistics.median(seconds[1:]):8.3f}  {share:7.0%}")


if __name__ == "__main__":
    main()
