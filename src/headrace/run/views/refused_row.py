"""Says which row a copy refuses: by the keys of the sources' rows that it is made of, where the view holds enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.model.bad_row import BadRow, names_by_alias
from headrace.model.errors import RefusedRow
from headrace.model.expr import Column, Expr, columns_of
from headrace.model.relation import Output
from headrace.model.types import Value
from headrace.run.ports import Ledger, Store
from headrace.run.program import Pass, Program
from headrace.run.push.locate import say_where


def say_refused_row(
    refused: RefusedRow, log: str, outputs: Sequence[Output], program: Program, ledger: Ledger, store: Store
) -> str:
    """The view is read from a log, as `outputs` of it."""
    computed = _compute_of_vertex(program, log, outputs)
    known = {expr.name: refused.row[name] for name, expr in computed.items() if isinstance(expr, Column)}
    chosen = _choose_columns(known, computed.get(refused.column or ""))
    row: Mapping[str, Value] = known if chosen else refused.row
    return say_where(BadRow(refused.message, None, row, chosen or tuple(row)), program, ledger, store)


def _compute_of_vertex(program: Program, log: str, outputs: Sequence[Output]) -> Mapping[str, Expr]:
    """The view's columns over what its vertex holds, also where they are computed before anybody reads them."""
    task = program.tasks.get(log)
    if log in program.answers.values() and task is not None and isinstance(task.step, Pass):
        return task.step.inputs[0].values
    return {output.name: output.expr for output in outputs}


def _choose_columns(known: Mapping[str, Value], refused: Expr | None) -> tuple[str, ...]:
    """Those of the same rows of sources as the refused value; of all, if it is the whole row that is refused."""
    if refused is None:
        return tuple(known)
    aliases = names_by_alias(columns_of(refused))
    return tuple(name for alias, names in names_by_alias(known).items() if alias in aliases for name in names)
