"""A template in a plan document: one vertex for the family of its pairs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from headrace.model.template_plan import TemplatePlan


def write_template(template: TemplatePlan) -> dict[str, Any]:
    """The family of a template's pairs as one vertex. `totals` are those of its views."""
    return {
        "id": template.template,
        "vertex": template.vertex,
        "site": template.site,
        "view": template.view,
        "group": template.group,
        "derived": list(template.derived),
        "kept": template.reason is None,
        "reason": template.reason,
        "detail": template.detail or None,
        "contracts": list(template.contracts),
        "devices": template.devices,
        "pairs": template.pairs,
        "on_devices": template.on_devices,
        "messages_s": None if template.placed is None else template.placed.messages_s,
        "all_cloud_messages_s": template.all_cloud.messages_s,
        "bytes_s": None if template.placed is None else template.placed.bytes_s,
        "all_cloud_bytes_s": template.all_cloud.bytes_s,
        "placed": None if template.placed is None else asdict(template.placed),
        "all_cloud": asdict(template.all_cloud),
        "method": template.method or None,
        "unread": template.unread or None,
        "load": {
            "cpu": dict(template.cpu),
            "link": {">".join(ends): rate for ends, rate in template.link.items()},
            "disk": dict(template.disk),
        },
    }
