"""One more contract, on top of what lives: at its marginal cost, or refused with a counter-offer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headrace.model.catalogue import Contract
from headrace.model.plan_modes import Sharing
from headrace.plan.admit import Answer, Question, admit
from headrace.plan.refuse import refuse
from headrace.plan.share.arrangement import Arrangement
from headrace.plan.share.forms import coarser_forms, in_form, present_form
from headrace.plan.share.plumb import climb
from headrace.plan.share.subject import Offers, offers_of
from headrace.plan.share.subsume import from_wider
from headrace.plan.share.widen import wide_variants
from headrace.plan.statistics import CoreStatistics


def place(now: Arrangement, contract: Contract, cores: tuple[CoreStatistics, ...]) -> Arrangement:
    """The arrangement with the contract among those kept or refused.

    All others stay as they are, but for what is forced.
    """
    if now.wishes.sharing is not Sharing.MARGINAL:
        question = now.question(contract, cores)
        answer = admit(question)
        return now.refusing(refuse(question)) if answer is None else now.keeping(question, answer)
    questions = questions_of(now, contract, cores)
    found = _cheapest(questions)
    if found is None:
        return now.refusing(refuse(questions[0]))
    then = in_form(now, contract.view, found[0].cores).keeping(*found)
    return climb(then, from_wider(found[1].edges))[0]


def questions_of(now: Arrangement, contract: Contract, cores: tuple[CoreStatistics, ...]) -> tuple[Question, ...]:
    """A contract in every form that its view may have on what lives: as it is first, as wide as others have it, from
    finer groups of others.
    """
    present = present_form(now, contract.view, cores)
    question = now.question(contract, present or cores)
    offers: Offers = offers_of(question.live.graph, now.blocks)
    forms = (*wide_variants(question.cores, offers), *(() if present else coarser_forms(now, contract.view, cores)))
    return question, *(replace(question, cores=form) for form in forms)


def _cheapest(questions: Iterable[Question]) -> tuple[Question, Answer] | None:
    """The first of those that cost least; None if no plan is found."""
    answers = ((question, admit(question)) for question in questions)
    found = [(question, answer) for question, answer in answers if answer is not None]
    return min(found, key=lambda pair: pair[1].cost, default=None)
