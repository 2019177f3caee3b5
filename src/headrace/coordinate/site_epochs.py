"""Which plan each site was told to run, and which one it runs as far as we know: so that nobody drops what others read.

Plans are numbered. A site that has gone over to the newest one says so. Until all have, every site keeps what the
others still read of earlier plans; after that, what no plan names goes.

.headrace/site_plans.json          the newest plan, and those that a site may still run
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import metadata

from headrace.model.errors import WireError
from headrace.model.plan import Plan
from headrace.model.wire import read_wire, write_wire
from headrace.site.folder import Folder
from headrace.site.site_folders import EarlierPart

PLANS_FILE = "site_plans.json"


@dataclass(frozen=True, slots=True)
class SiteEpochs:
    """`plans` by number. `runs` has, by site, the numbers of the plans that it may run: the last one that it has gone
    over to, as it said, and all that it was told since. Until it is `collected`, sites may keep more than they need.
    """

    newest: int = 0
    plans: Mapping[int, Plan] = field(default_factory=dict)
    runs: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    is_collected: bool = True

    @property
    def behind(self) -> tuple[str, ...]:
        """Sites that have not gone over to the newest plan, as far as we know. One that starts with it has."""
        return tuple(site for site, numbers in self.runs.items() if numbers != (self.newest,))

    def tell(self, plan: Plan, sites: tuple[str, ...]) -> SiteEpochs:
        """Sites are to run a plan from now on."""
        number = self.newest + 1
        runs = {site: (*self.runs.get(site, ()), number) for site in sites}
        told = replace(self, newest=number, plans={**self.plans, number: plan}, runs=runs)._forget_unused()
        return replace(told, is_collected=self.is_collected and not any(map(told.find_earlier, sites)))

    def note_collected(self) -> SiteEpochs:
        """No site keeps anything for others any more."""
        return replace(self, is_collected=True)

    def note_gone_over(self, site: str, number: int) -> SiteEpochs:
        """A site runs the plan of a number, and nothing else any more."""
        return replace(self, runs={**self.runs, site: (number,)})._forget_unused()

    def find_earlier(self, site: str) -> tuple[EarlierPart, ...]:
        """What a site has to keep for others, newest plans first."""
        others: dict[int, list[str]] = {}
        for other, numbers in self.runs.items():
            for number in numbers:
                if other != site and number != self.newest:
                    others.setdefault(number, []).append(other)
        return tuple(
            EarlierPart(self.plans[number].at_site(site), tuple(others[number]))
            for number in sorted(others, reverse=True)
        )

    def _forget_unused(self) -> SiteEpochs:
        used = {self.newest, *(number for numbers in self.runs.values() for number in numbers)}
        return replace(self, plans={number: plan for number, plan in self.plans.items() if number in used})


def read_epochs(folder: Folder) -> SiteEpochs:
    """Raises UnreadableState."""
    found = folder.read_json(PLANS_FILE)
    if found is None:
        return SiteEpochs()
    try:
        plans = {int(number): read_wire(plan, Plan) for number, plan in found["plans"].items()}
        runs = {str(site): tuple(map(int, numbers)) for site, numbers in found["runs"].items()}
        return SiteEpochs(int(found["newest"]), plans, runs, bool(found["is_collected"]))
    except (WireError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise folder.unreadable(PLANS_FILE, str(error)) from error


def write_epochs(folder: Folder, epochs: SiteEpochs) -> None:
    version = metadata.version("headrace")
    plans = {str(number): write_wire(plan, version) for number, plan in epochs.plans.items()}
    found = {
        "newest": epochs.newest,
        "plans": plans,
        "runs": dict(epochs.runs),
        "is_collected": epochs.is_collected,
    }
    folder.write_json(PLANS_FILE, found, indent=None, is_durable=True)
