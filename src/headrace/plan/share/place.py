"""One more contract, on top of what lives: at its marginal cost, or refused with a counter-offer."""

from __future__ import annotations

from headrace.model.catalogue import Contract
from headrace.plan.admit import admit
from headrace.plan.refuse import refuse
from headrace.plan.share.arrangement import Arrangement
from headrace.plan.statistics import Core


def place(now: Arrangement, contract: Contract, cores: tuple[Core, ...]) -> Arrangement:
    """With the contract among those kept or refused. All others stay as they are."""
    question = now.question(contract, cores)
    answer = admit(question)
    return now.refusing(refuse(question)) if answer is None else now.keeping(question, answer)
