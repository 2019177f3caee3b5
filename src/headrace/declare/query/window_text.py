"""Windows in FROM as text: what no dialect of the parser reads becomes a call before it is parsed.

In the tree the first argument of such a call is a table, which everybody finds who looks for tables.
"""

from __future__ import annotations

from sqlglot import Token, TokenType, exp

WINDOW_TABLES = ("tumble", "hop", "session")
_PLURALS = ("milliseconds", "seconds", "minutes", "hours", "days", "weeks")


def read_as_calls(tokens: list[Token]) -> list[Token]:
    """The tokens of a query with windows in FROM as plain calls: without TABLE, and with a comma for PARTITION BY."""
    kept, depths, depth = list[Token](), list[int](), 0
    for place, token in enumerate(tokens):
        before = tokens[place - 1] if place else None
        following = tokens[place + 1] if place + 1 < len(tokens) else None
        if token.token_type == TokenType.L_PAREN:
            depth += 1
            if before is not None and before.text.lower() in WINDOW_TABLES:
                depths.append(depth)
        elif token.token_type == TokenType.R_PAREN:
            if depths and depths[-1] == depth:
                depths.pop()
            depth -= 1
        opens = following is not None and following.token_type == TokenType.L_PAREN
        if token.text.lower() in WINDOW_TABLES and opens and token.token_type != TokenType.STRING:
            token.token_type = TokenType.VAR
        directly = bool(depths) and depths[-1] == depth
        if directly and token.token_type == TokenType.TABLE:
            continue
        if directly and token.token_type == TokenType.PARTITION_BY:
            token.token_type, token.text = TokenType.COMMA, ","
        if directly and before is not None and before.token_type == TokenType.STRING:
            # PostgreSQL's units have no plural here.
            token.text = token.text[:-1] if token.text.lower() in _PLURALS else token.text
        kept.append(token)
    return kept


def name_window_tables(tree: exp.Expr) -> exp.Expr:
    """The tree with tables where windows are given names of tables."""
    for table in list(tree.find_all(exp.Table)):
        call = find_window_table(table)
        named = call.expressions[0] if call is not None and call.expressions else None
        if isinstance(named, exp.Column) and isinstance(named.this, exp.Identifier):
            inner = exp.Table(this=named.this.copy(), db=named.args["table"].copy() if named.table else None)
            inner.meta.update(named.this.meta)
            named.replace(inner)
    return tree


def find_window_table(node: exp.Table) -> exp.Anonymous | None:
    """The call of a window function that stands for a table, also inside TABLE(...)."""
    call = node.this
    while isinstance(call, exp.Anonymous) and call.name.lower() == "table" and len(call.expressions) == 1:
        call = call.expressions[0]
    found = isinstance(call, exp.Anonymous) and call.name.lower() in WINDOW_TABLES
    return call if found else None
