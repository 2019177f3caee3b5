"""How a query spells what the parser has names of its own for, and what to write instead: for refusals."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from headrace.declare.query.mistakes import NotMaintained

_TIES = "rank the rows in a query inside: RANK() OVER (ORDER BY ...) AS place, WHERE place <= n"
_VALUE_OF_JSON = "use get_json_object(x, '$.a.b')"
_UNPIVOT = "write a query for each column: SELECT id, 'a' AS name, a AS value FROM t UNION ALL SELECT id, 'b', b FROM t"
_EXPRESSIONS: Mapping[type[exp.Expr], tuple[str, str | None]] = {
    exp.AtTimeZone: ("AT TIME ZONE", "times are UTC: from_utc_timestamp(ts, 'Europe/Paris') is the time in a zone"),
    exp.BitwiseAnd: ("&", None),
    exp.BitwiseLeftShift: ("<<", None),
    exp.BitwiseNot: ("~", None),
    exp.BitwiseOr: ("|", None),
    exp.BitwiseRightShift: (">>", None),
    exp.BitwiseXor: ("^", None),
    exp.JSONExtract: ("->", _VALUE_OF_JSON),
    exp.JSONExtractScalar: ("->>", _VALUE_OF_JSON),
    exp.Overlaps: ("OVERLAPS", "two spans overlap where each begins before the other ends: a < d AND c < b"),
    exp.Parameter: ("parameter", "write the value itself"),
    exp.Placeholder: ("parameter", "write the value itself"),
    exp.RegexpILike: ("~*", "use RLIKE, with (?i) before the pattern"),
    exp.SimilarTo: ("SIMILAR TO", "use RLIKE"),
    exp.Tuple: ("row value", "compare the columns one by one, with AND"),
    exp.WithinGroup: ("WITHIN GROUP", "a rank counts the rows before it: count(*) FILTER (WHERE x < 3) + 1"),
}
_PARTS: Mapping[tuple[type[exp.Expr], str], tuple[str, str | None]] = {
    (exp.AtTimeZone, "zone"): _EXPRESSIONS[exp.AtTimeZone],
    (exp.Between, "symmetric"): ("BETWEEN SYMMETRIC", "write the lower bound first"),
}
_CLAUSES: Mapping[str, tuple[str, str | None]] = {
    "sample": ("table sample", None),
    "pivots": ("pivot", None),
    "version": ("time travel", None),
    "system_time": ("time travel", None),
    "when": ("time travel", None),
    "locks": ("clause: FOR UPDATE", None),
    "on": (
        "clause: DISTINCT ON",
        "rank the rows in a query inside: ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ...) AS place, WHERE place = 1",
    ),
}


def refuse_expression(node: exp.Expr) -> NotMaintained:
    """An expression that nobody reads."""
    words, hint = _EXPRESSIONS.get(type(node), (type(node).__name__.lower(), None))
    return NotMaintained(f"expression: {words}", hint)


def refuse_part(node: exp.Expr, key: str) -> NotMaintained:
    """A part of an expression that its reader does not know."""
    words, hint = _PARTS.get((type(node), key), (f"{type(node).__name__.lower()} with {key.strip('_')}", None))
    return NotMaintained(f"expression: {words}", hint)


def refuse_clause(key: str) -> NotMaintained:
    """A clause that its reader does not handle."""
    if key == "unpivot":
        return NotMaintained("unpivot", _UNPIVOT)
    return NotMaintained(*_CLAUSES.get(key, (f"clause: {key.strip('_').replace('_', ' ')}", None)))


def unknown_to_spark(node: exp.Expr) -> NotMaintained | None:
    """What Spark has no syntax for, or no value: then it cannot evaluate the query either."""
    match node:
        case exp.Distinct() if node.args.get("on"):
            return refuse_clause("on")
        case exp.Lock():
            return refuse_clause("locks")
        case exp.Fetch():
            return refuse_fetch(node)
        case exp.Limit() if node.args.get("limit_options"):
            return refuse_fetch(node)
        case exp.Between() if node.args.get("symmetric"):
            return refuse_part(node, "symmetric")
        case exp.WindowSpec():
            return refuse_frame(node)
        case exp.Window() if _is_distinct(node):
            return refuse_distinct(_name_call(node))
        case exp.Overlaps() | exp.Parameter() | exp.Placeholder() | exp.RegexpILike() | exp.SimilarTo():
            return refuse_expression(node)
    return None


def refuse_frame(spec: exp.Expr) -> NotMaintained | None:
    """What a frame of a window has that neither we nor Spark know."""
    return refuse_exclusion(spec) or _refuse_unit(spec)


def refuse_exclusion(spec: exp.Expr) -> NotMaintained | None:
    """A frame without some of its rows; EXCLUDE NO OTHERS, which is one with all of them, is left out."""
    excluded = spec.args.get("exclude")
    if excluded is None or excluded.name.lower() == "no others":
        spec.set("exclude", None)
        return None
    hint = "leave it out, and take what it excludes from the result"
    return NotMaintained(f"window frame: exclude {excluded.name.lower()}", hint)


def _refuse_unit(spec: exp.Expr) -> NotMaintained | None:
    unit = str(spec.args.get("kind") or "rows").lower()
    if unit not in ("rows", "range"):
        hint = "number the groups in a query of its own: dense_rank() OVER (...), and use RANGE over that number"
        return NotMaintained(f"window frame: {unit}", hint)
    return None


def refuse_distinct(name: str) -> NotMaintained:
    """DISTINCT in a window function."""
    hint = f"{name}(DISTINCT ...) with GROUP BY in a query of its own, joined to the rows"
    return NotMaintained(f"window function: {name} of distinct values", hint)


def _name_call(node: exp.Window) -> str:
    call = node.this
    while not isinstance(call, exp.Anonymous):
        call = call.this
    return call.name.lower()


def _is_distinct(node: exp.Window) -> bool:
    call = node.this
    while isinstance(call, exp.Expr) and not isinstance(call, exp.Anonymous):
        call = call.this
    return isinstance(call, exp.Anonymous) and any(isinstance(part, exp.Distinct) for part in call.expressions)


def refuse_fetch(node: exp.Expr) -> NotMaintained:
    """FETCH, or LIMIT with the options of FETCH."""
    options, word = node.args.get("limit_options"), "FETCH" if isinstance(node, exp.Fetch) else "LIMIT"
    if options is not None and options.args.get("percent"):
        return NotMaintained(f"clause: {word} ... PERCENT", "use LIMIT with a number of rows")
    if options is not None and options.args.get("with_ties"):
        return NotMaintained(f"clause: {word} ... WITH TIES", _TIES)
    return NotMaintained("clause: FETCH" if word == "FETCH" else "clause: LIMIT ... ROWS", "use LIMIT n")
