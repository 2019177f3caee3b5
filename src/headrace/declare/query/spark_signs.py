"""Which sign binds first in Spark's dialect: sqlglot has one level where Spark's grammar has several.

* / % div    + - ||    << >> >>>    &    ^    |    = < >
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import TokenType, exp
from sqlglot.parsers.spark import SparkParser

_ADDS = (exp.Add, exp.Sub, exp.DPipe)
_BITS = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)
_SHIFTS = (exp.BitwiseLeftShift, exp.BitwiseRightShift)


class SignReader(SparkParser):
    """Reads chains of operators from the left, level by level."""

    def _parse_bitwise(self) -> exp.Expr | None:
        return self._parse_or_bits()

    def _parse_or_bits(self) -> exp.Expr | None:
        return self._parse_level(TokenType.PIPE, self._parse_xor_bits)

    def _parse_xor_bits(self) -> exp.Expr | None:
        return self._parse_level(TokenType.CARET, self._parse_and_bits)

    def _parse_and_bits(self) -> exp.Expr | None:
        return self._parse_level(TokenType.AMP, self._parse_shift)

    def _parse_level(self, sign: TokenType, parse_operand: Callable[[], exp.Expr | None]) -> exp.Expr | None:
        this = parse_operand()
        while self._match(sign):
            this = self.expression(self.BITWISE[sign](this=this, expression=parse_operand()))
        return this

    def _parse_shift(self) -> exp.Expr | None:
        this = self._parse_term()
        while True:
            if self._match_pair(TokenType.LT, TokenType.LT):
                this = self.expression(exp.BitwiseLeftShift(this=this, expression=self._parse_term()))
            elif self._match_pair(TokenType.GT, TokenType.GT):
                if self._match(TokenType.GT):
                    this = self._shift_unsigned(this, self._parse_term())
                else:
                    this = self.expression(exp.BitwiseRightShift(this=this, expression=self._parse_term()))
            else:
                return this

    def _shift_unsigned(self, value: exp.Expr | None, distance: exp.Expr | None) -> exp.Expr:
        if value is None or distance is None:
            self.raise_error("Required keyword: a number beside >>>")
        return exp.Anonymous(this="shiftrightunsigned", expressions=[value, distance])

    def _parse_term(self, parse_mod: bool = True) -> exp.Expr | None:
        this = self._parse_factor(parse_mod=parse_mod)
        while True:
            if self._match(TokenType.DPIPE):
                this = self.expression(exp.DPipe(this=this, expression=self._parse_factor(), safe=True))
            elif self._match_set(self.TERM):
                kind = self.TERM[self._prev.token_type]
                this = self.expression(kind(this=this, expression=self._parse_factor(parse_mod=parse_mod)))
                if isinstance(this, exp.Collate):
                    self._normalize_collate(this)
            else:
                return this


def keep_order(node: exp.Expr) -> None:
    """Puts operands in parentheses that Spark would read in another order than they have in the tree."""
    if not isinstance(node, (*_BITS, *_SHIFTS, *_ADDS)):
        return
    others = (*_BITS, *_SHIFTS) if isinstance(node, exp.Add | exp.Sub) else (*_BITS, *_SHIFTS, *_ADDS)
    for key in ("this", "expression"):
        operand = node.args.get(key)
        same = key == "this" and type(operand) is type(node)
        if isinstance(operand, others) and not same:
            node.set(key, exp.Paren(this=operand))
