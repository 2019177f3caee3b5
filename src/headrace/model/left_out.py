"""Says which declared parts of a project do not run yet: templates."""

from __future__ import annotations

from collections.abc import Collection

from headrace.model.catalogue import Catalogue, Refusal
from headrace.model.errors import Problem

TEMPLATE = "template"
"""The operator by which a contract for the view of a template is refused."""


def say_left_out(catalogue: Catalogue) -> tuple[str, ...]:
    """One sentence for each kind of entry that is checked and otherwise left out."""
    kinds = (("templates", catalogue.templates),)
    return tuple(_say(kind, names) for kind, names in kinds if names)


def refuse_template_view(catalogue: Catalogue, name: str) -> Refusal | None:
    """The refusal of a view that reads streams of devices; None for all others."""
    if not _reads_devices(catalogue, name):
        return None
    message = f'view "{name}" reads streams of devices, and templates do not run yet'
    return Refusal(TEMPLATE, (Problem(message, catalogue.views[name].declared_at),))


def _reads_devices(catalogue: Catalogue, name: str) -> bool:
    """Whether a view, or one that it reads, reads `SIDE.STREAM`. No other name has a dot.

    A view that is read may run in an earlier version, which goes by another name here: its name alone says nothing.
    """
    view = catalogue.views.get(name)
    return view is not None and any("." in read or _reads_devices(catalogue, read) for read in view.reads)


def _say(kind: str, names: Collection[str]) -> str:
    return f"{kind} do not run yet: {', '.join(names)} {'is' if len(names) == 1 else 'are'} left out"
