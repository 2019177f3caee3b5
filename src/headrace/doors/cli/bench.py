"""`headrace bench NAME`: runs a benchmark. Benchmarks are in `bench/` of a checkout."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Annotated

import typer

from headrace.doors.cli.output import Exit, wrap
from headrace.model.errors import UsageError, nearest_name


def bench(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Which benchmark; `list` shows all.")],
) -> int:
    """Run a benchmark. Options after NAME are its own (`headrace bench NAME --help`)."""
    checkout = Path(__file__).resolve().parents[4]
    known = {path.stem.replace("_", "-"): path for path in sorted((checkout / "bench").glob("*.py")) if _runs(path)}
    if not known:
        raise UsageError("benchmarks are not installed", "run this in a checkout: ./dev run headrace bench list")
    if name == "list":
        print("\n".join(line for found, path in known.items() for line in wrap(_question(path), f"{found:13} ")))
        return Exit.DONE
    if name not in known:
        raise UsageError(
            f'there is no benchmark "{name}"', nearest_name(name, known) or f"the benchmarks are {', '.join(known)}"
        )
    sys.path.insert(0, str(checkout))
    sys.argv = [f"headrace bench {name}", *context.args]
    runpy.run_module(f"bench.{known[name].stem}", run_name="__main__")
    return Exit.DONE


def _runs(path: Path) -> bool:
    """Whether a file is a benchmark, not a part of one."""
    return '__name__ == "__main__"' in path.read_text()


def _question(path: Path) -> str:
    """A benchmark begins with the question that it answers."""
    return path.read_text().split("\n\n", 1)[0].strip('"').replace("\n", " ")
