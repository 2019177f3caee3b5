"""Errors of Spark in words: what a query met, and the expression that met it, in one line.

"[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to ... SQLSTATE: 22012"  ->  100 / (uid - 25): division by zero
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from headrace.model.errors import EvaluationError
from headrace.model.full_query import SOURCE_PREFIX

LONGEST_EXPRESSION = 100
"""Characters of an expression that are shown."""
WRAPPERS = ("TASK_WRITE_FAILED", "FAILED_EXECUTE_UDF")
"""Errors that only say in which part of the work something else failed."""


NAMED = re.compile(r"\[[A-Z0-9_.]+\]\s+(.+)")
"""How Spark begins what it says of errors of a query."""


@contextmanager
def errors_in_words() -> Iterator[None]:
    """Whatever a query meets is an EvaluationError. What is not the query's fault, as a dead Java, stays as it is."""
    try:
        yield
    except PySparkException as error:
        raise EvaluationError(say_error(error)) from error
    except Py4JJavaError as error:
        # Errors of subqueries come wrapped in an error of the thread that waited for them, which pyspark does not know.
        message = _find_named_message(error)
        if message is None:
            raise
        raise EvaluationError(_say_what(message)) from error


def _find_named_message(error: Py4JJavaError) -> str | None:
    cause, found = error.java_exception, None
    while cause is not None:
        message = cause.getMessage()
        found = message if message and NAMED.search(message) else found
        cause = cause.getCause()
    return found


def say_error(error: BaseException) -> str:
    """The innermost error that Spark names: its first sentence. What else it says is how to change Spark's settings."""
    found = _find_innermost(error)
    what, expression = _say_what(str(found)), _find_expression(found)
    return what if expression is None else f"{expression}: {what}"


def _find_innermost(error: BaseException) -> BaseException:
    found, cause = error, error.__cause__
    while cause is not None:
        if not any(f"[{name}" in str(cause) for name in WRAPPERS):
            found = cause
        cause = cause.__cause__
    return found


def _say_what(message: str) -> str:
    """The message without the name of the error, which may come after the name of a job that it broke off."""
    line = message.strip().partition("\n")[0]
    named = NAMED.search(line)
    plain = re.sub(r" SQLSTATE: \w+$", "", named[1] if named else line)
    sentence = re.split(r"\.\s", plain, maxsplit=1)[0].removesuffix(".")
    return sentence[:1].lower() + sentence[1:] if sentence[1:2].islower() else sentence


def _find_expression(error: BaseException) -> str | None:
    """The expression as it is written in the query, on one line; sources by the names that they have in the project."""
    contexts = error.getQueryContext() if isinstance(error, PySparkException) else []
    text = " ".join(contexts[0].fragment().split()) if contexts else ""
    plain = re.sub(rf"`{SOURCE_PREFIX}([^`]*)`", r"\1", text)
    shown = plain if len(plain) <= LONGEST_EXPRESSION else f"{plain[:LONGEST_EXPRESSION]}..."
    return shown or None
