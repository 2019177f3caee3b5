"""Hides the passwords of addresses, so that an address can be kept, compared and shown without its secret."""

from __future__ import annotations

import re

HIDDEN = "***"
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
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
    end = rest.find("?")
    if end < 0 or "@" not in rest[:end]:
        end = len(rest)
    who, at, where = rest[:end].rpartition("@")
    user, colon, password = who.partition(":")
    if not password or VARIABLE.fullmatch(password):
        return rest
    return f"{user}{colon}{HIDDEN}{at}{where}{rest[end:]}"


def _hide(found: re.Match[str]) -> str:
    return found[0] if VARIABLE.fullmatch(found[2].strip("'")) else found[1] + HIDDEN
