"""The parts that an open capture is made of, for the modules that decide about its tables."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.connect.postgres.intake import Intake
from headrace.connect.postgres.load import Loads
from headrace.connect.postgres.sessions import Connection
from headrace.connect.postgres.table_watch import TableWatch
from headrace.run.ports import Ledger


@dataclass(frozen=True, slots=True)
class CaptureParts:
    """`session` is the one that all statements go through which need no snapshot of their own for long."""

    session: Connection
    ledger: Ledger
    watch: TableWatch
    intake: Intake
    loads: Loads
