"""Explains decisions and answers "what if" for the running plan, as measured, or for a project's files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from headrace.app.asking import ANSWER_WITHIN_S
from headrace.app.planning import plan_project
from headrace.app.project import everything_read, planned_catalogue
from headrace.connect.service_client import ask
from headrace.coordinate.measured import read_measured, running_to_plan_on
from headrace.declare.units import BANDWIDTH, DURATION, FACTOR, RATE, Unreadable, read_amount
from headrace.model.catalogue import Catalogue
from headrace.model.errors import ConnectError, UsageError
from headrace.model.explanation import ContractOutcome, Grounds, ImaginedChange, PairRates, WhatIf, Why, WhyPair
from headrace.model.feed_names import name_stored
from headrace.model.feed_plan import PlannedPrices
from headrace.model.plan import Plan, PlannedBlock, PlanOptions
from headrace.model.statistics import rate_of
from headrace.plan.explain import grounds, results_of, sources_of, what_if, what_if_running, why
from headrace.plan.feeds.explain_feed import explain_pair, find_feed_plan, mean_rates, read_pair_name
from headrace.plan.share.adapt import plan_as_measured
from headrace.plan.share.revalue import Measured
from headrace.site.folder import Folder
from headrace.site.process import running_process

if TYPE_CHECKING:
    from headrace.coordinate.host import ServiceHost


@dataclass(frozen=True, slots=True)
class Explained:
    """Answers about a name, the plan that they are about, and the statistics that they rest on."""

    plan: Plan
    answers: tuple[Why, ...]
    grounds: Grounds


def explain(directory: Path, environment: Mapping[str, str], name: str) -> Explained:
    """Why a plan is as it is for a contract, a view or a vertex: the plan that runs, as measured, if it has one of that
    name; else that of the files.
    """
    running, measured = _as_it_runs(directory)
    if running is not None:
        try:
            answers = _ask_about_pair(directory, running, name) or why(running, name)
            return Explained(running, answers, _grounds(running, name, measured))
        except UsageError:
            pass  # what is not applied yet may be in the files
    plan = plan_project(directory, environment, PlanOptions())
    return Explained(plan, why(plan, name), _grounds(plan, name))


def explain_running(host: ServiceHost, name: str) -> Explained:
    """Why the plan that runs is so, at what is measured now."""
    measured = host.measured()
    plan = plan_as_measured(host.reader().plan, measured)
    return Explained(plan, _explain_decided(host, plan, name) or why(plan, name), _grounds(plan, name, measured))


def _explain_decided(host: ServiceHost, plan: Plan, name: str) -> tuple[Why, ...]:
    """Why a pair of a running feed is as it was decided; nothing if that is not what the name names, or not known."""
    pair = read_pair_name(name)
    feed = None if pair is None else plan.catalogue.feeds.get(pair[0])
    planned = None if feed is None else find_feed_plan(plan, feed.name)
    if pair is None or feed is None or planned is None:
        return ()
    rates, prices = host.feeds.deciding.find_pair(*pair) or (mean_rates(planned), host.feeds.find_prices(feed.name))
    return (explain_pair(feed, planned, pair[1], pair[2], rates, prices),)


def _ask_about_pair(directory: Path, running: Plan, name: str) -> tuple[Why, ...]:
    """What the service says about a pair: only it knows who reads and posts how often."""
    pair, process = read_pair_name(name), running_process(Folder(directory))
    if pair is None or process is None or pair[0] not in running.catalogue.feeds:
        return ()
    try:
        told = ask(process.port, process.token, "GET", f"/why/{quote(name, safe='')}", within_s=ANSWER_WITHIN_S)
    except ConnectError:
        return ()  # what was planned is told instead
    return tuple(_read_pair(one) for one in told["answers"])


def _read_pair(told: Mapping[str, Any]) -> WhyPair:
    """A pair as `why --json` tells it."""
    return WhyPair(
        told["feed"],
        told["consumer"],
        told["producer"],
        stored_ahead=told["decision"] == "push",
        rates=PairRates(**told["rates"]),
        prices=PlannedPrices(**told["prices"]),
        stored_cost_h=told["store_cost_h"],
        read_cost_h=told["read_cost_h"],
        because=told["because"],
    )


def _grounds(plan: Plan, name: str, measured: Measured | None = None) -> Grounds:
    return grounds(plan.catalogue, sources_of(plan, name), measured, results_of(plan, name))


def _as_it_runs(directory: Path) -> tuple[Plan, Measured] | tuple[None, None]:
    """The plan of a service that runs now, with what it measured."""
    folder = Folder(directory)
    plan = None if running_process(folder) is None else folder.running()
    if plan is None:
        return None, None
    measured = read_measured(folder) or Measured(0.0)
    return plan_as_measured(plan, measured), measured


@dataclass(frozen=True, slots=True)
class Wishes:
    """What to imagine, as a person writes it: `5s`, a site, `us>eu=50 Mbps`, `tweets=2x` or `tweets=200 /s`."""

    freshness: str | None = None
    site: str | None = None
    links: tuple[str, ...] = ()
    rates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Imagined:
    """`on_apply` is what would become of the contract at planned instead of measured times, if that is not the same."""

    answer: WhatIf
    grounds: Grounds
    on_apply: ContractOutcome | None = None


def imagine(directory: Path, environment: Mapping[str, str], contract: str, wishes: Wishes) -> Imagined:
    """The contract, and what else changes, before and after: from what runs, as measured, if it has the contract; else
    from the files.
    """
    running, measured = _as_it_runs(directory)
    on_apply, results = None, tuple[PlannedBlock, ...]()
    if running is not None and _is_running(running, contract):
        catalogue, results = running.catalogue, results_of(running, contract)
        answer = what_if_running(running, contract, _make_change(catalogue, wishes))
        planned = running_to_plan_on(Folder(directory)) or running
        applied = what_if_running(planned, contract, _make_change(planned.catalogue, wishes)).after
        on_apply = None if applied.kept is answer.after.kept else applied
    else:
        catalogue = planned_catalogue(directory, environment)
        answer = what_if(catalogue, contract, _make_change(catalogue, wishes))
    read = _find_read(catalogue, contract)
    return Imagined(answer, grounds(catalogue, read, measured, results), on_apply)


def _is_running(running: Plan, name: str) -> bool:
    return name in running.catalogue.contracts or name_stored(name) in running.catalogue.contracts


def _find_read(catalogue: Catalogue, name: str) -> frozenset[str]:
    """Everything that the view of a contract reads, or a feed."""
    feed = catalogue.feeds.get(name)
    if name in catalogue.contracts or feed is None:
        return everything_read(catalogue, catalogue.contracts[name].view)
    return everything_read(catalogue, feed.events.source) | everything_read(catalogue, feed.follows.source)


def _make_change(catalogue: Catalogue, wishes: Wishes) -> ImaginedChange:
    try:
        return ImaginedChange(
            freshness_s=None if wishes.freshness is None else read_amount(wishes.freshness, DURATION),
            site=wishes.site,
            bandwidth={_ends(name): read_amount(amount, BANDWIDTH) for name, amount in map(_pair, wishes.links)},
            rate={name: _rate(catalogue, name, amount) for name, amount in map(_pair, wishes.rates)},
        )
    except Unreadable as error:
        raise UsageError(error.message, error.hint) from error


def _pair(wish: str) -> tuple[str, str]:
    name, equals, amount = wish.partition("=")
    if not equals:
        raise UsageError(f'"{wish}" is not NAME=AMOUNT', "write for example tweets=2x, or 'us>eu=50 Mbps'")
    return name.strip(), amount.strip()


def _ends(link: str) -> tuple[str, str]:
    src, _, dst = link.partition(">")
    return src.strip(), dst.strip()


def _rate(catalogue: Catalogue, source: str, amount: str) -> float:
    """`2x` is twice what is measured, declared or assumed now. Who names no source is told so later."""
    if source not in catalogue.sources:
        return 0.0
    if amount.endswith("x"):
        return rate_of(catalogue.sources[source]) * read_amount(amount, FACTOR)
    return read_amount(amount, RATE)
