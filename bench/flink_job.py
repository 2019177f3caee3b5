"""Runs SQL of a request as one Flink job, until its standard input ends. For a Python of its own that has apache-flink.

The request is a file of JSON: `settings` of Flink, `tables` that are created, `inserts` that are one job. Once it runs,
the job's number is written to the second file.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyflink.common import Configuration  # type: ignore[import-not-found]
from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found]


def main(request_file: Path, answer_file: Path) -> None:
    request = json.loads(request_file.read_text())
    configuration = Configuration()
    for name, value in request["settings"].items():
        configuration.set_string(name, value)
    settings = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    tables = TableEnvironment.create(settings)
    for statement in request["tables"]:
        tables.execute_sql(statement)
    statements = tables.create_statement_set()
    for statement in request["inserts"]:
        statements.add_insert_sql(statement)
    client = statements.execute().get_job_client()
    _write(answer_file, str(client.get_job_id()))
    sys.stdin.read()
    client.cancel().result()


def _write(file: Path, text: str) -> None:
    """As a whole: whoever waits for the file does not see a part of it."""
    unfinished = file.with_suffix(".part")
    unfinished.write_text(text)
    unfinished.replace(file)


main(Path(sys.argv[1]), Path(sys.argv[2]))
