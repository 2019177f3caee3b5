"""Prices and targets as they are typed on a command line, next to tables that hold the rates."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from fractions import Fraction

from headrace.model.errors import UsageError, nearest_name
from headrace.plan.exact_json import exact_amount
from headrace.plan.feeds.amounts import MOST_DIGITS
from headrace.plan.feeds.feeds_document import MOST_SHOWN, WITH_LATENCY
from headrace.plan.feeds.instance import Latency, MeanPulls, Model, Percentile, Pricing
from headrace.plan.feeds.tables import DefaultPrices


def read_prices(store: str, fetch: str, batch: str, model: str, shown: int) -> DefaultPrices:
    """H, L and L0 exactly as typed, with the model they are for."""
    if model not in tuple(Model):
        known = ", ".join(Model)
        raise UsageError(f'there is no model "{model}"', nearest_name(model, Model) or f"the models are {known}")
    if not 1 <= shown <= MOST_SHOWN:
        raise UsageError(f"-k must be from 1 to {MOST_SHOWN}, not {shown}", "it is the number of events of a feed")
    pricing = Pricing(Model(model), read_amount(batch, "--L0"), shown)
    return DefaultPrices(read_amount(store, "-H"), read_amount(fetch, "-L"), pricing)


def read_target(mean_pulls: str | None, percentile: str | None, most_pulls: int, model: Model) -> Latency | None:
    if mean_pulls is None and percentile is None:
        return None
    if mean_pulls is not None and percentile is not None:
        raise UsageError("--mean-pulls and --percentile are two targets", "give one of them")
    if model not in WITH_LATENCY:
        raise UsageError(f'a latency target does not go with model "{model}"', 'it goes with "rpc" and "batch"')
    if percentile is None:
        return MeanPulls(read_amount(mean_pulls or "0", "--mean-pulls"))
    share = read_amount(percentile, "--percentile")
    if share > 1:
        raise UsageError(f"--percentile must be at most 1, not {percentile}", "0.95 is the 95th percentile")
    if most_pulls < 0:
        raise UsageError(f"--max-pulls must not be negative, but is {most_pulls}")
    return Percentile(share, most_pulls)


def read_amount(text: str, option: str) -> Fraction:
    try:
        return exact_amount(Decimal(text), MOST_DIGITS)
    except InvalidOperation as error:
        raise UsageError(f'{option} must be a number, not "{text}"', f"{option} 3") from error
    except ValueError as error:
        raise UsageError(f"{option} {error}", f"{option} 3") from error
