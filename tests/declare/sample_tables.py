"""The tables that examples of constructs read, as sources."""

from __future__ import annotations

from headrace.declare.constructs import CONSTRUCTS
from headrace.declare.constructs.construct import TABLES, Construct
from headrace.testing import make_source

SAMPLES = {name: make_source(name, columns) for name, columns in TABLES.items()}

ALL_CONSTRUCTS: list[Construct] = [one for section in CONSTRUCTS.values() for one in section]
