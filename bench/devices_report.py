"""What a benchmark of devices found: lines to print, claims beside the paper's figures, and what is wrong.

A claim that is not met is told, and is no error: a busy machine may not meet it. What is wrong is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

WITHIN = 0.10
"""How far messages may be from what the model says."""


@dataclass(frozen=True, slots=True)
class Claim:
    """`asked` is what must hold, `found` what was measured; `paper` has the figure of the paper, if there is one."""

    asked: str
    found: str
    is_met: bool
    paper: str = ""

    def tell(self) -> str:
        beside = f" (paper: {self.paper})" if self.paper else ""
        return f"{'met' if self.is_met else 'NOT met'}: {self.asked}: {self.found}{beside}"


@dataclass
class DevicesReport:
    """`numbers` is what `--json` prints, beside the claims."""

    name: str
    lines: list[str] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)

    def claim(self, asked: str, found: str, is_met: bool, paper: str = "") -> None:
        self.claims.append(Claim(asked, found, is_met, paper))

    def claim_near(self, what: str, found: float, predicted: float, unit: str = "messages/s") -> None:
        """That a measured number is within a tenth of a predicted one."""
        away = found / predicted - 1 if predicted else float("inf")
        self.claim(
            f"{what} within {WITHIN:.0%} of the model's {predicted:,.1f} {unit}",
            f"{found:,.1f} ({away:+.1%})",
            abs(away) <= WITHIN,
        )

    def tell(self) -> Iterator[str]:
        yield from self.lines
        yield from (claim.tell() for claim in self.claims)
        yield from (f"wrong: {line}" for line in self.wrong)

    def document(self) -> dict[str, Any]:
        claims = [
            {"asked": one.asked, "found": one.found, "met": one.is_met, "paper": one.paper or None}
            for one in self.claims
        ]
        return {"scenario": self.name, **self.numbers, "claims": claims, "wrong": self.wrong}


def tabulate(rows: Sequence[tuple[str, ...]], head: tuple[str, ...]) -> Iterator[str]:
    """Columns of text; all but the first are numbers, to the right."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    for row in (head, *rows):
        yield "  ".join(
            text.ljust(width) if column == 0 else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()


@dataclass(frozen=True, slots=True)
class Counted:
    """Messages of streams (`s`) and results (`r`), control messages, and bytes of all, up and down."""

    s_up: int = 0
    s_down: int = 0
    r_up: int = 0
    control_up: int = 0
    control_down: int = 0
    bytes_up: int = 0
    bytes_down: int = 0

    @property
    def messages(self) -> int:
        """What ratios count."""
        return self.s_up + self.s_down + self.r_up

    @property
    def everything(self) -> int:
        return self.messages + self.control_up + self.control_down

    def since(self, before: Counted) -> Counted:
        return Counted(*(getattr(self, name) - getattr(before, name) for name in self.__slots__))

    def document(self) -> Mapping[str, int]:
        return {name: getattr(self, name) for name in self.__slots__}
