"""PostgreSQL's operators and functions of JSON, and of arrays, in words of our own functions.

JSON is held as text. Its parts are cut out as they are written, so that they are what PostgreSQL shows: a column of
type jsonb is captured in the form that PostgreSQL writes it in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.postgres_nodes import (
    ConvertCall,
    TypeOf,
    constant_text,
    make_call,
    make_cast,
    make_number,
    make_text,
    mark,
    refuse_call,
    take,
)
from headrace.declare.query.postgres_origins import JSON_TYPES, find_origin_type
from headrace.declare.query.postgres_patterns import (
    count_groups,
    refuse_absent_group,
    refuse_ambiguous,
    translate_regex,
)
from headrace.model.types import DATE, INTEGERS, INTERVALS, NULL, STRING, Array, Decimal, Type

_WRITTEN_ALIKE: tuple[Type, ...] = (STRING, DATE, *INTEGERS)


# JSON


def _take_part(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """`->`: by name or by place."""
    key = node.expression
    return make_call("json_item" if type_of(key) in INTEGERS else "json_field", node.this, key)


def _take_text(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return make_call("json_text", _take_part(node, type_of))


def _follow(whole: exp.Expr, steps: list[exp.Expr]) -> exp.Expr:
    for step in steps:
        whole = make_call("json_step", whole, step)
    return whole


def read_path(node: exp.Expr) -> list[exp.Expr]:
    """`'{a,b,0}'` or `ARRAY['a', 'b']`."""
    if isinstance(node, exp.Array):
        return list(node.expressions)
    written = constant_text(
        node.this if isinstance(node, exp.Cast) else node, "expression: #> with a path that changes"
    )
    if re.fullmatch(r"\{[^\"\\\\{}]*\}", written) is None:
        raise NotMaintained(f"expression: #> with the path '{written}'", "write the path like '{a,b,0}'")
    return [make_text(step.strip()) for step in written[1:-1].split(",") if step.strip()]


def _take_path(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return _follow(node.this, read_path(node.expression))


def _take_path_text(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return make_call("json_text", _take_path(node, type_of))


def _extract_path(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    return _follow(arguments[0], arguments[1:])


def _extract_path_text(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    return make_call("json_text", _extract_path(arguments, type_of))


def flatten_array(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """An array of arrays as one of all its elements, which most of PostgreSQL's functions take it for."""
    type_, made = type_of(node), node
    while isinstance(type_, Array) and isinstance(type_.element, Array):
        type_, made = type_.element, make_call("flatten", made)
    return made


def _count_elements(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    (array,) = take("cardinality", arguments, 1)
    return make_call("size", flatten_array(array, type_of))


def _contain(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """`@>` of JSON, or of arrays; NULL is an element of none."""
    whole, part = flatten_array(node.this, type_of), flatten_array(node.expression, type_of)
    if not isinstance(type_of(node.this), Array):
        return make_call("json_contains", whole, part)
    missing = make_call("array_except", part, make_call("array_compact", whole))
    return mark(exp.EQ(this=make_call("size", missing), expression=make_number(0)))


def _be_contained(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return _contain(exp.ArrayContainsAll(this=node.expression, expression=node.this), type_of)


def _overlap(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    left, right = flatten_array(node.this, type_of), flatten_array(node.expression, type_of)
    both = make_call("array_intersect", make_call("array_compact", left), right)
    return mark(exp.GT(this=make_call("size", both), expression=make_number(0)))


def _have(word: str) -> Callable[[Any, TypeOf], exp.Expr]:
    """`?|` and `?&` of a list of names."""

    def convert(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
        names = node.expression
        if not isinstance(names, exp.Array):
            raise NotMaintained(f"expression: {word} with names that change", f"write {word} ARRAY['a', 'b']")
        tests = [make_call("json_has", node.this.copy(), name) for name in names.expressions]
        joined = exp.or_(*tests, copy=False) if word == "?|" else exp.and_(*tests, copy=False)
        return mark(exp.Paren(this=joined))

    return convert


# Arrays


def _length(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    if len(arguments) != 2 or arguments[1].name not in ("1", "2"):
        raise NotMaintained("function: array_length of a dimension", "name the dimension: array_length(x, 1)")
    if arguments[1].name == "2":
        type_ = type_of(arguments[0])
        if not isinstance(type_, Array) or not isinstance(type_.element, Array):
            return make_cast(exp.Null(), "INT")
        return make_call("nullif", make_call("size", make_call("get", arguments[0], make_number(0))), make_number(0))
    return make_call("nullif", make_call("size", arguments[0]), make_number(0))


def _join_elements(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    type_ = type_of(arguments[0])
    element = type_.element if isinstance(type_, Array) else STRING
    while isinstance(element, Array):
        element = element.element
    if element not in _WRITTEN_ALIKE and not isinstance(element, Decimal):
        raise NotMaintained(f"function: array_to_string of {element}", "make the elements text first")
    return make_call("array_join", flatten_array(arguments[0], type_of), *arguments[1:])


def _find_place(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    found = make_call("array_position", *take("array_position", arguments, 2))
    return make_cast(make_call("nullif", found, make_number(0)), "INT")


_ELEMENT = "element_of_array"
"""A name that no column should have."""


def _find_places(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    """All places of an element, which may be NULL."""
    array, wanted = take("array_positions", arguments, 2)
    _check_element("array_positions", array, wanted, type_of)
    place = exp.column(exp.to_identifier(_ELEMENT))
    element = make_call("get", array.copy(), mark(exp.Sub(this=place, expression=make_number(1))))
    test = mark(exp.NullSafeEQ(this=element, expression=mark(exp.Paren(this=wanted))))
    places = make_call("sequence", make_number(1), make_call("size", array))
    found = make_call("filter", places, exp.Lambda(this=test, expressions=[place.this.copy()]))
    size = make_call("size", array.copy())
    has_some = exp.If(this=mark(exp.GT(this=size, expression=make_number(0))), true=found)
    is_empty = mark(exp.EQ(this=size.copy(), expression=make_number(0)))
    nothing = make_cast(make_call("array"), "ARRAY<INT>")
    return mark(exp.Case(ifs=[has_some, exp.If(this=is_empty, true=nothing)]))


def _replace_elements(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    array, wanted, other = take("array_replace", arguments, 3)
    for value in (wanted, other):
        _check_element("array_replace", array, value, type_of)
    element = exp.column(exp.to_identifier(_ELEMENT))
    is_wanted = mark(exp.NullSafeEQ(this=element, expression=mark(exp.Paren(this=wanted))))
    body = mark(exp.Case(ifs=[exp.If(this=is_wanted, true=other)], default=element.copy()))
    return make_call("transform", array, exp.Lambda(this=body, expressions=[element.this.copy()]))


def _check_element(name: str, array: exp.Expr, value: exp.Expr, type_of: TypeOf) -> None:
    """Refuses a value of another type, which PostgreSQL would convert, or the elements to its own."""
    type_, given = type_of(array), type_of(value)
    element = type_.element if isinstance(type_, Array) else NULL
    is_alike = given in (element, NULL) or {given, element} <= set(INTEGERS)
    if isinstance(element, Array) or not is_alike or element in (NULL, *INTERVALS):
        raise NotMaintained(f"function: {name} of {given} in {type_}", "cast both to one type")


def _concatenate(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    left, right = take("array_cat", arguments, 2)
    return make_call("coalesce", make_call("concat", left, right), left.copy(), right.copy())


def join_arrays(node: exp.DPipe, type_of: TypeOf) -> exp.Expr | None:
    """`||` where one side is an array; None if none is."""
    left, right = (isinstance(type_of(part), Array) for part in (node.this, node.expression))
    if left and right:
        return _concatenate([node.this, node.expression], type_of)
    if left:
        return make_call("array_append", _or_empty(node.this, type_of), node.expression)
    return make_call("array_prepend", _or_empty(node.expression, type_of), node.this) if right else None


def _or_empty(array: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """What an element is added to: without an array it is the only one."""
    type_ = type_of(array)
    if isinstance(array.unnest(), exp.Array) or not isinstance(type_, Array):
        return array
    return make_call("coalesce", array, make_cast(make_call("array"), f"ARRAY<{type_.element}>"))


def _append(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    array, element = take("array_append", arguments, 2)
    return make_call("array_append", _or_empty(array, type_of), element)


def _prepend(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    element, array = take("array_prepend", arguments, 2)
    return make_call("array_prepend", _or_empty(array, type_of), element)


def _split_text(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    """No elements of a text without characters; without a separator, one."""
    text, separator = take("string_to_array", arguments, 2)
    written = constant_text(separator, "function: string_to_array with a separator that changes")
    parts = make_call("split", text, make_text(re.escape(written))) if written else make_call("array", text)
    empty = mark(exp.EQ(this=text.copy(), expression=make_text("")))
    nothing = make_call("slice", parts.copy(), make_number(1), make_number(0))
    return mark(exp.Case(ifs=[exp.If(this=empty, true=nothing)], default=parts))


def _split_by_pattern(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    text, written = take("regexp_split_to_array", arguments, 2)
    pattern = constant_text(written, "function: regexp_split_to_array with a pattern that changes")
    refuse_ambiguous(pattern)
    java = translate_regex(pattern)
    if re.compile(java).search("") is not None:
        raise NotMaintained("function: regexp_split_to_array at nothing", "use a pattern of one character or more")
    return make_call("split", text, make_text(java))


def read_array(text: str) -> list[exp.Expr]:
    """The elements of an array as PostgreSQL writes it: `{a,"b c",NULL}`."""
    inner = re.fullmatch(r"\s*\{(.*)\}\s*", text, re.DOTALL)
    if inner is None:
        raise Mistake(f"'{text}' is not an array", "write it like '{a,b}'")
    if not inner[1].strip():
        return []
    pieces = re.findall(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^",{}\\]+?))\s*(,|$)', inner[1])
    if ("".join(re.split(r"\s+", inner[1])) and sum(end == "" for _, _, end in pieces) != 1) or "{" in inner[1]:
        raise NotMaintained("expression: array as text", "write its elements: ARRAY['a', 'b']")
    return [_read_array_element(quoted, plain) for quoted, plain, _ in pieces]


def _read_array_element(quoted: str, plain: str) -> exp.Expr:
    if plain.upper() == "NULL":
        return exp.Null()
    return exp.Literal.string(plain or re.sub(r"\\(.)", r"\1", quoted))


def _read_rows(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    """`ARRAY(SELECT x FROM ... ORDER BY y)`, which has no elements where there are no rows."""
    if len(arguments) != 1 or not isinstance(arguments[0].unnest(), exp.Query):
        return make_call("array", *arguments)
    query = arguments[0].unnest().copy()
    if not isinstance(query, exp.Select) or any(query.args.get(part) for part in _MORE_THAN_ROWS):
        hint = "aggregate it: SELECT array_agg(x ORDER BY y) FROM (SELECT ...)"
        raise NotMaintained("expression: ARRAY of a query with groups, DISTINCT or LIMIT", hint)
    if len(query.expressions) != 1:
        raise Mistake(f"a query used as a value has {len(query.expressions)} columns, not one")
    order, value = query.args.get("order"), query.expressions[0].unalias()
    query.set("order", None)
    listed = value if order is None else exp.Order(this=value, expressions=order.expressions)
    query.set("expressions", [exp.Anonymous(this="array_agg", expressions=[listed])])
    found = exp.Subquery(this=query)
    type_ = type_of(found)
    element = type_.element if isinstance(type_, Array) else STRING
    empty = make_cast(make_call("array"), f"ARRAY<{element}>")
    return make_call("coalesce", found, empty)


_MORE_THAN_ROWS = ("group", "having", "distinct", "limit", "offset", "qualify", "with_", "windows")


def _match_regex(node: exp.Anonymous, place: int) -> exp.Expr:
    """`(regexp_match(x, 'p'))[1]`: a group of the first match, or the whole match if there is none."""
    text, java, groups = _read_match(node.expressions)
    if not 1 <= place <= max(groups, 1):
        return make_cast(exp.Null(), "STRING")
    return _where_matched(text, java, make_call("regexp_extract", text.copy(), java.copy(), _group(place, groups)))


def _match_all_groups(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    """`regexp_match(x, 'p')`: the groups of the first match."""
    text, java, groups = _read_match(arguments)
    found = [
        make_call("regexp_extract", text.copy(), java.copy(), _group(place, groups))
        for place in range(1, max(groups, 1) + 1)
    ]
    return _where_matched(text, java, make_call("array", *found))


def _read_match(arguments: list[exp.Expr]) -> tuple[exp.Expr, exp.Expr, int]:
    """The text, the pattern in Java's words, and how many groups it has."""
    text, written = take("regexp_match", arguments, 2)
    pattern = constant_text(written, "function: regexp_match with a pattern that changes")
    refuse_ambiguous(pattern)
    refuse_absent_group(pattern)
    return text, make_text(translate_regex(pattern)), count_groups(pattern)


def _group(place: int, groups: int) -> exp.Expr:
    return make_number(place if groups else 0)


def _where_matched(text: exp.Expr, java: exp.Expr, found: exp.Expr) -> exp.Expr:
    matched = mark(exp.RegexpLike(this=text, expression=java))
    return mark(exp.Case(ifs=[exp.If(this=matched, true=found)]))


def take_element(node: exp.Bracket, type_of: TypeOf) -> exp.Expr:
    """`a[i]` is NULL where there is none; `a[1:2]` is a part."""
    if len(node.expressions) != 1:
        raise NotMaintained("expression: several places in brackets", "write one place in each: a[1][2]")
    (place,) = node.expressions
    inner = node.this.unnest()
    if isinstance(inner, exp.Anonymous) and inner.name.lower() == "regexp_match" and place.name.isdigit():
        return _match_regex(inner, int(place.name))
    if find_origin_type(inner, type_of) in JSON_TYPES and not isinstance(place, exp.Slice):
        return _take_part(exp.JSONExtract(this=node.this, expression=place), type_of)
    if not isinstance(place, exp.Slice):
        type_ = type_of(node.this)
        is_row = isinstance(type_, Array) and isinstance(type_.element, Array)
        if is_row and not isinstance(_find_around(node), exp.Bracket):
            hint = "name an element of it: x[1][2]"
            raise NotMaintained("expression: part of an array of arrays", hint)
        if isinstance(place, exp.Literal) and place.is_int:
            return make_call("get", node.this, make_number(int(place.name) - 1))
        from_zero = mark(exp.Sub(this=mark(exp.Paren(this=place)), expression=make_number(1)))
        return make_call("get", node.this, from_zero)
    bounds = [place.this, place.expression]
    if not all(isinstance(bound, exp.Literal) and bound.is_int and int(bound.name) >= 1 for bound in bounds):
        raise NotMaintained("expression: array slice", "write the places as numbers from 1: a[1:2]")
    low, high = (int(bound.name) for bound in bounds)
    return make_call("slice", node.this, make_number(low), make_number(max(high - low + 1, 0)))


def _find_around(node: exp.Expr) -> exp.Expr | None:
    around = node.parent
    while isinstance(around, exp.Paren):
        around = around.parent
    return around


def compare_with_elements(node: exp.Binary, type_of: TypeOf) -> exp.Expr | None:
    """`x = ANY (array)`, `x <> ALL (array)`; None if there is no array."""
    quantified = node.expression
    word, inner = _find_quantified(quantified)
    if not word or isinstance(inner, exp.Query) or not isinstance(type_of(inner), Array):
        return None
    if isinstance(node, exp.EQ) and word == "any":
        return _be_element(node.this, flatten_array(inner, type_of))
    if isinstance(node, exp.NEQ) and word == "all":
        return mark(exp.Not(this=_be_element(node.this, flatten_array(inner, type_of))))
    sign = {exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.EQ: "=", exp.NEQ: "<>"}.get(type(node), "?")
    raise NotMaintained(
        f"expression: {sign} {word.upper()} of an array", "compare with array elements by = ANY, <> ALL"
    )


def _be_element(value: exp.Expr, array: exp.Expr) -> exp.Expr:
    """Nothing is an element of an empty array, not even NULL, of which `array_contains` does not know it."""
    found = make_call("array_contains", array, value)
    if isinstance(value, exp.Literal):
        return found
    some = mark(exp.GT(this=make_call("array_size", array.copy()), expression=exp.Literal.number(0)))
    return mark(exp.Paren(this=mark(exp.And(this=some, expression=found))))


def _find_quantified(node: exp.Expr) -> tuple[str, exp.Expr]:
    if isinstance(node, exp.Any | exp.All):
        return ("any" if isinstance(node, exp.Any) else "all"), node.this.unnest()
    if isinstance(node, exp.Anonymous) and node.name.lower() in ("any", "some", "all") and len(node.expressions) == 1:
        return ("all" if node.name.lower() == "all" else "any"), node.expressions[0].unnest()
    return "", node


def _only(name: str) -> ConvertCall:
    return lambda arguments, type_of: make_call(name, *arguments)


NESTED_NODES: Mapping[type[exp.Expr], Callable[[Any, TypeOf], exp.Expr]] = {
    exp.ArrayContainedBy: _be_contained,
    exp.ArrayContainsAll: _contain,
    exp.ArrayOverlaps: _overlap,
    exp.Bracket: take_element,
    exp.JSONBContains: lambda node, type_of: make_call("json_has", node.this, node.expression),
    exp.JSONBContainsAllTopKeys: _have("?&"),
    exp.JSONBContainsAnyTopKeys: _have("?|"),
    exp.JSONBContainsTopKey: lambda node, type_of: make_call("json_has", node.this, node.expression),
    exp.JSONBExtract: _take_path,
    exp.JSONBExtractScalar: _take_path_text,
    exp.JSONExtract: _take_part,
    exp.JSONExtractScalar: _take_text,
}

NESTED_CALLS: Mapping[str, ConvertCall] = {
    "array": _read_rows,
    "array_append": _append,
    "array_cat": _concatenate,
    "array_length": _length,
    "array_position": _find_place,
    "array_positions": _find_places,
    "array_prepend": _prepend,
    "array_replace": _replace_elements,
    "array_to_string": _join_elements,
    "array_upper": _length,
    "cardinality": _count_elements,
    "json_array_length": _only("json_length"),
    "json_extract_path": _extract_path,
    "json_extract_path_text": _extract_path_text,
    "json_typeof": _only("json_kind"),
    "jsonb_array_length": _only("json_length"),
    "jsonb_extract_path": _extract_path,
    "jsonb_extract_path_text": _extract_path_text,
    "jsonb_typeof": _only("json_kind"),
    "regexp_split_to_array": _split_by_pattern,
    "string_to_array": _split_text,
    "regexp_match": _match_all_groups,
    "regexp_matches": refuse_call("regexp_matches", "take the first match: (regexp_match(x, 'pattern'))[1]"),
}
"""By the name that is written, in lower case."""
