"""What `headrace why` tells people and programs about one decision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from math import isclose
from types import MappingProxyType
from typing import Any

from headrace.app.explaining import Explained, write_template
from headrace.doors.cli.feed_text import why_feed_document, why_feed_text, why_pair_document, why_pair_text
from headrace.doors.cli.output import count, table, wrap
from headrace.doors.cli.plan_text import dollars_per_hour, how_kept, refusal_lines, step
from headrace.doors.cli.status_text import move_lines, version_lines
from headrace.doors.cli.template_text import why_placed_pair_document, why_placed_pair_text, why_template_text
from headrace.model import amounts
from headrace.model.explanation import (
    Alternative,
    Grounds,
    OtherWay,
    ResultSize,
    SourceRate,
    StatisticOrigin,
    Why,
    WhyContract,
    WhyFeed,
    WhyPair,
    WhyPlacedPair,
    WhyRejected,
    WhyTemplate,
    WhyVertex,
)
from headrace.model.names import name_of_view
from headrace.model.plan import Plan
from headrace.model.words import name_dataset, name_ids, name_vertex

Measured = Mapping[str, Mapping[str, Any]]
"""What is known of contracts that run, by their names, as `headrace status` has it."""


def write_answers(found: Explained, status: Mapping[str, Any], now: float) -> str:
    """Everything about a name. `status` is the last that a service told, with what it moved."""
    measured = _by_name(status)
    told = {one.plan.contract for one in found.answers if isinstance(one, WhyContract)}
    moves = [move for move in status.get("moves", ()) if told & set(move["contracts"])]
    answers = (why_text(found.plan, answer, measured) for answer in found.answers)
    behind = "\n".join((*grounds_lines(found.grounds), *move_lines(moves, now)))
    return "\n\n".join(filter(None, (*answers, behind)))


def explained_document(name: str, found: Explained, status: Mapping[str, Any]) -> dict[str, object]:
    measured = _by_name(status)
    answers = [why_document(answer, measured) for answer in found.answers]
    return {"name": name, "answers": answers, "grounds": asdict(found.grounds)}


def _by_name(status: Mapping[str, Any]) -> Measured:
    return {contract["id"]: contract for contract in status["contracts"]}


def grounds_lines(grounds: Grounds) -> Iterator[str]:
    """What answers about a running plan rest on; nothing to say of files alone."""
    if grounds.is_running:
        yield "based on the running plan, with these numbers"
        yield from table([[one.source, *_rate(one)] for one in grounds.rates])
        for one in grounds.sizes:
            yield from wrap(_size(one), "  ", "    ")
        slowness = grounds.slowness
        yield "  pushes take " + (
            "as long as planned" if slowness is None else f"{slowness:.2g} times as long as planned"
        )


def _rate(one: SourceRate) -> list[str]:
    """Nobody needs more than three digits of what is measured."""
    rate = amounts.format_rate(float(f"{one.rate:.3g}"))
    if one.origin is not StatisticOrigin.MEASURED:
        return [rate, one.origin.value]
    return [rate, "measured" + ("" if one.declared is None else f", {amounts.format_rate(one.declared)} declared")]


def _size(one: ResultSize) -> str:
    holds = [] if one.rows is None else [f"holds {amounts.format_rows(float(f'{one.rows:.3g}'))}"]
    changes = [] if one.rate is None else [f"changes {amounts.format_rate(float(f'{one.rate:.3g}'))}"]
    return f"{one.result} {' and '.join(holds + changes)}, as measured"


def why_text(plan: Plan, answer: Why, measured: Measured = MappingProxyType({})) -> str:
    match answer:
        case WhyContract():
            found = measured.get(answer.plan.contract)
            return "\n".join([*_tell_contract(plan, answer, found), *_tell_measured(found)])
        case WhyRejected():
            return "\n".join(_tell_rejected(plan, answer))
        case WhyVertex():
            return "\n".join(_vertex(plan, answer))
        case WhyFeed():
            return "\n".join(why_feed_text(plan, answer))
        case WhyPair():
            return "\n".join(why_pair_text(answer))
        case WhyTemplate():
            return "\n".join(why_template_text(answer))
        case WhyPlacedPair():
            return "\n".join(why_placed_pair_text(answer))


def why_document(answer: Why, measured: Measured = MappingProxyType({})) -> dict[str, object]:
    """The answers as values; the plan document has the rest of the vertex or contract."""
    match answer:
        case WhyContract():
            found = measured.get(answer.plan.contract)
            return {
                **({} if found is None else {"measured": dict(found)}),
                "kind": "contract",
                "contract": answer.plan.contract,
                "kept": True,
                "cost": answer.plan.cost,
                "score_h": answer.plan.cost * 3600.0,
                "money_h": answer.plan.money * 3600.0,
                "critical_path_s": answer.plan.critical_path_s,
                "limit_s": answer.limit_s,
                "steps": [asdict(passed) for passed in answer.steps],
                "states": list(answer.states),
                "shared": list(answer.shared),
                "shared_with": answer.others,
                "alternatives": [asdict(alternative) for alternative in answer.alternatives],
                **({} if answer.other_way is None else {"refresh": _write_other_way(answer.other_way)}),
            }
        case WhyRejected():
            return {
                "kind": "contract",
                "contract": answer.rejection.contract,
                "kept": False,
                "reason": answer.rejection.reason,
                "detail": answer.rejection.detail,
                "fastest_cp_s": answer.rejection.fastest_cp_s,
                "smallest_staleness": answer.rejection.smallest_staleness_s,
                "alternatives": [asdict(alternative) for alternative in answer.alternatives],
            }
        case WhyVertex():
            return {
                "kind": "vertex",
                "vertex": answer.vertex.id,
                "site": answer.vertex.site,
                "readers": list(answer.readers),
                "serves": list(answer.serves),
                "rate": answer.rate,
                "arrival_s": answer.arrival_s,
                "cost": answer.cost,
            }
        case WhyFeed():
            return why_feed_document(answer)
        case WhyPair():
            return why_pair_document(answer)
        case WhyTemplate():
            return {"kind": "template", **write_template(answer.plan)}
        case WhyPlacedPair():
            return why_placed_pair_document(answer)


def _write_other_way(other: OtherWay) -> dict[str, object]:
    """Which way is taken and which is not; numbers are of the one that is not."""
    ways = ("full", "incremental") if other.in_full else ("incremental", "full")
    return {
        "way": ways[0],
        "other": ways[1],
        "other_cost": other.cost,
        "other_score_h": None if other.cost is None else other.cost * 3600.0,
        "other_critical_path_s": other.path_s,
        "why_not": other.why_not,
        "rate": other.rate,
        "other_is_cheaper_at_rate": other.wins_at,
    }


def _tell_contract(plan: Plan, answer: WhyContract, found: Mapping[str, Any] | None) -> Iterator[str]:
    """`found` is what its service says of it."""
    kept = answer.plan
    kept_s, where = amounts.format_seconds(kept.freshness_s), f"{name_of_view(kept.view)} at {kept.site}"
    how = f"within {kept_s} is kept{how_kept(plan.catalogue, kept.contract)}"
    if found is not None and found.get("forced"):
        promised = amounts.format_seconds(found["freshness_s"])
        how = f"within {promised} is forced: served last, on a best-effort basis, as if {kept_s} were promised"
    yield from wrap(f"{where} {how}", f'contract "{kept.contract}": ', "  ")
    yield from version_lines({} if found is None else dict(found))
    proven = "" if kept.exact else " (the best found, not proven best)"
    yield f"  score {dollars_per_hour(kept.cost)}{proven}"
    yield f"  money {dollars_per_hour(kept.money)} planned"
    if answer.other_way is not None:
        yield from wrap(_tell_other_way(answer.other_way), "  refresh auto: ", "    ")
    if answer.shared:
        shared = count(len(answer.shared), "vertex", "vertices")
        yield f"  {shared} shared with {count(answer.others, 'other contract')}"
    if answer.steps:
        taken, limit = amounts.format_seconds(kept.critical_path_s), amounts.format_seconds(answer.limit_s)
        changes = f"{amounts.format_seconds(kept.batch_s)} of changes"
        yield from wrap(f"slowest path: {changes} take {taken} to arrive, of {limit} allowed", "", "  ")
        yield from table(
            [
                [amounts.format_seconds(passed.arrives_s), f"at {passed.site}", _tell_passed(plan, passed.vertex)]
                for passed in answer.steps
            ]
        )
    others = _different(answer.alternatives, (kept.cost, kept.critical_path_s))
    yield from (
        _alternatives(others) if others else ["no other plan has a lower score or is faster, with or without sharing"]
    )


def _tell_other_way(other: OtherWay) -> str:
    """Tells which way was taken to refresh a view, what the other would cost, and when it would be cheaper."""
    taken, doing = "maintained from changes", "recomputing it in full"
    if other.in_full:
        taken, doing = "recomputed in full", "maintaining it from changes"
    if other.cost is None or other.path_s is None:
        return f"{taken}; {doing} would not keep the promise: {other.why_not}"
    price = f"{taken}; {doing} would have score {dollars_per_hour(other.cost)} and take"
    return f"{price} {amounts.format_seconds(other.path_s)}; {_tell_winning_rate(other)}"


def _tell_winning_rate(other: OtherWay) -> str:
    now = f"now {amounts.format_rate(float(f'{other.rate:.3g}'))}"
    if other.wins_at is None:
        return f"it would be dearer at any rate of changes ({now})"
    if other.wins_at == other.rate:
        return "it would be cheaper now: a running project switches when it has been 20 % cheaper for an hour"
    direction = "up to" if other.in_full else "from"
    return f"it would be cheaper {direction} {amounts.format_rate(float(f'{other.wins_at:.2g}'))} of changes ({now})"


def _tell_measured(found: Mapping[str, Any] | None) -> Iterator[str]:
    """Tells what was measured of a contract that runs, or ran last."""
    if found is None or found["lag_s"] is None:
        return
    took = "" if found["last_push_s"] is None else f", the last push took {found['last_push_s']:.2g} s"
    error = found.get("prediction_error")
    took += "" if error is None else f" (nine of ten are predicted within {error:.0%})"
    yield from wrap(
        f"{found['lag_s']:.1f} s behind{took}, {count(found['violations'], 'violation')}, {found['state']}",
        "measured: ",
        "  ",
    )


def _different(alternatives: Sequence[Alternative], kept: tuple[float, float]) -> list[Alternative]:
    """Those that are neither what is kept nor one that was named before; shares of common costs blur the comparison.

    A plan is not told as the cheapest or the fastest if the one that is kept is no dearer or no slower.
    """
    named, found = [kept], list[Alternative]()
    for other in alternatives:
        cheap, fast = other.name.startswith("cheapest"), other.name.startswith("fastest")
        if (cheap and other.cost >= kept[0]) or (fast and other.path_s >= kept[1]):
            continue
        if not any(isclose(other.cost, cost, rel_tol=1e-2) and isclose(other.path_s, path) for cost, path in named):
            found.append(other)
            named.append((other.cost, other.path_s))
    return found


def _tell_passed(plan: Plan, vertex: str) -> str:
    edge = plan.graph.edges.get(vertex)
    return name_dataset(plan.graph.vertices[vertex]) if edge is None else step(plan, edge)


def _tell_rejected(plan: Plan, answer: WhyRejected) -> Iterator[str]:
    yield f'contract "{answer.rejection.contract}" is refused'
    yield from refusal_lines(answer.rejection, plan.catalogue)
    yield from _alternatives(answer.alternatives)


def _alternatives(alternatives: Sequence[Alternative]) -> Iterator[str]:
    if alternatives:
        yield "alternatives"
    for alternative in alternatives:
        verdict = f"; not taken: {alternative.why_not}" if alternative.why_not else ""
        score, path = dollars_per_hour(alternative.cost), amounts.format_seconds(alternative.path_s)
        yield from wrap(f"{alternative.name}: score {score}, {path}{verdict}", "  ", "    ")


def _vertex(plan: Plan, answer: WhyVertex) -> Iterator[str]:
    vertex = answer.vertex
    yield name_vertex(vertex)
    if answer.producer is not None:
        yield from wrap(step(plan, answer.producer), "  made by  ")
    yield f"  arrives  {amounts.format_seconds(answer.arrival_s)} after a push begins"
    yield f"  costs    {dollars_per_hour(answer.cost)}"
    yield from wrap(", ".join(answer.serves), "  serves   ")
    if answer.readers:
        yield from wrap(", ".join(name_ids(answer.readers, plan.graph.vertices)), "  read by  ")
