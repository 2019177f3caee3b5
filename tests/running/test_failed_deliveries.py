"""What is said of a delivery that failed, and how long it is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.connect.postgres.delivered_table import DeliveredTable
from headrace.meaning.zset import ZSet
from headrace.model.errors import ConnectError, RefusedRow
from headrace.run.compile.columns import serving_log, view_outputs
from headrace.site.deliver.copies import CopyTarget
from headrace.site.deliver.deliveries import LONGEST_BACKOFF_S, Copy, backoff_after, say_failure
from tests.run.test_engine import SITES, world_of

REFUSED = RefusedRow("too long", "correct it", {"label": "long"}, "label")


def test_a_refused_row_is_named_and_if_its_file_is_gone_the_reason_is_said_all_the_same(tmp_path: Path) -> None:
    world = world_of(["SELECT label FROM s"], SITES[0], tmp_path, keys={"s": ("k",)})
    world.capture({"s": ZSet.of([(17, None, None, "long", None)])})
    world.engine.load()
    (planned,) = world.plan.contracts
    log, outputs = serving_log(world.program, planned), view_outputs(world.plan, world.program, planned)
    copy = Copy(
        "c",
        CopyTarget(DeliveredTable("t", (), "p", "c", "v", "m", 60.0)),
        log,
        tuple(world.program.logs[log].columns),
        outputs,
        (),
    )
    assert say_failure(REFUSED, copy, world.program, world.ledger, world.store) == "too long, in row k = 17 of s"
    for site, file, _ in list(world.store.list()):
        world.store.delete(site, file)
    assert (
        say_failure(REFUSED, copy, world.program, world.ledger, world.store)
        == "too long, in a row of s with label = 'long'"
    )


@pytest.mark.parametrize(
    ("error", "failures", "took_s", "backoff_s"),
    [
        (REFUSED, 1, 0.01, 0.5),
        (REFUSED, 1, 10.0, 50.0),
        (REFUSED, 9, 1_200.0, LONGEST_BACKOFF_S),
        (ConnectError("the connection was lost"), 1, 1_200.0, 0.5),
        (ConnectError("the connection was lost"), 9, 1_200.0, 15.0),
    ],
)
def test_only_after_a_refused_row_the_rest_is_as_long_as_the_try_was_and_never_longer_than_ten_minutes(
    error: Exception, failures: int, took_s: float, backoff_s: float
) -> None:
    assert backoff_after(error, failures, took_s) == backoff_s
