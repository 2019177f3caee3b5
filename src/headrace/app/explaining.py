"""Explains decisions and answers "what if" for the running plan, as measured, or for a project's files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from headrace.app.asking import ANSWER_WITHIN_S
from headrace.app.planning import plan_project
from headrace.app.project import everything_read, planned_catalogue
from headrace.app.template_rows import place_templates_of, read_template_rows
from headrace.connect.service_client import ask
from headrace.coordinate.feeds.feed_status import read_prices
from headrace.coordinate.measured import read_measured, running_to_plan_on
from headrace.declare.units import BANDWIDTH, DURATION, FACTOR, RATE, Unreadable, read_amount
from headrace.model.catalogue import Catalogue
from headrace.model.errors import ConnectError, InputError, UsageError
from headrace.model.explanation import (
    ContractOutcome,
    Grounds,
    ImaginedChange,
    PairRates,
    WhatIf,
    Why,
    WhyPair,
    WhyPlacedPair,
)
from headrace.model.feed_names import name_stored
from headrace.model.feed_plan import PlannedPrices
from headrace.model.plan import Plan, PlannedBlock, PlanOptions
from headrace.model.statistics import rate_of
from headrace.plan.explain import grounds, results_of, sources_of, what_if, what_if_running, why
from headrace.plan.feeds.explain_feed import explain_pair, find_feed_plan, mean_rates, read_pair_name
from headrace.plan.feeds.load import assume_prices
from headrace.plan.make import expand_declared
from headrace.plan.share.adapt import plan_as_measured
from headrace.plan.share.revalue import Measured
from headrace.plan.template_document import write_template
from headrace.site.folder import Folder
from headrace.site.last_status import last_status
from headrace.site.process import running_process
from headrace.site.site_folders import find_site_of_feed

__all__ = [
    "Explained",
    "Imagined",
    "Wishes",
    "explain",
    "explain_running",
    "imagine",
    "write_template",
]

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
        if name in running.catalogue.templates:
            running = place_templates_of(running, directory, environment)
        decided = _ask_about_pair(directory, running, name) or _ask_about_placed_pair(directory, running, name)
        try:
            placed = decided or _explain_placed_pair(running, directory, environment, name)
            return Explained(running, placed or why(running, name), _grounds(running, name, measured))
        except UsageError:
            pass  # what is not applied yet may be in the files
    plan = plan_project(directory, environment, PlanOptions())
    answers = _explain_placed_pair(plan, directory, environment, name) or why(plan, name)
    return Explained(plan, answers, _grounds(plan, name))


def _explain_placed_pair(plan: Plan, directory: Path, environment: Mapping[str, str], name: str) -> tuple[Why, ...]:
    """Why a pair of a template runs where it is placed; nothing if that is not what the name names."""
    template = plan.catalogue.templates.get(name.partition(":")[0])
    if template is None or ":" not in name:
        return ()
    from headrace.plan.place.explain_template import explain_placed_pair, read_pair_name
    from headrace.plan.place.family import place_groups

    rows = read_template_rows(plan.catalogue, directory, environment)
    group, pair = place_groups(plan.catalogue, rows).get(template.devices), read_pair_name(name)
    if group is None or pair is None:
        reasons = [why for why in rows.values() if isinstance(why, str)]
        what = f'template "{template.name}" cannot be placed without the rows of its tables'
        raise UsageError(f"{what}: {reasons[0]}" if reasons else what)
    return (explain_placed_pair(group, template.name, pair[1]),)


def explain_running(host: ServiceHost, name: str) -> Explained:
    """Why the plan that runs is so, at what is measured now."""
    measured, plan = host.measured(), host.reader().plan
    known = {name: host.feeds.find_prices(name) for name in plan.catalogue.feeds}
    calibrated = {name: prices for name, prices in known.items() if prices is not None and prices.calibrated}
    plan = plan_as_measured(_use_prices(plan, calibrated), measured)
    return Explained(plan, _explain_decided(host, plan, name) or why(plan, name), _grounds(plan, name, measured))


def _explain_decided(host: ServiceHost, plan: Plan, name: str) -> tuple[Why, ...]:
    """Why a pair of a running feed or template is as it was decided; nothing if that is not what the name names. Raises
    `UnknownName` for a pair that is not there.
    """
    placed = _read_placed_name(plan, name)
    if placed is not None:
        found_placed = host.devices.explain_pair(*placed)
        return () if found_placed is None else (found_placed,)
    pair = read_pair_name(name)
    feed = None if pair is None else plan.catalogue.feeds.get(pair[0])
    planned = None if feed is None else find_feed_plan(plan, feed.name)
    if pair is None or feed is None or planned is None:
        return ()
    found = host.feeds.deciding.find_pair(*pair)
    if found is None:
        host.feeds.check_pair(*pair)
    rates, prices = found or (mean_rates(planned), host.feeds.find_prices(feed.name))
    return (explain_pair(feed, planned, pair[1], pair[2], rates, prices),)


def _ask_about_pair(directory: Path, running: Plan, name: str) -> tuple[Why, ...]:
    """What the service says about a pair: only it knows who reads and posts how often."""
    pair = read_pair_name(name)
    if pair is None or pair[0] not in running.catalogue.feeds:
        return ()
    try:
        folder = find_site_of_feed(Folder(directory), pair[0])
    except UsageError:
        return ()  # it is kept on another machine: what was planned is told, as while nothing runs
    return tuple(map(_read_pair, _ask_why(folder, name)))


def _ask_about_placed_pair(directory: Path, running: Plan, name: str) -> tuple[Why, ...]:
    """What the service says about a pair of a template: only it knows where that runs, and how often rows come. Nothing
    if it knows no such pair, which may be in files that are not applied yet.
    """
    if _read_placed_name(running, name) is None:
        return ()
    try:
        return tuple(map(_read_placed_pair, _ask_why(Folder(directory), name)))
    except (UsageError, InputError):
        return ()


def _read_placed_name(plan: Plan, name: str) -> tuple[str, tuple[str, ...]] | None:
    """The template and the devices of `nearby:1,2`; None if that is not what the name names."""
    template, colon, devices = name.partition(":")
    return (template, tuple(devices.split(","))) if colon and template in plan.catalogue.templates else None


def _ask_why(folder: Folder, name: str) -> Sequence[Mapping[str, Any]]:
    """Answers of the service; none if it does not answer, and what was planned is told instead."""
    process = running_process(folder)
    if process is None:
        return ()
    try:
        told = ask(process.port, process.token, "GET", f"/why/{quote(name, safe='')}", within_s=ANSWER_WITHIN_S)
    except ConnectError:
        return ()
    found: Sequence[Mapping[str, Any]] = told["answers"]
    return found


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


def _read_placed_pair(told: Mapping[str, Any]) -> WhyPlacedPair:
    """A pair of a template as `why --json` tells it."""
    named = ("kind", "template", "devices", "because")
    numbers = {key: value for key, value in told.items() if key not in named}
    return WhyPlacedPair(told["template"], tuple(told["devices"]), told["at"], numbers, told["because"])


def _grounds(plan: Plan, name: str, measured: Measured | None = None) -> Grounds:
    return grounds(plan.catalogue, sources_of(plan, name), measured, results_of(plan, name))


def _as_it_runs(directory: Path) -> tuple[Plan, Measured] | tuple[None, None]:
    """The plan of a service that runs now, with what it measured."""
    folder = Folder(directory)
    plan = None if running_process(folder) is None else folder.running()
    if plan is None:
        return None, None
    measured = read_measured(folder) or Measured(0.0)
    return plan_as_measured(_use_prices(plan, _read_prices(folder, plan.catalogue)), measured), measured


def _read_prices(folder: Folder, catalogue: Catalogue) -> dict[str, PlannedPrices]:
    """Prices that were calibrated, by feed, as the service tells them."""
    told = (last_status(folder) or {}).get("feeds", ())
    return {
        one["id"]: read_prices(one["prices"], assume_prices(catalogue))
        for one in told
        if one["prices"] is not None and one["prices"]["measured"]
    }


def _use_prices(plan: Plan, prices: Mapping[str, PlannedPrices]) -> Plan:
    """The plan with feeds at prices that were calibrated."""
    feeds = {name: replace(feed, prices=prices.get(name)) for name, feed in plan.catalogue.feeds.items()}
    return replace(plan, catalogue=replace(plan.catalogue, feeds=feeds))


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
        planned = _use_prices(
            running_to_plan_on(Folder(directory)) or running,
            {name: feed.prices for name, feed in catalogue.feeds.items() if feed.prices is not None},
        )
        applied = what_if_running(planned, contract, _make_change(planned.catalogue, wishes)).after
        on_apply = None if applied.kept is answer.after.kept else applied
    else:
        catalogue = expand_declared(planned_catalogue(directory, environment))
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
