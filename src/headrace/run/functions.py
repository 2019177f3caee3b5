"""Functions declared in Python, found again wherever work is done: values travel with their names, not with code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from headrace.model.catalogue import Catalogue
from headrace.model.errors import UsageError
from headrace.model.scalar import NOTHING, Surroundings

Functions = tuple[tuple[str, str], ...]
"""`NAME@VERSION` and `module:function` of each; modules lie in the project's folder or are installed."""


def functions_of(catalogue: Catalogue) -> Functions:
    return tuple((f"{one.name}@{one.version}", one.target) for one in catalogue.functions.values())


@cache
def surroundings_of(functions: Functions, folder: str | None = None) -> Surroundings:
    """What expressions may call. `folder` is where modules are looked for first."""
    if not functions:
        return NOTHING
    if folder is not None and folder not in sys.path:
        sys.path.insert(0, folder)
    return Surroundings(python={name: _found(name, target) for name, target in functions})


def _found(name: str, target: str) -> Callable[..., Any]:
    module, _, attribute = target.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError(f'function "{name.partition("@")[0]}" is not at "{target}": {error}') from error
    if not callable(found):
        raise UsageError(f'"{target}" is not a function')
    return found  # type: ignore[no-any-return]  # whatever it is, it can be called
