"""Texts as PostgreSQL quotes them, as names and as constants."""

from __future__ import annotations

from sqlglot import exp

from headrace.declare.query.postgres_nodes import make_call, make_number, make_text, mark

_KEYWORDS = """
    all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both case cast
    char character check coalesce collate collation column concurrently constraint create cross current_catalog
    current_date current_role current_schema current_time current_timestamp current_user dec decimal default deferrable
    desc distinct do else end except exists extract false fetch float for foreign freeze from full grant greatest group
    grouping having ilike in initially inner inout int integer intersect interval into is isnull join json json_array
    json_arrayagg json_exists json_object json_objectagg json_query json_scalar json_serialize json_table json_value
    lateral leading least left like limit localtime localtimestamp merge_action national natural nchar none normalize
    not notnull null nullif numeric offset on only or order out outer overlaps overlay placing position precision
    primary real references returning right row select session_user setof similar smallint some substring symmetric
    system_user table tablesample then time timestamp to trailing treat trim true union unique user using values
    varchar variadic verbose when where window with xmlattributes xmlconcat xmlelement xmlexists xmlforest
    xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable""".split()
"""What cannot be a name without quotes, in PostgreSQL 18."""


def quote_name(text: exp.Expr) -> exp.Expr:
    """`quote_ident`."""
    is_odd = mark(exp.RegexpLike(this=text.copy(), expression=make_text("^[^a-z_]|[^a-z0-9_]")))
    is_word = mark(exp.In(this=text.copy(), expressions=[make_text(word) for word in ("", *_KEYWORDS)]))
    needs = mark(exp.Or(this=is_odd, expression=is_word))
    quoted = make_call("concat", make_text('"'), _double(text.copy(), '"'), make_text('"'))
    return mark(exp.Case(ifs=[exp.If(this=needs, true=quoted)], default=text))


def quote_value(text: exp.Expr) -> exp.Expr:
    """`quote_literal`: a text with backslashes is written with E before it."""
    place = make_call("locate", make_text("\\"), text.copy())
    is_escaped = mark(exp.GT(this=place, expression=make_number(0)))
    start = mark(exp.Case(ifs=[exp.If(this=is_escaped, true=make_text("E'"))], default=make_text("'")))
    return make_call("concat", start, _double(_double(text, "\\"), "'"), make_text("'"))


def quote_any(text: exp.Expr) -> exp.Expr:
    """`quote_nullable`."""
    return make_call("coalesce", quote_value(text), make_text("NULL"))


def _double(text: exp.Expr, sign: str) -> exp.Expr:
    return make_call("replace", text, make_text(sign), make_text(sign * 2))
