"""Why a promise cannot be kept, and which one could be: the binding constraint and the smallest freshness we would
promise.

The smallest freshness is found plan by plan: a plan in time at some freshness gives the least freshness at which it is
still in time; the fastest plan there gives a smaller one; and so on, until no plan is in time any earlier. Every step
takes one search, and there are few, where bisection would need forty.
"""

from __future__ import annotations

import math
from dataclasses import replace

from headrace.model.amounts import format_bandwidth, format_bytes, format_number, format_seconds
from headrace.model.catalogue import Admission, Refusal
from headrace.model.errors import Problem
from headrace.model.plan import Operator, Rejection
from headrace.model.plan_modes import Method
from headrace.model.words import name_vertex
from headrace.plan.admit import Answer, Question, admit, best_plan, fastest_plan, find_exhausted
from headrace.plan.live import find_overloaded, resources_left
from headrace.plan.price import Bill, arrivals, bill_of, serves, time_of_edge
from headrace.plan.search.terrain import Resource
from headrace.plan.statistics import CoreStatistics

LARGEST_FRESHNESS_S = 1e9
"""About thirty years: what cannot be promised then, cannot be promised."""

STEP = 8.0
"""Factor between the freshnesses that are tried first."""

FINE_STEP = 1.5
"""The same where disks are limited: longer logs may fill them, so that only some freshnesses in between are possible.
"""

DOING = {
    Operator.CAPTURE: "capturing",
    Operator.COPY: "copying",
    Operator.JOIN: "joining",
    Operator.UNION: "uniting",
    Operator.APPLY: "keeping",
    Operator.AGGREGATE: "aggregating to",
    Operator.DERIVE: "deriving",
}

CLOSE = 1e-7
"""Relative distance below which two freshnesses are one."""


def refuse(question: Question) -> Rejection:
    """The refusal of a contract for which no plan was found."""
    name = question.contract.name
    fastest = fastest_plan(question, highest_peak=math.inf)
    if fastest is None:
        reason, detail = _no_plan(question)
        return Rejection(name, reason, detail, None, None)
    if question.method is Method.CHEAPEST:
        smallest, (reason, detail) = smallest_freshness_s(question), _binding(question, fastest)
    else:
        smallest, (reason, detail) = _smallest_by_method(question), _binding_for_method(question, fastest)
    return Rejection(name, reason, detail, fastest.path_s, smallest)


def refuse_unsupported(contract: str, refusal: Refusal) -> Rejection:
    detail = "; ".join(_with_place(problem) for problem in refusal.problems)
    return Rejection(contract, f"unsupported:{refusal.operator}", detail, None, None)


def _with_place(problem: Problem) -> str:
    return problem.message if problem.where is None else f"{problem.message} ({problem.where})"


# No plan at all


def _no_plan(question: Question) -> tuple[str, str]:
    """Rows may not go where they would be needed, or there is no link."""
    bound = sorted({name for core in question.cores for input_ in core.inputs for name in input_.facts.stays})
    for name in bound:
        if fastest_plan(_release_sources(question, {name}), highest_peak=math.inf) is not None:
            return f"stays:{name}", f'rows of source "{name}" may not be where this view needs them'
    if bound and fastest_plan(_release_sources(question, set(bound)), highest_peak=math.inf) is not None:
        return f"stays:{bound[0]}", f"rows of sources {', '.join(bound)} may not be where this view needs them"
    return "no_route", f'no links lead from the sources of view "{question.contract.view}" to where it is wanted'


def _release_sources(question: Question, sources: set[str]) -> Question:
    """The question, if these sources could be anywhere."""
    return replace(question, cores=tuple(_release_core(core, sources) for core in question.cores))


def _release_core(core: CoreStatistics, sources: set[str]) -> CoreStatistics:
    facts = {
        read.source: replace(
            input_.facts, stays={name: stays for name, stays in input_.facts.stays.items() if name not in sources}
        )
        for read, input_ in zip(core.block.inputs, core.inputs, strict=True)
    }
    shares = {input_.alias: input_.share for input_ in core.inputs}
    return CoreStatistics(core.block, facts, shares, core.residual_shares, core.name, core.size, core.meant)


# What binds


def _binding(question: Question, fastest: Answer) -> tuple[str, str]:
    if fastest.path_s > question.limit_s:
        if smallest_freshness_s(question, limited=False) is None:
            return _say_saturated(question, fastest)
        return "freshness", (
            f"the fastest plan takes {format_seconds(fastest.path_s)} for {format_seconds(question.batch_s)} "
            f"of changes, and {what_is_left(question)}"
        )
    if fastest_plan(question, limit_s=question.limit_s) is None:
        return _say_saturated(question, fastest)
    return _say_exhausted(question)


def what_is_left(question: Question) -> str:
    """Says what is left: of half the freshness, the time that pushes may wait for each other is not left."""
    if question.limit_s <= 0.0:
        return f"it may have to wait {format_seconds(question.batch_s - question.limit_s)} for others"
    return f"{format_seconds(question.limit_s)} are left"


def _binding_for_method(question: Question, fastest: Answer) -> tuple[str, str]:
    """SMILE's methods look at one plan only, and may refuse what another plan would keep."""
    found = best_plan(question if question.method is not Method.SMILE else replace(question, method=Method.DPT))
    if found is None or fastest.path_s > question.limit_s:
        return _binding(question, fastest)
    if found.path_s > question.limit_s:
        took = format_seconds(found.path_s)
        return "freshness", f"the plan that {question.method} finds takes {took}, and {what_is_left(question)}"
    return _reason(question, found.overloaded[0].name, found)


def _say_saturated(question: Question, answer: Answer) -> tuple[str, str]:
    """The busiest operator of the fastest plan, with so many changes at once that only rates count."""
    x = question.batch_s if question.rule is Admission.PAPER else LARGEST_FRESHNESS_S / 2
    graph, tariff = answer.graph, question.live.tariff
    upstream = arrivals(graph, tariff, x, [answer.promise.vertex])
    busy = {name: time_of_edge(graph, graph.edges[name], tariff, x) / x for name in upstream if name in graph.edges}
    name = max(sorted(busy), key=lambda name: busy[name])
    edge = graph.edges[name]
    detail = (
        f"{DOING[edge.op]} {name_vertex(graph.vertices[name])} takes {busy[name]:.3g} s for every second of changes"
    )
    if edge.op is Operator.COPY:
        src, dst = graph.vertices[edge.inputs[0]].site, graph.vertices[name].site
        bandwidth = tariff.links[src, dst].carries
        detail += "" if bandwidth is None else f", over a link of {format_bandwidth(bandwidth)} from {src}"
    return f"operator:{edge.op}>{name}", detail


def _say_exhausted(question: Question) -> tuple[str, str]:
    """The capacity without which there would be a plan; if it takes several, the one that has least left."""
    binding, resources = find_exhausted(question), question.resources
    for resource in binding:
        others = [other for other in resources if other.name != resource.name]
        without = fastest_plan(question, others, question.limit_s)
        if without is not None:
            return _reason(question, resource.name, without)
    unlimited = fastest_plan(question, limit_s=question.limit_s)
    if not binding or unlimited is None:  # the search that is not exact has missed a plan that the fastest one shows
        return "freshness", f"no plan was found that takes at most {format_seconds(question.limit_s)}"
    least = min(binding, key=lambda resource: (resource.left, resource.name))
    return _reason(question, least.name, unlimited)


def _reason(question: Question, resource: str, without: Answer) -> tuple[str, str]:
    """`without` is the plan that there would be if this resource had no limit."""
    before, after = (
        next(one for one in resources_left(question.catalogue, bill) if one.name == resource)
        for bill in (question.live.bill, _bill_with(question, without))
    )
    left, needed = max(before.left, 0.0), before.left - after.left
    if before.link is not None:
        src, dst = before.link
        there = f"the link from {src} to {dst} has {format_bandwidth(left)} left"
        return resource, f"{there}, and the fastest plan needs {format_bandwidth(needed)}"
    if before.disk_of is not None:
        there = f"the disk of site {before.disk_of} has {format_bytes(left)} left"
        return resource, f"{there}, and the fastest plan needs {format_bytes(needed)}"
    site = min(before.cpu_of, key=lambda name: (name != question.contract.site, name))
    there = f"{'sites' if before.cpu_of[1:] else 'site'} {' and '.join(before.cpu_of)}"
    there += f" {'have' if before.cpu_of[1:] else 'has'} {format_number(left)} cores left"
    return f"cpu:{site}", f"{there}, and the fastest plan needs {format_number(needed)}"


def _bill_with(question: Question, answer: Answer) -> Bill:
    live = question.live
    return bill_of(answer.graph, live.tariff, serves(answer.graph, (*live.promises, answer.promise)))


# The counter-offer


def smallest_freshness_s(question: Question, limited: bool = True) -> float | None:
    """The least freshness that would be promised with everything else unchanged, rounded up to seven digits.

    None if there is none. Without `limited`, as if capacities were unlimited.
    """
    resources = question.resources if limited else ()
    found = _some_plan(question, resources)
    if found is None:
        return None
    smallest = _smallest_of(*found, resources)
    while (found := _in_time(question.at_freshness(smallest * (1 - CLOSE)), resources)) is not None:
        smallest = _smallest_of(*found, resources)
    return _round_up(smallest)


def _some_plan(question: Question, resources: tuple[Resource, ...]) -> tuple[Question, Answer] | None:
    """A plan that is in time at some freshness, the smaller the better."""
    has_disks = any(resource.disk_of is not None for resource in resources)
    freshness_s, step = (question.freshness_s / 1000, FINE_STEP) if has_disks else (question.freshness_s, STEP)
    while freshness_s <= LARGEST_FRESHNESS_S:
        found = _in_time(question.at_freshness(freshness_s), resources)
        if found is not None:
            return found
        freshness_s *= step
    return None


def _in_time(question: Question, resources: tuple[Resource, ...]) -> tuple[Question, Answer] | None:
    answer = fastest_plan(question, resources, question.limit_s) if question.limit_s > 0 else None
    return None if answer is None else (question, answer)


def _smallest_of(question: Question, answer: Answer, resources: tuple[Resource, ...]) -> float:
    """The least freshness at which this very plan is in time and within capacities: it is, at the question's."""
    low, high = 0.0, question.freshness_s
    while high - low > CLOSE / 100 * high:
        middle = (low + high) / 2
        if _still_kept(question.at_freshness(middle), answer, resources):
            high = middle
        else:
            low = middle
    return high


def _still_kept(question: Question, answer: Answer, resources: tuple[Resource, ...]) -> bool:
    graph, live, x = answer.graph, question.live, question.batch_s
    if question.limit_s <= 0:
        return False
    at = arrivals(graph, live.tariff, x, [answer.promise.vertex])
    if at[answer.promise.vertex] > question.limit_s:
        return False
    if any(time_of_edge(graph, graph.edges[name], live.tariff, x) >= x for name in at if name in graph.edges):
        return False
    if not resources:
        return True
    promise = replace(answer.promise, batch_s=x, freshness_s=question.freshness_s)
    bill = _bill_with(question, replace(answer, promise=promise))
    return not find_overloaded(question.catalogue, bill, live.bill)


def _smallest_by_method(question: Question) -> float | None:
    """The smallest freshness for a method that looks at one plan only, by bisection."""
    low, high = 0.0, question.freshness_s
    while admit(question.at_freshness(high)) is None:
        low, high = high, high * STEP
        if high > LARGEST_FRESHNESS_S:
            return None
    while high - low > CLOSE * high:
        middle = (low + high) / 2
        low, high = (low, middle) if admit(question.at_freshness(middle)) is not None else (middle, high)
    return _round_up(high)


def _round_up(value: float) -> float:
    exponent = math.floor(math.log10(value)) - 6
    return float(f"{math.ceil(value / 10.0**exponent)}e{exponent}")
