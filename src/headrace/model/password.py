"""Hides the passwords of addresses, so that an address can be kept, compared and shown without its secret."""

from __future__ import annotations

import json
import re

HIDDEN = "***"
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
SECRET_PROPERTY = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)
"""Names of Spark's properties whose values are secrets; Spark itself hides these in its logs."""
ADDRESSES = ("dsn", "address")
"""Names under which documents keep addresses."""
_IN_URL = re.compile(r"(\w://[^\s:/@\"]*:)([^\s\"]+)(?=@)")
"""Up to the last `@` of a word: a password that is not escaped as it should be may hold that as well."""
_IN_QUERY = re.compile(r"(\b(?:ssl)?password=)([^&]+)", re.IGNORECASE)
_IN_WORDS = re.compile(r"(\b(?:ssl)?password\s*=\s*)('(?:\\.|[^'\\])*'?|(?:\\.|[^\s'])\S*)", re.IGNORECASE | re.DOTALL)


def hide_password(text: str) -> str:
    """The address with `***` for each password that is not a variable: of a URL, or of words such as `host=db`."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        return _IN_WORDS.sub(_hide, text)
    return scheme + separator + _IN_QUERY.sub(_hide, _hide_in_url(rest))


def hide_in_document(text: str) -> str:
    """A JSON document with the passwords of its addresses hidden, also in documents that it holds as texts.

    It is the same text if there are none, or if it is no JSON.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    hidden = _hide_in_value(found)
    return text if hidden == found else json.dumps(hidden, ensure_ascii=False)


def _hide_in_value(value: object, key: str = "") -> object:
    if isinstance(value, dict):
        return {name: _hide_in_value(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_hide_in_value(inner, key) for inner in value]
    if not isinstance(value, str):
        return value
    return hide_password(value) if key in ADDRESSES else hide_in_document(value) if value[:1] in ("{", "[") else value


def hide_in_log(text: str) -> str:
    """Lines of a log with the passwords of all addresses in them hidden; one that has no end ends with its line."""
    return "".join(_IN_WORDS.sub(_hide, _IN_URL.sub(_hide, line)) for line in text.splitlines(keepends=True))


def _hide_in_url(rest: str) -> str:
    """Rather too much is hidden than too little: a password that is not escaped as it should be may hold any sign."""
    user, password = _split_user(rest)
    if not password or VARIABLE.fullmatch(password):
        return rest
    return f"{user}:{HIDDEN}{rest[len(user) + 1 + len(password) :]}"


def _split_user(rest: str) -> tuple[str, str]:
    """User and password of a URL, up to its last `@`."""
    before = rest.partition("?")[0]
    user, _, password = (before if "@" in before else rest).rpartition("@")[0].partition(":")
    return user, password


def is_escaped(address: str) -> bool:
    """Whether PostgreSQL reads a URL as it is meant: a password with these signs is cut, and parts of it are taken for
    the name of a host, which errors repeat.
    """
    _, separator, rest = address.partition("://")
    return not separator or not set("".join(_split_user(rest))) & set("@/?#")


def _hide(found: re.Match[str]) -> str:
    return found[0] if VARIABLE.fullmatch(found[2].strip("'")) else found[1] + HIDDEN
