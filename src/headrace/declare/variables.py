"""`${NAME}` in a project: taken from the environment when a connection is made, and never kept.

A catalogue holds texts as written; variables are filled in when a connection is made. A password in clear is warned of,
and hidden in the catalogue: it is read from the project's file again when a connection is made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath

from headrace.declare.document import Path, WrittenDocument
from headrace.model.errors import InputError, Location, Problem, Severity, UsageError
from headrace.model.password import HIDDEN, VARIABLE, hide_password

_SECRET_KEY = re.compile(r"(^|_)(password|passwd|secret|token|api_?key)$", re.IGNORECASE)


def variables_of(text: str) -> tuple[str, ...]:
    """Names of the variables that a text needs, in order."""
    return tuple(VARIABLE.findall(text))


def fill(text: str, environment: Mapping[str, str], where: Location | None = None) -> str:
    """The text with every `${NAME}` replaced. Raises InputError when one is not set. The result may hold a secret.

    A password that is hidden comes back if the environment is a `ProjectEnvironment`.
    """
    if HIDDEN in text:
        text = environment.get(text, text)
    if HIDDEN in text:
        message = f'the password of "{text}" is no longer in the project\'s file'
        raise InputError([Problem(message, where, "write the address again, with a variable for the password")])
    unset = [name for name in variables_of(text) if name not in environment]
    if unset:
        raise InputError(_unset_problem(name, where, Severity.ERROR) for name in unset)
    return VARIABLE.sub(lambda match: environment[match[1]], text)


class ProjectEnvironment(Mapping[str, str]):
    """Variables, and addresses of the project's file by their text with the password hidden.

    The file is read when such an address is asked for. One that was found is remembered: what a service made in a
    database is removed with the address that led there, even if that is no longer in the file.
    """

    def __init__(self, outside: Mapping[str, str], directory: FilePath) -> None:
        self._outside, self._directory = outside, directory
        self._addresses: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        if HIDDEN not in name:
            return self._outside[name]
        self._addresses = {**self._addresses, **_addresses_in(self._directory)}
        return self._addresses[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._outside)

    def __len__(self) -> int:
        return len(self._outside)


def _addresses_in(directory: FilePath) -> dict[str, str]:
    """Texts of a project's file that hold a password, by the same without it."""
    from headrace.declare.project_text import read_files  # with all that reads SQL: few have such addresses

    try:
        document = read_files(directory).document
    except UsageError:
        return {}
    texts = () if document is None else (text for _, text in _texts(document.value, ()))
    return {hidden: text for text in texts if (hidden := hide_password(text)) != text}


def project_environment(outside: Mapping[str, str], directory: FilePath) -> Mapping[str, str]:
    return outside if isinstance(outside, ProjectEnvironment) else ProjectEnvironment(outside, directory)


def unset_variables(document: WrittenDocument, environment: Mapping[str, str]) -> Iterator[Problem]:
    """A warning for each variable that is not set; commands that connect treat it as an error."""
    seen: set[str] = set()
    for path, text in _texts(document.value, ()):
        for name in variables_of(text):
            if name not in environment and name not in seen:
                seen.add(name)
                yield _unset_problem(name, document.value_at(path), Severity.WARNING)


def secrets_in_clear(document: WrittenDocument) -> Iterator[Problem]:
    """A warning for each password that is written into the project. The password itself is not repeated."""
    from headrace.declare.validate import describe

    for path, text in _texts(document.value, ()):
        key = str(path[-1])
        if hide_password(text) != text or (_SECRET_KEY.search(key) and text and not _is_variable(text)):
            message = f"{describe(path)} contains a secret in plain text"
            hint = 'keep it in the environment and write "${NAME}"'
            yield Problem(message, document.value_at(path), hint, Severity.WARNING)


def _is_variable(text: str) -> bool:
    return VARIABLE.fullmatch(text) is not None


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
