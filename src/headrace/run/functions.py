"""Functions declared in Python, found again wherever work is done: values travel with their names, not with code.

Modules lie in the project's folder, or are installed. A process may read several projects, so modules of one name are
told apart by their folder.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module, invalidate_caches
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from headrace.model.catalogue import Catalogue
from headrace.model.errors import UsageError
from headrace.model.scalar import NOTHING, Surroundings

PROJECT_FILE = "headrace.yml"


class FunctionAt(NamedTuple):
    """`name` is `NAME@VERSION`, `target` is `module:function`; `folder` is the project's, where modules may lie."""

    name: str
    target: str
    folder: str = ""


Functions = tuple[FunctionAt, ...]


def functions_of(catalogue: Catalogue) -> Functions:
    folder = str(Path(catalogue.directory).absolute())
    return tuple(FunctionAt(f"{one.name}@{one.version}", one.target, folder) for one in catalogue.functions.values())


@cache
def surroundings_of(functions: Functions) -> Surroundings:
    """What expressions may call."""
    return Surroundings(python={one.name: _found(one) for one in functions}) if functions else NOTHING


def _found(function: FunctionAt) -> Callable[..., Any]:
    module, _, attribute = function.target.partition(":")
    try:
        found = getattr(_import(module, function.folder), attribute)
    except (ImportError, AttributeError) as error:
        name = function.name.partition("@")[0]
        raise UsageError(f'function "{name}" is not at "{function.target}": {error}') from error
    if not callable(found):
        raise UsageError(f'"{function.target}" is not a function')
    return found  # type: ignore[no-any-return]  # whatever it is, it can be called


def _import(module: str, folder: str) -> ModuleType:
    """Looks into the folder first, if it is there: on another machine modules are installed."""
    if not Path(folder, PROJECT_FILE).is_file():
        return import_module(module)
    if folder in sys.path:
        sys.path.remove(folder)
    sys.path.insert(0, folder)
    # Python would give what it has imported under this name before. Functions of other projects keep their modules.
    for name in [name for name, found in sys.modules.items() if _is_of_another_project(found, folder)]:
        del sys.modules[name]
    invalidate_caches()
    return import_module(module)


def _is_of_another_project(module: ModuleType, folder: str) -> bool:
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or file.startswith(folder + os.sep):
        return False
    depth = module.__name__.count(".") + (Path(file).name == "__init__.py")
    return (Path(file).parents[depth] / PROJECT_FILE).is_file()
