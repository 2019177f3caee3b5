"""Says which contracts are not kept because of what is known of their sources, however small their lags are.

A source that is stopped says nothing more. A source that is being read again was wrong, or not complete, from some time
on. A view is right again once it has reached the time at which its sources were read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from headrace.model.notes import SourceMissed, SourceObsolete, SourceStopped, SourceWhole, read_notes
from headrace.run.ports import Ledger
from headrace.site.auditor import WatchedContract


@dataclass(frozen=True, slots=True)
class SourceStates:
    """What the ledger has noted of sources, by name: why they are `stopped` or `obsolete`, since when they are read
    again (`missed`), and when they had been (`whole`); both in microseconds.
    """

    stopped: Mapping[str, str]
    obsolete: Mapping[str, str]
    missed: Mapping[str, int]
    whole: Mapping[str, int]

    def say_reread(self, source: str) -> str:
        why = self.obsolete.get(source)
        return f'source "{source}" is being read again' + ("" if why is None else f": {why}")


@dataclass(frozen=True, slots=True)
class Unsound:
    """Why a contract is not kept. `is_mending` is whether that ends by itself."""

    reason: str
    is_mending: bool


def read_source_states(ledger: Ledger) -> SourceStates:
    return SourceStates(
        {name: note.why for name, note in read_notes(ledger, SourceStopped).items()},
        {name: note.why for name, note in read_notes(ledger, SourceObsolete).items()},
        {name: note.t for name, note in read_notes(ledger, SourceMissed).items()},
        {name: note.t for name, note in read_notes(ledger, SourceWhole).items()},
    )


def find_unsound(
    watched: Iterable[WatchedContract], times: Mapping[str, int], copies: Mapping[str, int], states: SourceStates
) -> dict[str, Unsound]:
    """Finds the contracts that are not kept, and why; `times` are those that logs have reached, `copies` those that
    the copies of contracts have.
    """
    found = (
        (one.contract, next(_find_reasons(one, times.get(one.vertex), copies.get(one.contract), states), None))
        for one in watched
    )
    return {contract: unsound for contract, unsound in found if unsound is not None}


def _find_reasons(
    one: WatchedContract, reached: int | None, copied: int | None, states: SourceStates
) -> Iterator[Unsound]:
    """The worst comes first."""
    sources = sorted(one.sources)
    for source in sources:
        if source in states.stopped:
            yield Unsound(f'source "{source}" is stopped: {states.stopped[source]}', is_mending=False)
    for source in sources:
        if source in states.missed:
            yield Unsound(states.say_reread(source), is_mending=True)
    for source in sources:
        for what, t in (("view", reached), ("copy", copied)):
            if t is not None and t < states.whole.get(source, t):
                yield Unsound(f'source "{source}" was read again, and the {what} does not have all of it yet', True)
