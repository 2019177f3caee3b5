"""Functions declared in Python, found again wherever work is done: values travel with their names, not with code.

Modules lie in the project's folder, or are installed. A process may read several projects, so modules of one name are
told apart by their folder.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import cache
from importlib import import_module, invalidate_caches
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from headrace.meaning.scalar import NOTHING, Surroundings
from headrace.model.catalogue import Catalogue
from headrace.model.errors import UsageError

PROJECT_FILE = "headrace.yml"

_turn = threading.Lock()
_loaded: dict[str, Functions] = {}
"""By folder, the functions that were looked for last."""


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
    if not functions:
        return NOTHING
    with _turn:  # items of several threads may ask for the first time at once
        for folder in sorted({one.folder for one in functions}):
            _look_in(folder, functions)
        return Surroundings(python={one.name: _find_function(one) for one in functions})


def _find_function(function: FunctionAt) -> Callable[..., Any]:
    module, _, attribute = function.target.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        name = function.name.partition("@")[0]
        raise UsageError(f'function "{name}" is not at "{function.target}": {error}') from error
    if not callable(found):
        raise UsageError(f'"{function.target}" is not a function')
    return found  # type: ignore[no-any-return]  # whatever it is, it can be called


def _look_in(folder: str, functions: Functions) -> None:
    """Makes Python look for modules in a project's folder first, from now on. On another machine they are installed
    instead.

    Python would give what it has imported under a name before: a module of another project, or of this one before its
    functions got another version. Functions that were found earlier keep their modules.
    """
    if not Path(folder, PROJECT_FILE).is_file():
        return
    if folder in sys.path:
        sys.path.remove(folder)
    sys.path.insert(0, folder)
    is_changed = _loaded.get(folder, functions) != functions
    for name, module in list(sys.modules.items()):
        root = _root_of(name, module)
        if root is not None and (is_changed if root == Path(folder) else (root / PROJECT_FILE).is_file()):
            del sys.modules[name]
    _loaded[folder] = functions
    invalidate_caches()


def _root_of(name: str, module: ModuleType) -> Path | None:
    """The folder that a module, or the package that it is part of, was found in."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str):
        return None
    depth, parents = name.count(".") + (Path(file).name == "__init__.py"), Path(file).parents
    return parents[depth] if depth < len(parents) else None
