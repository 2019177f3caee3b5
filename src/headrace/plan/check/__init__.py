"""An independent check of plan documents, for anyone who is handed one.

It shares no code with the planner, so that it shares no mistakes with it either. In order:

    form        the fields are there and of the right kind
    structure   names exist, every vertex has one producer, no cycles, operators at one site, copies along links
    derive      what each vertex means, from the edges alone; every change arrives exactly once, no condition is lost
    rates       rates and rows follow from the catalogue
    places      rows are only where their sources allow
    numbers     critical paths, admission, loads, capacities and costs follow from all this
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from headrace.plan.check.derive import Meanings
from headrace.plan.check.form import PlanForm
from headrace.plan.check.numbers import Numbers
from headrace.plan.check.places import check_places
from headrace.plan.check.rates import Rates
from headrace.plan.check.structure import Problem, check_structure

__all__ = ["Problem", "check_document"]


def check_document(document: Mapping[str, object]) -> list[Problem]:
    """Everything that is wrong with a plan document, as (where, what); empty if nothing is.

    Numbers are checked only where the graph is right, and the graph only where the form is.
    """
    try:
        read = PlanForm.model_validate(document)
    except ValidationError as error:
        return [("/".join(map(str, entry["loc"])), entry["msg"]) for entry in error.errors()]
    problems = check_structure(read)
    if problems:
        return problems
    meanings = Meanings(read)
    meanings.derive()
    problems = [*meanings.problems, *meanings.check_contracts()]
    if problems:
        return problems
    rates = Rates(read, meanings)
    return [*rates.problems(), *check_places(rates), *Numbers(rates).problems()]
