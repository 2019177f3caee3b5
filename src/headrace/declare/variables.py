"""`${NAME}` in a project: taken from the environment when a connection is made, and never kept.

A catalogue holds texts as written; variables are filled in when a connection is made. A password in clear is warned of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from headrace.declare.document import Document, Path
from headrace.declare.validate import describe
from headrace.model.errors import InputError, Location, Problem, Severity

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SECRET_KEY = re.compile(r"(^|_)(password|passwd|secret|token|api_?key)$", re.IGNORECASE)
_SECRET_PAIR = re.compile(r"\b(?:ssl)?password\s*=\s*('[^']*'|[^\s&]+)", re.IGNORECASE)


def variables_of(text: str) -> tuple[str, ...]:
    """Names of the variables that a text needs, in order."""
    return tuple(_VARIABLE.findall(text))


def fill(text: str, environment: Mapping[str, str], where: Location | None = None) -> str:
    """The text with every `${NAME}` replaced. Raises InputError when one is not set. The result may hold a secret."""
    unset = [name for name in variables_of(text) if name not in environment]
    if unset:
        raise InputError(_unset_problem(name, where, Severity.ERROR) for name in unset)
    return _VARIABLE.sub(lambda match: environment[match[1]], text)


def unset_variables(document: Document, environment: Mapping[str, str]) -> Iterator[Problem]:
    """A warning for each variable that is not set; commands that connect treat it as an error."""
    seen: set[str] = set()
    for path, text in _texts(document.value, ()):
        for name in variables_of(text):
            if name not in environment and name not in seen:
                seen.add(name)
                yield _unset_problem(name, document.value_at(path), Severity.WARNING)


def secrets_in_clear(document: Document) -> Iterator[Problem]:
    """A warning for each password that is written into the project. The password itself is not repeated."""
    for path, text in _texts(document.value, ()):
        key = str(path[-1])
        if holds_secret(text) or (_SECRET_KEY.search(key) and text and not _is_variable(text)):
            message = f"{describe(path)} contains a secret in plain text"
            hint = 'keep it in the environment and write "${NAME}"'
            yield Problem(message, document.value_at(path), hint, Severity.WARNING)


def holds_secret(text: str) -> bool:
    """Whether a connection string has a password in it that is not a variable."""
    pair = _SECRET_PAIR.search(text)
    if pair and not _is_variable(pair[1].strip("'")):
        return True
    try:
        password = urlsplit(text).password if "://" in text else None
    except ValueError:
        return False
    return bool(password) and not _is_variable(str(password))


def _is_variable(text: str) -> bool:
    return _VARIABLE.fullmatch(text) is not None


def _texts(value: object, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str) and path:
        yield path, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _texts(inner, (*path, name))
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from _texts(inner, (*path, position))


def _unset_problem(name: str, where: Location | None, severity: Severity) -> Problem:
    hint = f"export {name}=..." if severity is Severity.ERROR else f"export {name}=... before a command that connects"
    return Problem(f'variable "{name}" is not set', where, hint, severity)
