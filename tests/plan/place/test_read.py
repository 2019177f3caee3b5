"""Mistakes in a JSON instance: one clear message each, at their place."""

from __future__ import annotations

import pytest

from headrace.model.errors import InputError
from headrace.plan.place.instance import Dag, PlacementMode, Single
from headrace.plan.place.read import read_instance

PAIR = '{"kind": "single", "pairs": [["a", "b", 1, 2]]'
GRAPH = '{"kind": "dag", "sources": {"s": "d"}, "ops": [{"id": "o", "inputs": [["s", 1]]'


def mistakes(text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        read_instance(text, "f.json")
    return [f"{problem.message} at {problem.where}" for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("", "the file is empty at f.json:1:1"),
        ("{", "not JSON: expecting property name enclosed in double quotes at f.json:1:2"),
        (
            '{"kind": "single", "pairs": [["a", "b", ' + "9" * 5000 + ", 2]]}",
            "a number has more digits than can be read",
        ),
        ("[" * 100_000, "not JSON that can be read: nested too deeply"),
        ("[]", 'a placement instance has the kind "single" or "dag" at f.json:1:1'),
        ('{"kind": "other"}', 'a placement instance has the kind "single" or "dag", not "other" at f.json:1:10'),
        ('{"kind": "single"}', '"pairs" is missing at f.json:1:1'),
        (
            '{"kind": "single", "pairs": [["a", "b", 1]]}',
            "a pair is [i, j, rate of i, rate of j, optional id, optional load]",
        ),
        (
            '{"kind": "single",\n "pairs": [["a", "b", -1, 2]]}',
            'the rate of "a" must not be negative, but is -1 at f.json:2:23',
        ),
        ('{"kind": "single", "pairs": [["a", "b", NaN, 2]]}', 'the rate of "a" must be finite, not NaN'),
        ('{"kind": "single", "pairs": [["a", "b", 1, Infinity]]}', 'the rate of "b" must be finite, not Infinity'),
        (
            '{"kind": "single", "pairs": [["a", "b", 1e999999999, 2]]}',
            'the rate of "a" must be 0 or between 1e-150 and 1e150',
        ),
        ('{"kind": "single", "pairs": [["a", "b", 1' + "0" * 200 + ", 2]]}", "must be 0 or between 1e-150 and 1e150"),
        ('{"kind": "single", "pairs": [["a", "b", "1", 2]]}', 'the rate of "a" must be a number, not "1"'),
        ('{"kind": "single", "pairs": [["a", "b", true, 2]]}', 'the rate of "a" must be a number, not true'),
        ('{"kind": "single", "pairs": [["a", "a", 1, 2]]}', 'device "a" is paired with itself at f.json:1:30'),
        (
            '{"kind": "single", "pairs": [["a", "cloud", 1, 2]]}',
            '"cloud" is reserved and cannot name a device at f.json:1:36',
        ),
        ('{"kind": "single", "pairs": [["a", "b", 1, 2, "v"], ["a", "c", 1, 2, "v"]]}', 'view id "v" is given twice'),
        (PAIR + ', "devices": {"c": {"cu": 1}}}', 'device "c" is unknown'),
        (PAIR + ', "devices": {"a": {"capacity": -1}}}', "capacity must not be negative, but is -1"),
        (PAIR + ', "cu": -1}', "cu must not be negative, but is -1"),
        (PAIR + ', "prices": 1}', 'the instance has an unknown field "prices"'),
        (PAIR + ', "cu": 1, "cu": 2}', '"cu" is written twice at f.json:1:58'),
        (
            PAIR + ', "core": {"links": [["n", "m", 1]], "attach": {"a": "n"}}}',
            'device "b" is not attached to a core node',
        ),
        (
            PAIR + ', "core": {"links": [["n", "m", 1], ["m", "n", 1]], "attach": {"a": "n", "b": "m"}}}',
            "the core is not a tree",
        ),
        (PAIR + ', "core": {"links": [["n", "m", 1]], "attach": {"a": "n", "b": "x"}}}', 'core node "x" is in no link'),
        (
            PAIR + ', "core": {"links": [["a", "m", 1]], "attach": {"a": "m", "b": "m"}}}',
            '"a" names both a device and a core node',
        ),
        (
            PAIR + ', "core": {"links": [["cloud", "m", 1]], "attach": {"a": "m", "b": "m"}}}',
            '"cloud" is reserved and cannot name a core node',
        ),
        (GRAPH + '}, {"id": "o", "inputs": []}]}', 'id "o" is given twice'),
        (GRAPH + '}, {"id": "s", "inputs": []}]}', 'id "s" is given twice'),
        (GRAPH + '}, {"id": "p", "inputs": [["x", 1]]}]}', 'stream "x" is unknown'),
        (GRAPH + ', "allowed": ["e"]}]}', 'device "e" is unknown'),
        (GRAPH + ', "pin": "e"}]}', 'device "e" is unknown'),
        (GRAPH + ', "allowed": [], "pin": "d"}]}', 'operator "o" is pinned to device "d", where it is not allowed'),
        (GRAPH + '}], "mode": "near"}', 'mode is "near"'),
        (GRAPH + '}], "share": {"s": "most"}}', 'share is "most", not "sum" or "max"'),
        (GRAPH + '}], "share": {"x": "sum"}}', 'stream "x" is unknown'),
        (
            '{"kind": "dag", "sources": {}, '
            '"ops": [{"id": "o", "inputs": [["p", 1]]}, {"id": "p", "inputs": [["o", 1]]}]}',
            "operators read each other in a circle",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, mistake: str):
    assert any(mistake in found for found in mistakes(text)), mistakes(text)


def test_all_mistakes_are_reported_at_once():
    text = '{"kind": "single", "pairs": [["a", "a", 1, 2], ["b", "c", -1, -1]], "devices": {"z": {}}}'
    assert len(mistakes(text)) == 4


def test_many_mistakes_are_counted_rather_than_listed():
    found = mistakes('{"kind": "single", "pairs": [' + ", ".join(['["a", "a", 1, 1]'] * 100) + "]}")
    assert len(found) == 21
    assert found[-1].startswith("and 80 more")


def test_views_without_an_id_are_named_after_their_pair_and_counted():
    text = (
        '{"kind": "single", "pairs": [["a","b",1,2], ["a","b",1,2], ["b","a",1,2], ["a","b",1,2,"x"], ["a","b",1,2]]}'
    )
    instance = read_instance(text, "f.json")
    assert isinstance(instance, Single)
    assert [view.id for view in instance.views] == ["a|b", "a|b#2", "b|a", "x", "a|b#3"]


def test_devices_override_only_what_they_say():
    text = PAIR + ', "cu": 3, "cd": 0.5, "devices": {"a": {"cd": 2}, "b": {"capacity": 1}}}'
    instance = read_instance(text, "f.json")
    assert isinstance(instance, Single)
    assert (instance.devices["a"].up, instance.devices["a"].down, instance.devices["a"].capacity) == (3, 2, None)
    assert instance.devices["b"].down * 2 == 1


def test_a_graph_keeps_pins_allowed_devices_and_streams_that_are_not_shared():
    text = GRAPH + ', "load": 2, "allowed": ["d"], "pin": "d"}], "share": {"s": "sum"}, "mode": "any"}'
    instance = read_instance(text, "f.json")
    assert isinstance(instance, Dag)
    assert instance.mode is PlacementMode.ANY
    assert instance.sums == {"s"}
    assert (instance.operators[0].load, instance.operators[0].allowed, instance.operators[0].pin) == (2, ("d",), "d")
