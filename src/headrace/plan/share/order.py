"""Which contract is planned first: what small views make is what larger ones are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.model.catalogue import Contract
from headrace.plan.cores import source_count
from headrace.plan.search.views import rate_of_view
from headrace.plan.share.arrangement import Arrangement
from headrace.plan.statistics import CoreStatistics

Cores = Mapping[str, tuple[CoreStatistics, ...]]
"""The blocks of every view that can be maintained, with their statistics."""


def small_first(now: Arrangement, contracts: Iterable[Contract], cores: Cores) -> list[Contract]:
    """Fewer sources first, then slower views, then by name. What is forced comes after all others, and last are views
    that cannot be maintained.
    """

    def size(contract: Contract) -> tuple[bool, float, float, str]:
        if contract.view not in cores:
            return True, float("inf"), 0.0, contract.name
        question = now.question(contract, cores[contract.view])
        rate = rate_of_view(question.wish, question.batch_s)
        return contract.forced, source_count(question.cores), rate, contract.name

    return sorted(contracts, key=size)
