"""What the HTTP interface answers to requests that are wrong, too large or about things that do not exist."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.running.running_project import RunningProject


def ask(project: RunningProject, path: str, body: object = None, method: str | None = None) -> tuple[int, Any]:
    """The status of an answer, and its JSON or text."""
    process = project.process()
    headers = {"Authorization": f"Bearer {process['token']}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    address = f"http://127.0.0.1:{process['port']}{path}"
    request = urllib.request.Request(address, data, headers, method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


FUTURE = "9" * 30
UNKNOWN = ("/views/nothing", "/views/nothing/changes", "/why/nothing", "/events?contract=nothing", "/nothing")
MISREAD = (
    *("/views/counts?limit=-1", f"/views/counts?limit={FUTURE}", "/views/counts?limit=1000001", "/views/counts?limit="),
    *(f"/views/counts/changes?from={FUTURE}", "/views/counts/changes?from=soon", "/views/counts/changes?from=1e300 s"),
    *("/views/counts/changes?from=-1", "/views/counts/changes?from=%00"),
    *(f"/events?after={FUTURE}", "/events?after=-1", "/events?limit=0", "/events?limit=10001"),
    *("/events?all=yes", "/events?all=1", "/events?all=on", "/events?all="),
    f"/views/counts?where={'1' * 20_000}",
)
WRONG_WISHES: tuple[object, ...] = (
    *({"replan": "yes"}, {"replan": 1}, {"dry_run": "true"}, {"force": "counts"}, {"froce": []}),
    *([], "x"),
)


def test_requests_that_are_wrong_are_answered_with_what_is_wrong(project: RunningProject) -> None:
    project.declare("counts")
    project.up()
    for path in UNKNOWN:
        status, answer = ask(project, path)
        assert (status, answer["errors"][0]["message"] != "") == (404, True), path
    for path in MISREAD:
        status, answer = ask(project, path.replace(" ", "%20"))
        assert (status, answer["errors"][0]["message"] != "") == (422, True), path
    for wishes in WRONG_WISHES:
        assert ask(project, "/apply", wishes)[0] == 422, wishes
    assert ask(project, "/sources/nothing/reread", {})[0] == 404
    assert ask(project, "/apply", {"force": ["nothing"], "dry_run": True})[0] == 404
    assert ask(project, "/status", method="DELETE")[0] == 405
    assert ask(project, "/events?all=true&limit=1")[0] == ask(project, "/events?all=false&contract=counts")[0] == 200
    assert ask(project, "/views/counts?limit=1000000")[0] == ask(project, "/views/counts/changes?from=1%20ms")[0] == 200
    schema = json.loads(ask(project, "/openapi.json")[1])
    (scheme,) = schema["components"]["securitySchemes"].values()
    assert scheme == {"type": "http", "scheme": "bearer", "description": scheme["description"]}
    routes = [(path, one) for path, methods in schema["paths"].items() for one in methods.values()]
    assert [path for path, one in routes if "security" not in one] == ["/healthz"]
    assert "Traceback" not in (project.folder / ".headrace" / "service.log").read_text()


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("schemathesis") is None, reason="schemathesis is not installed")
def test_every_answer_is_one_that_the_interface_describes(project: RunningProject, tmp_path: Path) -> None:
    """Thousands of requests made from OpenAPI: none breaks the service or is answered as nobody said."""
    project.declare("counts")
    project.up()
    process = project.process()
    command = [str(Path(sys.executable).with_name("schemathesis")), "run"]
    command += [
        f"http://127.0.0.1:{process['port']}/openapi.json",
        "--header",
        f"Authorization: Bearer {process['token']}",
    ]
    command += ["--exclude-path", "/down", "--max-examples", "100", "--seed", "1", "--suppress-health-check", "all"]
    # Conditions are SQL, and times are times: OpenAPI cannot say which texts are right.
    command += ["--exclude-checks", "positive_data_acceptance"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout[-6000:]
    assert ask(project, "/healthz")[0] == 200
