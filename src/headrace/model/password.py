"""Hides the passwords of addresses, so that an address can be kept, compared and shown without its secret."""

from __future__ import annotations

import re

HIDDEN = "***"
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
SECRET_PROPERTY = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)
"""Names of Spark's properties whose values are secrets; Spark itself hides these in its logs."""
_IN_QUERY = re.compile(r"(\b(?:ssl)?password=)([^&]+)", re.IGNORECASE)
_IN_WORDS = re.compile(r"(\b(?:ssl)?password\s*=\s*)('(?:\\.|[^'\\])*'?|(?:\\.|[^\s'])\S*)", re.IGNORECASE | re.DOTALL)


def hide_password(text: str) -> str:
    """The address with `***` for each password that is not a variable: of a URL, or of words such as `host=db`."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        return _IN_WORDS.sub(_hide, text)
    return scheme + separator + _IN_QUERY.sub(_hide, _hide_in_url(rest))


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
