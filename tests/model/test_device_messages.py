"""What devices and the cloud tell each other survives the way, and rubbish is refused with one kind of error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model import device_messages
from headrace.model.device_messages import (
    CLOUD,
    Document,
    Hello,
    Reported,
    Run,
    SendStream,
    Sent,
    StreamShape,
    Taken,
    TakeStream,
    Took,
    is_signed,
    quote_id,
    read_acks,
    read_document,
    read_hello,
    read_reported,
    read_sent,
    read_taken,
    read_token,
    read_took,
    read_topic,
    sign,
    split_table,
    unquote_id,
    up_topic,
    write_document,
    write_hello,
    write_reported,
    write_sent,
    write_taken,
    write_token,
    write_took,
)
from headrace.model.errors import WireError
from headrace.model.types import DOUBLE, STRING, Array

NAMES = st.text(min_size=1, max_size=20)
VALUES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.decimals(allow_nan=False)
)
ROWS = st.lists(VALUES, max_size=4).map(tuple)
COUNTS = st.integers(0, 2**60)
SENT = st.builds(Sent, COUNTS, st.integers(-(2**60), 2**60), st.lists(ROWS, max_size=3).map(tuple))
PAIRS = st.lists(NAMES, min_size=1, max_size=2).map(tuple)
READERS: list[Callable[[bytes], Any]] = [
    read_acks,
    read_document,
    read_hello,
    read_reported,
    read_sent,
    read_taken,
    read_took,
]
DOCUMENT = Document(
    plan=42,
    programs={"f1": "{}"},
    run=(Run("near", "f1", "a", ("23", "42"), True),),
    send=(SendStream("location", 10.0),),
    take=(TakeStream("location", "23", 10.0),),
    streams={"location": StreamShape((("lat", DOUBLE), ("tags", Array(STRING))), keep_s=604_800.0, priority=2)},
)


@given(st.text(min_size=1, max_size=50))
def test_any_name_is_one_level_of_a_topic(name: str):
    level = quote_id(name)
    assert not set(level) & set("/+#.*> $") and unquote_id(level) == name
    assert read_topic(up_topic("p", name, "s", name)).rest == ("s", name)


@given(st.lists(SENT, max_size=3).map(tuple))
def test_rows_of_a_stream_are_read_as_they_were_written(sent: tuple[Sent, ...]):
    assert read_sent(write_sent(sent)) == sent
    taken = tuple(Taken("17", "location", one) for one in sent)
    assert read_taken(write_taken(taken)) == taken


@given(st.lists(st.builds(Reported, COUNTS, COUNTS, PAIRS, st.sampled_from((1, -1)), COUNTS, ROWS)).map(tuple))
def test_results_are_read_as_they_were_written(reported: tuple[Reported, ...]):
    assert read_reported(write_reported(reported)) == reported


def test_answers_of_a_device_are_read_as_they_were_written():
    hello = Hello(3, ("location",), ("distance@1",), {"location": 0.41}, 5)
    assert read_hello(write_hello(hello)) == hello
    lossy = Hello(3, ("location",), dropped={"location": 7})
    assert read_hello(write_hello(lossy)) == lossy
    took = Took(3, {"near": "it has no function distance@1"})
    assert read_took(write_took(took)) == took and b"results" not in write_took(took)
    reported = Took(3, results={"near": 1_731_844_800_000})
    assert read_took(write_took(reported)) == reported


@given(NAMES)
def test_a_token_says_which_project_it_is_for(project: str):
    assert read_token(write_token("hrd_1_00ff", project)) == ("hrd_1_00ff", project)
    assert read_token("hrd_1_00ff") == ("hrd_1_00ff", None)


def test_a_document_is_read_as_it_was_written():
    assert read_document(write_document(DOCUMENT)) == DOCUMENT


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (b'"double"', b'"doubtful"'),
        (b'[["lat","double"],', b'[["lat"],'),
        (b"604800.0,2]", b"-1,2]"),
        (b'"buffer":20000000', b'"buffer":-1'),
    ],
)
def test_a_document_whose_streams_are_not_streams_is_refused(good: bytes, bad: bytes):
    body = write_document(DOCUMENT)
    assert good in body
    with pytest.raises(WireError):
        read_document(body.replace(good, bad))


def test_a_document_is_believed_only_with_the_token_it_was_signed_for():
    signed = read_document(write_document(sign(DOCUMENT, "token of 17")))
    assert is_signed(signed, "token of 17") and not is_signed(signed, "token of 18")
    altered = write_document(signed).replace(b'"23"', b'"24"')
    assert not is_signed(read_document(altered), "token of 17")
    assert not is_signed(read_document(write_document(DOCUMENT)), "")


@pytest.mark.parametrize("reader", READERS)
@given(st.binary(max_size=40) | st.recursive(VALUES | NAMES, st.lists).map(lambda one: repr(one).encode()))
def test_rubbish_is_refused(reader: Callable[[bytes], Any], body: bytes):
    try:
        reader(body)
    except WireError:
        return
    assert body.strip() in (b"[]", b"{}")


@pytest.mark.parametrize("reader", READERS)
def test_nesting_and_size_are_limited(reader: Callable[[bytes], Any]):
    for body in (b"[" * 100_000, b'"' + b"x" * 1_000_001 + b'"', b"[NaN]", b"\xff"):
        with pytest.raises(WireError):
            reader(body)


@given(st.lists(st.text(max_size=3), max_size=30), st.integers(1, 60))
def test_parts_of_a_table_are_small_and_have_all_its_rows_in_order(texts: list[str], size: int):
    rows = tuple((text,) for text in texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device_messages, "LARGEST_PART", size)  # of a few bytes
        parts = [one for body in split_table("offers", Sent(7, 8, rows)) for one in read_taken(body)]
    assert tuple(row for one in parts for row in one.sent.rows) == rows
    assert [(one.part, one.parts) for one in parts] == [(number, len(parts)) for number in range(len(parts))]
    assert all(len(one.sent.rows) == 1 or len(write_sent((one.sent,))) <= size + 10 for one in parts if rows)
    assert {(one.device, one.stream, one.sent.seq, one.sent.at_ms) for one in parts} == {(CLOUD, "offers", 7, 8)}


def test_a_table_that_is_too_large_for_devices_is_not_split():
    row = ("x" * 100_000,)
    assert len(split_table("offers", Sent(1, 0, (row,) * 99))) <= device_messages.MOST_PARTS
    for rows in ((row,) * 101, (("x" * 999_990,),)):
        with pytest.raises(WireError):
            split_table("offers", Sent(1, 0, rows))


@pytest.mark.parametrize(
    "text",
    ['["cloud","offers",1,0,[],1,1]', '["cloud","offers",1,0,[],0,101]', '["7","place",1,0,[],0,2]',
     '["cloud","offers",1,0,[],0]', '["cloud","offers",1,0,[],-1,2]'],
)  # fmt: skip
def test_a_part_that_cannot_be_is_refused(text: str):
    with pytest.raises(WireError):
        read_taken(f"[{text}]".encode())
