"""What `headrace check --json` tells programs: seconds, bytes, dollars; null where nothing is declared."""

from __future__ import annotations

from headrace.app.checking import CheckReport, ViewReport
from headrace.doors.cli.output import problem_document
from headrace.model.catalogue import Catalogue, Contract, Refusal, Source, SourceColumn
from headrace.model.copy_places import place_document
from headrace.model.errors import Severity
from headrace.model.names import name_of_view


def check_document(report: CheckReport) -> dict[str, object]:
    errors = report.of(Severity.ERROR)
    return {
        "ok": not errors,
        "errors": [problem_document(problem) for problem in errors],
        "warnings": [problem_document(problem) for problem in report.of(Severity.WARNING)],
        "notes": [problem_document(problem) for problem in report.of(Severity.NOTE)],
        **({} if report.catalogue is None else _project(report.catalogue, report)),
    }


def _project(catalogue: Catalogue, report: CheckReport) -> dict[str, object]:
    return {
        "project": catalogue.project,
        "sites": [
            {
                "name": site.name,
                "cpu_price_h": site.cpu_price_h,
                "disk_price_gb_month": site.disk_price_gb_month,
                "cpu_cap": site.cores,
                "disk_cap": site.disk_capacity,
                "speed": site.speed,
                "host": site.host,
            }
            for site in catalogue.sites.values()
        ],
        "links": [
            {
                "src": link.src,
                "dst": link.dst,
                "bandwidth": link.bandwidth,
                "latency": link.latency_s,
                "price_gb": link.price_gb,
            }
            for link in catalogue.links
        ],
        "sources": [_source(source) for source in catalogue.sources.values()],
        "views": [_view_document(view) for view in report.views],
        "contracts": [_contract_document(contract) for contract in catalogue.contracts.values()],
        "feeds": list(catalogue.feeds),
        "devices": list(catalogue.devices),
        "templates": list(catalogue.templates),
    }


def _source(source: Source) -> dict[str, object]:
    return {
        "name": source.name,
        "kind": source.kind.value,
        "site": source.site,
        "key": list(source.key),
        "columns": None if source.columns is None else [_column_document(column) for column in source.columns],
        "rows": source.rows,
        "rate": source.rate,
        "static": source.static,
        "stays": None if source.stays is None else list(source.stays.sites),
    }


def _column_document(column: SourceColumn) -> dict[str, object]:
    return {"name": column.name, "type": str(column.type), "width": column.width, "distinct": column.distinct}


def _view_document(view: ViewReport) -> dict[str, object]:
    refused = view.refused
    return {
        "name": view.name,
        "columns": [{"name": field.name, "type": str(field.type)} for field in view.columns],
        "fingerprint": view.fingerprint,
        "reads": list(view.reads),
        "refused": None if refused is None else _refusal(refused),
    }


def _refusal(refused: Refusal) -> dict[str, object]:
    first, *others = map(problem_document, refused.problems)
    return {"operator": refused.operator, **first, "others": others}


def _contract_document(contract: Contract) -> dict[str, object]:
    return {
        "name": contract.name,
        "view": name_of_view(contract.view),
        "site": contract.site,
        "staleness": contract.freshness_s,
        "penalty": contract.penalty,
        "owner": contract.owner,
        "refresh": contract.refresh.value,
        "deliver": None if contract.deliver is None else place_document(contract.deliver),
    }
