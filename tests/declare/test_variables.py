from __future__ import annotations

from pathlib import Path

import pytest

from headrace.declare.variables import fill, holds_secret, variables_of
from headrace.model.errors import InputError, Location, Severity
from tests.declare.projects import read

TABLE = "columns: {id: int}, kind: table, at: us"


def test_variables_are_filled_in_when_asked_for() -> None:
    assert variables_of("host=${H} password=${P}") == ("H", "P")
    assert fill("host=${H} password=${P}", {"H": "db", "P": "$x ${H}"}) == "host=db password=$x ${H}"
    assert fill("no variables, $HOME stays", {}) == "no variables, $HOME stays"


def test_a_variable_that_is_not_set_is_an_error_for_who_connects() -> None:
    with pytest.raises(InputError) as caught:
        fill("${A}${B}", {"B": ""}, Location("headrace.yml", 3))
    assert [problem.message for problem in caught.value.problems] == ['variable "A" is not set']


def test_a_variable_that_is_not_set_is_a_warning_while_reading(tmp_path: Path) -> None:
    text = f'sources: {{s: {{{TABLE}, postgres: {{dsn: "${{DSN}}", table: t}}}}}}'
    problems = read(tmp_path, text).problems
    assert [(problem.severity, problem.message) for problem in problems] == [
        (Severity.WARNING, 'variable "DSN" is not set')
    ]


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:hunter2@host/db",
        "postgresql://host/db?user=me&password=hunter2",
        "host=h password=hunter2",
        "host=h password = 'hunter2'",
        "host=h sslpassword=hunter2",
        "postgresql://me:hunter2${X}@host/db",
    ],
)
def test_a_password_in_clear_is_warned_of_and_not_repeated(tmp_path: Path, address: str) -> None:
    text = f'sources: {{s: {{{TABLE}, postgres: {{dsn: "{address}", table: t}}}}}}'
    warnings = [problem for problem in read(tmp_path, text).problems if "secret" in problem.message]
    assert [problem.message for problem in warnings] == ['postgres.dsn of source "s" contains a secret in plain text']
    assert "hunter2" not in str(warnings[0])


@pytest.mark.parametrize(
    "address",
    ["${DSN}", "postgresql://me:${PW}@host/db", "postgresql://me@host/db", "host=h password=${PW}", "http://[", ""],
)
def test_a_password_from_the_environment_is_not_warned_of(address: str) -> None:
    assert not holds_secret(address)
