"""The engine that a project asks for: which masters, how little memory and which of Spark's properties it may write.

Some properties are set by Headrace because answers, promises or the safety of the machine rest on them. A project may
not write the former at all. The latter it may, and is told each time what that opens.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from headrace.declare.units import MEMORY, Unreadable, kind_of, read_amount
from headrace.model.password import SECRET_PROPERTY, VARIABLE

MASTER = "local[*]"
LEAST_MEMORY = 512e6
"""Spark does not start with less heap."""

REFUSED = {
    "spark.master": "write `engine: {master: ...}` instead",
    "spark.driver.memory": "write `engine: {memory: 4 GB}` instead",
    "spark.executor.memory": "write `engine: {memory: 4 GB}` instead",
    "spark.cores.max": "write `engine: {cores: 4}` instead",
    "spark.executor.cores": "write `engine: {cores: 4}` instead",
    "spark.app.name": "remove it: the service finds its Spark by this",
    "spark.executorEnv.PYTHONPATH": "remove it: workers have to import what the service runs",
    "spark.executorEnv.PYTHONSAFEPATH": "remove it: workers must not import from the current folder",
    "spark.local.dir": "remove it: Spark writes below .headrace/ only",
    "spark.sql.warehouse.dir": "remove it: Spark writes below .headrace/ only",
    "spark.scheduler.mode": "remove it: pushes must not wait for each other",
    "spark.sql.execution.arrow.pyspark.enabled": "remove it: rows travel as Arrow tables",
}
"""Properties that a project may not write, and what to do instead."""

REFUSED_BEGINNINGS = {
    "spark.headrace.": "write `engine: {cores: 4}` or `engine: {standing: 4}` instead",
    "spark.sql.ansi.": "remove it: answers of views depend on it",
    "spark.sql.legacy.": "remove it: answers of views depend on it",
    "spark.sql.session.": "remove it: answers of views depend on it",
}

EXPOSING = {
    "spark.ui.enabled": ("false", "Spark's pages show queries and settings to everybody who reaches their port"),
    "spark.driver.host": ("127.0.0.1", "Spark's driver can be reached from other machines"),
    "spark.driver.bindAddress": ("127.0.0.1", "Spark's driver can be reached from other machines"),
    "spark.authenticate": ("true", "Spark answers everybody who reaches its ports"),
}
"""Properties whose default is the safe one: the default, and what any other value does."""


OPEN_CLUSTER = "Spark on a cluster takes work from everybody who reaches its ports"
AUTHENTICATE_CLUSTER = (
    'start the cluster with spark.authenticate and a secret, and write `properties: {"spark.authenticate": true, '
    '"spark.authenticate.secret": "${SPARK_SECRET}"}`'
)


def read_master(written: object) -> str:
    """A Spark on this machine, or a standalone one."""
    text = written.strip() if isinstance(written, str) else ""
    if re.fullmatch(r"local(\[([1-9]\d*|\*)\])?", text) or re.fullmatch(r"spark://[^\s/]+:\d+", text):
        return text
    shown = f'"{written}"' if isinstance(written, str) else kind_of(written)
    raise Unreadable(f"{shown} is not a master", 'write "local[*]", "local[4]" or "spark://HOST:PORT"')


def read_memory(written: object) -> float:
    """Bytes of Java's heap."""
    found = read_amount(written, MEMORY)
    if found < LEAST_MEMORY:
        raise Unreadable(f'"{written}" is too little: Spark needs 512 MB', 'write a size such as "4 GB"')
    return found


def read_properties(written: object) -> dict[str, str]:
    if not isinstance(written, Mapping):
        raise Unreadable(f"{kind_of(written)} is not a mapping", 'write `{"spark.sql.shuffle.partitions": 4}`')
    return {str(name): _read_property(str(name), value) for name, value in written.items()}


def _read_property(name: str, written: object) -> str:
    if not name.startswith("spark."):
        raise Unreadable(f'"{name}" is not a Spark property', 'names of Spark properties begin with "spark."')
    beginnings = (hint for start, hint in REFUSED_BEGINNINGS.items() if name.startswith(start))
    hint = REFUSED.get(name) or next(beginnings, None)
    if hint is not None:
        raise Unreadable(f'"{name}" is set by Headrace', hint)
    if SECRET_PROPERTY.search(name) and not (isinstance(written, str) and VARIABLE.fullmatch(written)):
        raise Unreadable(f'"{name}" is a secret', 'keep it in the environment and write "${NAME}"')
    if isinstance(written, bool):
        return str(written).lower()
    if isinstance(written, str | int | float):
        return str(written)
    raise Unreadable(f'{kind_of(written)} is not a value of "{name}"', "write a text or a number")


def exposing(properties: Mapping[str, str]) -> dict[str, str]:
    """Finds, among some properties, those that are less safe than the default, and what they do."""
    return {name: EXPOSING[name][1] for name, value in properties.items() if value != EXPOSING.get(name, (value,))[0]}


def is_open_cluster(master: str, properties: Mapping[str, str]) -> bool:
    """Whether executors elsewhere take work from everybody: no secret that we make up reaches them."""
    return not master.startswith("local") and properties.get("spark.authenticate") != "true"
