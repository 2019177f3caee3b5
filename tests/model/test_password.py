"""Passwords of addresses are hidden in documents and logs, and nothing else is."""

from __future__ import annotations

import json

import pytest

from headrace.model.password import hide_in_document, hide_in_log


def test_addresses_of_a_document_lose_their_passwords_and_other_texts_stay():
    inner = {"dsn": "host=db password='it s' user=u", "password_of": "postgres://nobody"}
    document = {"place": {"dsn": "postgresql://u:secret@db/x"}, "plan": json.dumps(inner), "text": "a:b@c", "n": [1]}
    hidden = json.loads(hide_in_document(json.dumps(document)))
    assert hidden["place"] == {"dsn": "postgresql://u:***@db/x"}
    assert json.loads(hidden["plan"]) == {**inner, "dsn": "host=db password=*** user=u"}
    assert (hidden["text"], hidden["n"]) == ("a:b@c", [1])


@pytest.mark.parametrize("text", ['{"dsn": "${US_DSN}",  "n": 1}', "no JSON: postgresql://u:p@h", '{"view": "x:y@z"}'])
def test_a_document_without_passwords_is_the_same_text(text: str):
    assert hide_in_document(text) == text


def test_lines_of_a_log_lose_passwords_and_keep_the_rest():
    log = "10:00 connects to postgresql://u:se%2Bcret@db:5432/x\n10:01 http://127.0.0.1:80/ host=db password=x port=1\n"
    assert hide_in_log(log) == (
        "10:00 connects to postgresql://u:***@db:5432/x\n10:01 http://127.0.0.1:80/ host=db password=*** port=1\n"
    )


def test_a_password_that_is_not_escaped_is_hidden_up_to_the_last_at_sign() -> None:
    assert hide_in_log("no postgres://u:p@ss@host/db here") == "no postgres://u:***@host/db here"
    assert hide_in_log("dsn=postgresql://u:a'b@host/db x") == "dsn=postgresql://u:***@host/db x"


def test_a_quote_that_is_not_closed_hides_one_line_only() -> None:
    assert hide_in_log("x password='abc\nline 2 it's fine\n") == "x password=***line 2 it's fine\n"


def test_documents_in_lists_are_looked_into() -> None:
    assert "secret" not in hide_in_document('{"a": "[{\\"dsn\\": \\"postgresql://u:secret@h/db\\"}]"}')
