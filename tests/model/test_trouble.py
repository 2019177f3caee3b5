"""Whatever kind of event a trouble makes is explained to those who read events."""

from __future__ import annotations

from pathlib import Path

from headrace.model.trouble import TroubleKind

PAGE = Path(__file__).parents[2] / "docs" / "running.md"


def test_kinds_of_events_are_explained() -> None:
    page = PAGE.read_text()
    kinds = {name for kind in TroubleKind for name in (kind.begins, kind.ends)}
    assert {kind for kind in kinds if f"`{kind}`" not in page} == set()
