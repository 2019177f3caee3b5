"""PostgreSQL's expressions in Spark's words, one node at a time.

A node becomes one that means in Spark what it means in PostgreSQL, whose parts are still PostgreSQL's. Where that
depends on types, `type_of` tells those of the parts; it reads a part, and remembers its type for whoever writes the
whole text out later. What has no exact counterpart is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp
from sqlglot.parsers.postgres import PostgresParser

from headrace.declare.query.calls import ALIASES, CASTS, REWRITES
from headrace.declare.query.known_functions import KNOWN
from headrace.declare.query.mistakes import NotMaintained
from headrace.declare.query.postgres_arithmetic import ARITHMETIC_CALLS, ARITHMETIC_NODES
from headrace.declare.query.postgres_building import (
    BUILDING_CALLS,
    delete_path,
)
from headrace.declare.query.postgres_calls import CALLS
from headrace.declare.query.postgres_casts import convert_cast
from headrace.declare.query.postgres_conditions import CONDITION_CALLS, CONDITION_NODES, coalesce_values
from headrace.declare.query.postgres_constants import read_constants
from headrace.declare.query.postgres_intervals import INTERVAL_CALLS
from headrace.declare.query.postgres_json import (
    NESTED_CALLS,
    NESTED_NODES,
)
from headrace.declare.query.postgres_nodes import (
    IN_SPARK_WORDS,
    ConvertCall,
    TypeOf,
    at_place_of,
    make_call,
    make_cast,
    make_text,
    refuse_call,
    take,
)
from headrace.declare.query.postgres_strings import STRING_CALLS, STRING_NODES
from headrace.declare.query.postgres_time_parts import TIME_CALLS, TIME_NODES
from headrace.declare.query.postgres_zones import call_timezone, convert_zone
from headrace.meaning.functions import FUNCTIONS


def as_spark(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """The node in Spark's words; the node itself if they are the same."""
    if node.meta.get(IN_SPARK_WORDS):
        return node
    if isinstance(node, exp.Anonymous):
        return _convert_call(node, type_of)
    read_constants(node, type_of)
    convert = _NODES.get(type(node))
    return node if convert is None else at_place_of(node, convert(node, type_of))


def _rename(name: str, *order: int) -> Callable[[list[exp.Expr], TypeOf], exp.Expr]:
    """Another name, and perhaps another order of the arguments."""

    def convert(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
        chosen = [arguments[position] for position in order] if len(order) == len(arguments) else arguments
        return make_call(name, *chosen)

    return convert


_FUNCTIONS: Mapping[str, ConvertCall] = {
    **CALLS,
    **NESTED_CALLS,
    **BUILDING_CALLS,
    **ARITHMETIC_CALLS,
    **CONDITION_CALLS,
    **STRING_CALLS,
    **TIME_CALLS,
    **INTERVAL_CALLS,
    "clock_timestamp": refuse_call("clock_timestamp", "use now()"),
    "coalesce": coalesce_values,
    "date": lambda arguments, type_of: make_cast(take("date", arguments, 1)[0], "DATE"),
    "initcap": _rename("capitalise_words"),
    "mz_now": _rename("now"),
    "statement_timestamp": _rename("now"),
    "starts_with": _rename("startswith"),
    "strpos": _rename("locate", 1, 0),
    "timezone": call_timezone,
    "transaction_timestamp": _rename("now"),
}


_SAME_AS_SPARK = KNOWN | {*FUNCTIONS, *ALIASES, *CASTS, *REWRITES}
_ONLY_POSTGRES = frozenset(name.lower() for name in PostgresParser.FUNCTIONS) | frozenset(
    """array_position array_remove array_to_string array_upper convert_from convert_to date_bin encode format
    gen_random_uuid isfinite json_agg json_array_elements json_build_array json_build_object json_each json_object_agg
    jsonb_agg jsonb_array_elements jsonb_build_array jsonb_build_object jsonb_each jsonb_object_agg jsonb_set
    jsonb_typeof pg_sleep quote_ident quote_literal
    regexp_match regexp_matches regexp_split_to_array regexp_split_to_table row row_to_json scale setseed
    string_to_array string_to_table timeofday to_json to_jsonb to_regclass to_tsquery to_tsvector txid_current
    width_bucket""".split()
)


def _convert_call(node: exp.Anonymous, type_of: TypeOf) -> exp.Expr:
    name = node.name.lower()
    if name in _FUNCTIONS:
        return at_place_of(node, _FUNCTIONS[name](list(node.expressions), type_of))
    if name in _ONLY_POSTGRES and name not in _SAME_AS_SPARK:
        raise NotMaintained(f"function: {name}", "docs/sql.md lists the functions that are maintained")
    return node


def _refuse_bits(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    raise NotMaintained("expression: bit string", "bytes are written '\\x1F'::bytea")


_NODES: Mapping[type[exp.Expr], Callable[[Any, TypeOf], exp.Expr]] = {
    **NESTED_NODES,
    **ARITHMETIC_NODES,
    **CONDITION_NODES,
    **STRING_NODES,
    **TIME_NODES,
    exp.AtTimeZone: convert_zone,
    exp.BitString: _refuse_bits,
    exp.ByteString: lambda node, type_of: make_text(node.name),
    exp.Cast: convert_cast,
    exp.HexString: _refuse_bits,
    exp.JSONBDeleteAtPath: delete_path,
}
