"""Which plans sites may run, and what is kept for those that have not gone over to the newest."""

from __future__ import annotations

from pathlib import Path

from headrace.coordinate.site_epochs import SiteEpochs, read_epochs, write_epochs
from headrace.model.plan import Plan
from headrace.site.folder import Folder
from tests.run.test_crashes import VIEWS
from tests.run.test_engine import world_of

SITES = ("m1", "m2", "m3")


def plans(folder: Path) -> tuple[Plan, Plan, Plan]:
    found = []
    for number in (1, 2, 3):
        (folder / str(number)).mkdir()
        found.append(world_of(VIEWS[:number], "m2", folder / str(number)).plan)
    return found[0], found[1], found[2]


def kept_by(epochs: SiteEpochs, site: str) -> list[tuple[Plan, tuple[str, ...]]]:
    return [(one.plan, one.sites) for one in epochs.find_earlier(site)]


def test_what_a_site_may_still_run_is_kept_for_it_by_all_others(tmp_path: Path):
    first, second, third = plans(tmp_path)
    epochs = SiteEpochs().tell(first, SITES)
    assert epochs.behind == () and epochs.is_collected, "they start with it"
    epochs = epochs.tell(second, SITES).note_gone_over("m1", 2)
    assert epochs.behind == ("m2", "m3") and not epochs.is_collected
    assert kept_by(epochs, "m1") == [(first.at_site("m1"), ("m2", "m3"))]
    epochs = epochs.note_gone_over("m3", 2).tell(third, SITES)
    assert kept_by(epochs, "m1") == [(second.at_site("m1"), ("m2", "m3")), (first.at_site("m1"), ("m2",))]
    assert kept_by(epochs, "m2") == [(second.at_site("m2"), ("m1", "m3"))], "nobody else may run the first one"
    epochs = epochs.note_gone_over("m1", 3).note_gone_over("m2", 3).note_gone_over("m3", 3)
    assert epochs.behind == () and set(epochs.plans) == {3} and not epochs.is_collected
    assert all(kept_by(epochs, site) == [] for site in SITES)


def test_what_is_known_of_sites_outlives_whoever_coordinates_them(tmp_path: Path):
    first, second, _ = plans(tmp_path)
    folder = Folder(tmp_path)
    folder.prepare()
    assert read_epochs(folder) == SiteEpochs()
    epochs = SiteEpochs().tell(first, SITES).tell(second, SITES).note_gone_over("m1", 2)
    write_epochs(folder, epochs)
    assert read_epochs(folder) == epochs
