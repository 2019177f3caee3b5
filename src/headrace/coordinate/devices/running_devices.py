"""The devices of a running service as doors see them: its broker and router, the placement loop, and webhooks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from headrace.connect.mqtt.client import BrokerAccess
from headrace.connect.webhook import check_webhook
from headrace.coordinate.devices.device_status import (
    devices_document,
    document_of_device,
    template_documents,
    why_of_pair,
)
from headrace.coordinate.devices.loop import DeviceLoop
from headrace.coordinate.devices.notify import Notifying, Webhook
from headrace.coordinate.devices.router_terms import describe_streams, describe_templates
from headrace.declare.variables import fill
from headrace.model.broker_address import split_user
from headrace.model.errors import HeadraceError, UsageError
from headrace.model.explanation import WhyPlacedPair
from headrace.model.plan import Plan
from headrace.site.devices.processes import BrokerSettings, DeviceProcesses
from headrace.site.folder import Folder
from headrace.site.reading import ViewReader
from headrace.site.service import Service
from headrace.site.threads import running_beside
from headrace.site.troubles import NOTIFY, PLACEMENT

log = logging.getLogger("headrace.devices")

LOOK_EVERY_S = 0.25


class RunningDevices:
    """While no template runs, nothing of it does. Needs an open service."""

    def __init__(self, service: Service, folder: Folder, reader: Callable[[], ViewReader]) -> None:
        self._service, self._troubles = service, service.troubles
        self.processes: DeviceProcesses | None = None
        self.loop = DeviceLoop(
            folder,
            service.ledger,
            service.store,
            running=lambda: service.running,
            access=self._find_access,
            journal=service.journal,
            troubles=service.troubles,
            clock=service.clock,
        )
        self.notifying = Notifying(
            service.ledger,
            service.lease,
            service.journal,
            service.troubles,
            service.clock,
            reader,
            self._find_webhooks,
        )

    @contextmanager
    def running(self, settings: BrokerSettings) -> Iterator[None]:
        """Keeps broker and router while templates run, places pairs, and posts changes, until it is left."""
        with (
            running_beside(lambda end: self._keep_processes(settings, end), "devices"),
            running_beside(self.loop.run, "place pairs"),
            running_beside(self.notifying.run, "notify"),
        ):
            yield

    # Broker and router

    def _keep_processes(self, settings: BrokerSettings, end: threading.Event) -> None:
        """Has them run from the first template to the last one. What keeps them from that is a trouble."""
        open_ = ExitStack()
        with ExitStack() as ending:
            ending.callback(lambda: open_.close())
            while not end.wait(LOOK_EVERY_S):
                kept = self.loop.kept
                try:
                    if kept.templates and self.processes is None:
                        processes = self._make_processes(settings)
                        open_.enter_context(processes.running())
                        self.processes = processes
                    elif not kept.templates and self.processes is not None:
                        self.processes = None
                        open_.close()
                        open_ = ExitStack()
                    if self.processes is not None:
                        folder = self.loop.folder
                        self.processes.use(describe_streams(kept, folder), describe_templates(kept, folder))
                    self._troubles.clear(f"{PLACEMENT}processes")
                except Exception as error:
                    if not isinstance(error, HeadraceError | OSError):
                        log.exception("starting the broker failed")
                    line = next(iter(str(error).splitlines()), "") or type(error).__name__
                    self._troubles.report(f"{PLACEMENT}processes", f"devices cannot connect: {line}")

    def _make_processes(self, settings: BrokerSettings) -> DeviceProcesses:
        service, loop = self._service, self.loop
        addresses = {one.devices.broker: one.devices.declared_at for one in loop.kept.groups.values()}
        if len(addresses) > 1:
            raise UsageError("groups of devices have different brokers", "one project has one broker")
        ((address, where),) = addresses.items()
        external = None
        if address is not None:
            external = BrokerAccess(*split_user(fill(address, service.environment, where)))
        return DeviceProcesses(loop.folder, loop.project, settings, service.journal, service.troubles, external)

    def _find_access(self) -> BrokerAccess | None:
        processes = self.processes
        return None if processes is None else processes.access

    # Telling

    def tell_templates(self) -> list[dict[str, Any]]:
        """Documents of all templates that are declared, for `status`."""
        plan = self._find_plan()
        return [] if plan is None else template_documents(plan, self.loop)

    def tell_processes(self) -> dict[str, Any] | None:
        """Where devices connect, and the processes that serve them; None while no template runs."""
        processes = self.processes
        if processes is None:
            return None
        told = [
            {"name": one.name, "pid": one.pid, "state": one.state.value, "restarts": one.restarts}
            for one in processes.tell()
        ]
        return {"url": processes.url, "processes": told}

    def tell_url(self) -> str | None:
        """Where devices connect; None while they cannot."""
        processes = self.processes
        return None if processes is None else processes.url

    def tell_devices(self) -> dict[str, Any]:
        found = devices_document(self._find_running().catalogue, self.loop)
        return {**found, "broker": {"url": self.tell_url(), **found["broker"]}}

    def tell_plan(self, device: str) -> dict[str, Any]:
        self._find_running()
        return document_of_device(self.loop, device)

    def explain_pair(self, template: str, devices: tuple[str, ...]) -> WhyPlacedPair | None:
        """Why a pair runs where it does; None while its template does not run."""
        return why_of_pair(self.loop, template, devices)

    def _find_webhooks(self) -> Mapping[str, Webhook]:
        found = {}
        for name, one in self.loop.kept.templates.items():
            template, environment = one.template, self._service.environment
            if template.notify is None:
                continue
            try:
                url = fill(template.notify, environment, template.declared_at)
                check_webhook(url)
                found[name] = Webhook(template.view, url)
            except HeadraceError as error:
                line = next(iter(str(error).splitlines()), "")
                what = f'changes of template "{name}" are not posted: {line}'
                self._troubles.report(f"{NOTIFY}{name}", what, "mend `notify`, and run `headrace apply`")
        return found

    def _find_plan(self) -> Plan | None:
        running = self._service.running
        return None if running is None else running.plan

    def _find_running(self) -> Plan:
        plan = self._find_plan()
        if plan is None:
            raise UsageError("the views are not loaded yet", "`headrace status` shows the progress")
        if not plan.catalogue.templates:
            raise UsageError("the project has no templates", "a template says what runs on devices")
        return plan
