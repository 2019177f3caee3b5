"""The documentation of the HTTP interface as one page that loads nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 48rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
code, pre { font-family: ui-monospace, monospace; background: #f3f3f3; border-radius: 4px; padding: .1em .3em; }
h2 { font-size: 1rem; margin: 1.6rem 0 .2rem; } h2 b { display: inline-block; min-width: 3.5rem; color: #06603a; }
table { border-collapse: collapse; margin: .4rem 0; } td { padding: .1rem .8rem .1rem 0; vertical-align: top; }
"""


IN_SERVICE = "it is in <code>.headrace/service.json</code>"


def documentation_page(schema: Mapping[str, Any], where_token: str = IN_SERVICE) -> str:
    about = schema["info"]
    return "\n".join(
        [
            "<!doctype html><html lang='en'><meta charset='utf-8'>",
            f"<title>{escape(about['title'])}</title><style>{STYLE}</style>",
            f"<h1>{escape(about['title'])}</h1><p>{escape(about['description'])}</p>",
            f"<p>Send <code>Authorization: Bearer TOKEN</code>; {where_token}. "
            "For programs: <a href='/openapi.json'>openapi.json</a>.</p>",
            *_operations(schema),
            "</html>",
        ]
    )


def _operations(schema: Mapping[str, Any]) -> Iterator[str]:
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            yield f"<h2><b>{escape(method.upper())}</b> <code>{escape(path)}</code></h2>"
            yield f"<p>{escape(operation.get('summary', ''))}</p>"
            rows = [*_parameters(operation), *_body(schema, operation)]
            if rows:
                yield f"<table>{''.join(rows)}</table>"


def _parameters(operation: Mapping[str, Any]) -> Iterator[str]:
    for parameter in operation.get("parameters", ()):
        given = parameter["schema"]
        yield _row(parameter["name"], f"{parameter['in']}, {given.get('type', 'text')}", given.get("default"))


def _body(schema: Mapping[str, Any], operation: Mapping[str, Any]) -> Iterator[str]:
    for content in operation.get("requestBody", {}).get("content", {}).values():
        name = content["schema"].get("$ref", "").rpartition("/")[2]
        for field, given in schema["components"]["schemas"].get(name, {}).get("properties", {}).items():
            yield _row(field, f"body, {given.get('type', '')}", given.get("default"))


def _row(name: str, kind: str, default: object) -> str:
    given = "" if default is None else f"default {default}"
    return f"<tr><td><code>{escape(name)}</code></td><td>{escape(kind)}</td><td>{escape(given)}</td></tr>"
