from __future__ import annotations

from pathlib import Path

import pytest

from headrace.declare.variables import ProjectEnvironment, fill, variables_of
from headrace.model.errors import InputError, Location, Severity
from headrace.model.password import hide_password
from tests.declare.projects import read, write_project

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


IN_CLEAR = [
    "postgresql://me:hunter2@host/db",
    "postgresql://me:hunter2@host/db?sslmode=require",
    "postgresql://host/db?user=me&password=hunter2",
    "postgresql://me:h@unter2@host/db",
    "postgresql://me:h/unter2@host/db",
    "postgresql://me:h?unter2@host/db",
    "host=h password=hunter2",
    "host=h password=h&unter2 user=me",
    "host=h password = 'hunter2'",
    "host=h password='h unter2' user=me",
    "host=h sslpassword=hunter2",
    "postgresql://me:hunter2${X}@host/db",
]


@pytest.mark.parametrize("address", IN_CLEAR)
def test_a_password_in_clear_is_warned_of_and_not_repeated(tmp_path: Path, address: str) -> None:
    text = f'sources: {{s: {{{TABLE}, postgres: {{dsn: "{address}", table: t}}}}}}'
    warnings = [problem for problem in read(tmp_path, text).problems if "secret" in problem.message]
    assert [problem.message for problem in warnings] == ['postgres.dsn of source "s" contains a secret in plain text']
    assert "unter2" not in str(warnings[0])


@pytest.mark.parametrize("address", IN_CLEAR)
def test_a_password_in_clear_is_not_in_the_catalogue_and_is_found_again_by_who_connects(
    tmp_path: Path, address: str
) -> None:
    text = f'sources: {{s: {{{TABLE}, postgres: {{dsn: "{address}", table: t}}}}}}'
    catalogue = read(tmp_path, text)
    assert "unter2" not in str(catalogue)
    origin = catalogue.sources["s"].origin
    assert origin is not None and origin.address is not None and "***" in origin.address
    environment = ProjectEnvironment({"X": ""}, tmp_path)
    assert fill(origin.address, environment) == address.replace("${X}", "")
    write_project(tmp_path, "project: p\n")
    assert fill(origin.address, environment) == address.replace("${X}", ""), "it is remembered"
    with pytest.raises(InputError, match="is no longer in the project's file"):
        fill(origin.address, ProjectEnvironment({}, tmp_path))


@pytest.mark.parametrize(
    "address",
    ["${DSN}", "postgresql://me:${PW}@host/db", "postgresql://me@host/db", "host=h password=${PW}", "http://[", ""],
)
def test_a_password_from_the_environment_is_not_warned_of(address: str) -> None:
    assert hide_password(address) == address
