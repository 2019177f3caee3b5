"""What `headrace check` tells people: the project in a screenful, then the findings."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.app.checking import CheckReport, ViewReport
from headrace.doors.cli.output import count, join_items, table, wrap
from headrace.model import amounts
from headrace.model.catalogue import Catalogue, Contract, Devices, Link, PostgresTable, Refresh, Site, Source, Template
from headrace.model.copy_places import name_place
from headrace.model.errors import Severity
from headrace.model.names import name_of_view
from headrace.model.statistics import are_rows_assumed, is_rate_assumed, rate_of, rows_of


def check_text(report: CheckReport) -> str:
    lines = [] if report.catalogue is None else list(_project(report.catalogue, report))
    lines += [str(problem) for problem in report.problems]
    return "\n".join([*lines, _verdict(report)])


def _verdict(report: CheckReport) -> str:
    mistakes, warnings = len(report.of(Severity.ERROR)), len(report.of(Severity.WARNING))
    parts = [count(mistakes, "mistake") if mistakes else "no mistakes"]
    parts += [count(warnings, "warning")] if warnings else []
    return ", ".join(parts)


def _project(catalogue: Catalogue, report: CheckReport) -> Iterator[str]:
    yield f'project "{catalogue.project}"'
    yield from _part("sites", [_tell_site(site) for site in catalogue.sites.values()])
    yield from _part("links", [_link(link, both) for link, both in _pairs(catalogue.links)])
    yield from _part("sources", [_source(source) for source in catalogue.sources.values()])
    if any(are_rows_assumed(source) or is_rate_assumed(source) for source in catalogue.sources.values()):
        yield "  (~ is assumed: neither declared nor measured)"
    yield from _views(report.views)
    yield from _part("contracts", [_tell_contract(contract) for contract in catalogue.contracts.values()])
    yield from _part("devices", [_tell_devices(devices) for devices in catalogue.devices.values()])
    yield from _part("templates", [_tell_template(template) for template in catalogue.templates.values()])
    for noun, names in (
        ("feed", catalogue.feeds),
        ("function", catalogue.functions),
    ):
        if names:
            yield f"{noun}s"
            yield from wrap(", ".join(names), "  ")
    yield ""


def _tell_devices(devices: Devices) -> list[str]:
    streams = [
        one.name + (f", kept for {amounts.format_seconds(one.keep_s)}" if one.keep_s is not None else "")
        for one in devices.streams
    ]
    return [devices.name, f"one per row of {devices.table}", f"streams {'; '.join(streams)}"]


def _tell_template(template: Template) -> list[str]:
    sides = ", ".join(f"{side} is {column}" for side, column in template.sides.items())
    return [template.name, f"{template.view} per row of {template.table}", f"on {template.devices}, {sides}"]


def _part(title: str, rows: list[list[str]]) -> Iterator[str]:
    if rows:
        yield title
        yield from table(rows)


def _tell_site(site: Site) -> list[str]:
    limits = [amounts.format_number(site.cores) + " cores"] if site.cores is not None else []
    limits += [amounts.format_bytes(site.disk_capacity)] if site.disk_capacity is not None else []
    limits += [f"speed {amounts.format_number(site.speed)}"] if site.speed != 1 else []
    limits += [f"on host {site.host}"] if site.host is not None else []
    cpu, disk = (
        amounts.format_price(site.cpu_price_h, "core-hour"),
        amounts.format_price(site.disk_price_gb_month, "GB-month"),
    )
    return [site.name, cpu, disk, join_items(limits) or "no limits"]


def _pairs(links: tuple[Link, ...]) -> Iterator[tuple[Link, bool]]:
    """Each link once: two directions that are alike count as one, marked so."""
    facts = {(link.src, link.dst): (link.bandwidth, link.latency_s, link.price_gb) for link in links}
    shown: set[tuple[str, str]] = set()
    for link in links:
        there, back = (link.src, link.dst), (link.dst, link.src)
        both = facts.get(back) == facts[there]
        if not (both and back in shown):
            shown.add(there)
            yield link, both


def _link(link: Link, both: bool) -> list[str]:
    bandwidth = "no limit" if link.bandwidth is None else amounts.format_bandwidth(link.bandwidth)
    latency, price = amounts.format_seconds(link.latency_s), amounts.format_price(link.price_gb, "GB")
    return [f"{link.src} {'<->' if both else '->'} {link.dst}", bandwidth, latency, price]


def _source(source: Source) -> list[str]:
    rows, rate = amounts.format_rows(rows_of(source)), amounts.format_rate(rate_of(source))
    rows = f"{'~' if are_rows_assumed(source) else ''}{rows}"
    rate = f"{'~' if is_rate_assumed(source) else ''}{rate}"
    columns = "columns not known" if source.columns is None else count(len(source.columns), "column")
    facts = [columns]
    facts += [f"key {', '.join(source.key)}"] if source.key else []
    facts += [f"stays at {', '.join(source.stays.sites)}"] if source.stays else []
    facts += [f"from {source.origin.table}"] if isinstance(source.origin, PostgresTable) else []
    return [source.name, f"{source.kind} at {source.site}", rows, rate, join_items(facts)]


def _views(views: tuple[ViewReport, ...]) -> Iterator[str]:
    """Each view with its columns. Views of one meaning are said to be one: they will share all work."""
    if views:
        yield "views"
    first: dict[str, str] = {}
    for view in views:
        facts = [f"from {', '.join(view.reads)}"] if view.reads else []
        if view.refused is not None:
            how = f"{'recomputed' if view.columns else 'not maintained'} ({view.refused.operator})"
            yield from wrap("; ".join([*facts, how]), f"  {view.name}  ")
            if view.columns:
                yield from wrap(_tell_columns(view), "    ")
            continue
        same = first.setdefault(view.fingerprint or view.name, view.name)
        facts += [f"the same as {same}"] if same != view.name else []
        yield from wrap("; ".join(facts), f"  {view.name}  ")
        yield from wrap(_tell_columns(view), "    ")


def _tell_columns(view: ViewReport) -> str:
    return join_items(f"{field.name} {field.type}" for field in view.columns)


def _tell_contract(contract: Contract) -> list[str]:
    facts = [f"within {amounts.format_seconds(contract.freshness_s)}"]
    facts += [amounts.format_price(contract.penalty, "row")] if contract.penalty else []
    facts += [f"for {contract.owner}"] if contract.owner else []
    facts += {Refresh.FULL: ["recomputed in full"], Refresh.AUTO: ["refresh auto"]}.get(contract.refresh, [])
    facts += [f"delivered to {name_place(contract.deliver)}"] if contract.deliver else []
    return [contract.name, f"{name_of_view(contract.view)} at {contract.site}", join_items(facts)]
