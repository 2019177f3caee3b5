"""`headrace place FILE`: where each small view runs, on a device or in the cloud."""

from __future__ import annotations

import json as json_text
import sys
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.doors.cli.options import Json
from headrace.doors.cli.output import Exit, count, fit, wrap, write
from headrace.doors.cli.progress import progress
from headrace.model.errors import UsageError

if TYPE_CHECKING:
    from headrace.app.placing import PlacedInstance, PlacedTable

SHOWN_VIEWS = 20
MOST_DIGITS = 30


def place(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A JSON instance, or a Parquet or CSV table of pairs.")],
    up: Annotated[
        str | None, typer.Option("--up", help="Price of sending to the cloud, per unit of rate (tables).")
    ] = None,
    down: Annotated[str | None, typer.Option("--down", help="Price of sending from the cloud (tables).")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write the table with an added column `at`.")] = None,
    engine: Annotated[str, typer.Option("--engine", help="numpy, or spark for tables of any size.")] = "numpy",
    master: Annotated[str, typer.Option("--master", help="Where Spark runs.")] = "local[2]",
    why: Annotated[
        str | None, typer.Option("--why", help="Explain one view, by its id or its two devices: anna,bob.")
    ] = None,
    per: Annotated[str, typer.Option("--per", help="Time unit of the rates, for --why: h, s, day.")] = "",
    json: Json = False,
) -> int:
    """Decide where each view runs, so that the fewest messages are sent."""
    from headrace.app import placing

    if engine not in tuple(placing.PlacementEngine):
        raise UsageError(f'no engine "{engine}"', hint=f"one of: {', '.join(placing.PlacementEngine)}")
    if not placing.is_table(file):
        if (up, down, out, engine) != (None, None, None, "numpy"):
            raise UsageError(
                "--up, --down, --out and --engine spark work only with tables",
                hint="a JSON instance contains its own prices",
            )
        placed = placing.place_instance(file, why, per)
        return _show(json, lambda: instance_text(placed), lambda: instance_document(placed))
    request = placing.TableRequest(file, _price(up, "--up"), _price(down, "--down"), out, why, per)
    if engine == placing.PlacementEngine.SPARK:
        if why is not None:
            raise UsageError("--why works only with the numpy engine")
        table = placing.place_table_on_spark(request, master, progress())
    else:
        table = placing.place_table(request, progress())
    return _show(json, lambda: table_text(table, out), lambda: table_document(table))


def _price(text: str | None, option: str) -> Fraction:
    try:
        price = Decimal(text or "1")
    except InvalidOperation:
        price = Decimal("NaN")
    if (
        not price.is_finite()
        or price < 0
        or (price and abs(price.adjusted()) > MOST_DIGITS)
        or len(text or "") > MOST_DIGITS
    ):
        raise UsageError(f'{option} is "{text}"', hint=f"a number of 0 or more, like {option} 0.5")
    return Fraction(price)


def _show(as_json: bool, text: Callable[[], str], document: Callable[[], object]) -> int:
    # One line: an indented placement of a million views takes longer to write than to decide.
    whole = json_text.dumps(document(), ensure_ascii=False, allow_nan=False) if as_json else fit(text())
    return Exit.DONE if write(whole, sys.stdout) else Exit.BROKEN_PIPE


def instance_document(placed: PlacedInstance) -> dict[str, object]:
    from headrace.app.placing import outcome_document

    document = {**outcome_document(placed.decision, placed.seconds), "placement": dict(placed.decision.placement)}
    return {**document, "why": placed.why.document} if placed.why else document


def table_document(placed: PlacedTable) -> dict[str, object]:
    from headrace.app.placing import outcome_document

    document = outcome_document(placed.outcome, placed.seconds)
    document |= {"devices": placed.devices, "pairs": placed.pairs}
    return {**document, "why": placed.why.document} if placed.why else document


def instance_text(placed: PlacedInstance) -> str:
    placement = placed.decision.placement
    lines = wrap(f"{count(len(placement), 'view')} placed", "")
    lines += _outcome_lines(instance_document(placed))
    if placed.why:
        return "\n".join([*lines, placed.why.text])
    lines += [f"  {view}  {at}" for view, at in list(placement.items())[:SHOWN_VIEWS]]
    if len(placement) > SHOWN_VIEWS:
        lines.append(f"  and {len(placement) - SHOWN_VIEWS:,} more: --json prints all")
    return "\n".join(lines)


def table_text(placed: PlacedTable, out: Path | None) -> str:
    lines = [f"{placed.pairs:,} views of {placed.devices:,} devices: {placed.on_devices:,} run on a device"]
    lines += _outcome_lines(table_document(placed))
    if out is not None:
        lines.append(f"written to {out}")
    return "\n".join([*lines, *([placed.why.text] if placed.why else [])])


def _outcome_lines(document: dict[str, object]) -> list[str]:
    better = document["improvement"]
    factor = f", {better:,.2f} times as much" if isinstance(better, float) else ""
    proven = "the least possible" if document["optimal"] else f"at least {_number(document['lower_bound'])} is needed"
    return [
        *wrap(f"cost {_number(document['cost'])}: {proven}", ""),
        *wrap(f"all in the cloud: {_number(document['all_cloud_cost'])}{factor}", ""),
        *wrap(f"by {document['method']}, in {document['seconds']:.3f} s", ""),
    ]


def _number(amount: object) -> str:
    return f"{amount:,.10g}" if isinstance(amount, int | float) else str(amount)
