"""A table of several megabytes goes to phones whose views read it, and they compute with it as the cloud would."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyarrow import csv

from bench.devices_oracle import Published
from tests.running.phones import EXAMPLES, RunningPhones
from tests.running.running_project import until

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]


def test_a_table_that_is_too_large_for_one_message_is_read_on_a_phone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "coupons"
    shutil.copytree(EXAMPLES / "coupons", folder, ignore=shutil.ignore_patterns(".headrace"))
    offers = folder / "tables" / "offers" / "1.csv"
    far = [f"{number},kiosk,{'x' * 900},-{number % 60}.5,10.0" for number in range(100, 2600)]
    offers.write_text(offers.read_text() + "\n".join(far) + "\n")
    assert offers.stat().st_size > 2_000_000
    tables = {name: csv.read_csv(next((folder / "tables" / name).glob("*.csv"))) for name in ("offers", "people")}
    phones = RunningPhones(folder, capsys, tables, {"location": Published(("lat", "lng"))})
    try:
        phones.up()
        phones.connect([1])
        phones.publish(1, "location", {"lat": 39.9840, "lng": 116.3180})
        until(lambda: phones.count_on_devices("coupons") == 1, "the view runs on the phone", 60.0)
        phones.publish(1, "location", {"lat": 39.9841, "lng": 116.3181})
        assert phones.until_right("coupons_nearby", [(1,)]), "something is near"
        assert phones.heard, "the phone has found it itself"
        phones.publish(1, "location", {"lat": -10.5, "lng": 10.0})
        found = phones.until_right("coupons_nearby", [(1,)])
        assert len(found) > 30, "the kiosks, which are in all parts of the table"
        troubles = phones.headrace("status", str(folder))["troubles"]
        assert not troubles, troubles
    finally:
        phones.down()
