"""A service goes on with the documents that version 0.1.0 noted: nothing that they say is lost."""

from __future__ import annotations

from headrace.coordinate.replanning import read_moves
from headrace.model.catalogue import FileFolder, Source, SourceColumn, SourceKind
from headrace.model.errors import Location
from headrace.model.source_shape import shape_of
from headrace.model.types import BIGINT
from headrace.observe.audit import Record
from headrace.observe.cost import Account
from headrace.observe.rates import Meter, VertexFlow
from headrace.observe.shown import ContractNumbers, ContractReadings
from headrace.observe.times import Fit
from headrace.plan.share.adapt import MoveRecord
from headrace.plan.share.watch import ConditionKind, WatchedCondition
from headrace.site.learning import Learning
from tests.plan.share.projects import plan_for, wanted

RECORD = (
    '{"bad_intervals": 2, "episodes": 1, "intervals": 100, "is_broken": false, "late_rows": 3,'
    ' "looked_at": 1700000000000000, "penalty": 0.25, "rows": 40, "worst_lag_s": 12.5}'
)
ACCOUNT = '{"core_s": 10.0, "cost": 0.5, "kept": 1000000000.0, "sent": 2048.0, "since": 1700000000000000}'
LOOK = (
    '{"at":5,"contracts":{"fresh":{"lag_s":1.5,"freshness_s":30.0,"violations":1,"violated_s":10.0,'
    '"watched_s":500.0,"worst_lag_s":12.5,"rows":40,"late_rows":3,"penalty":0.25,"cost":0.5,"money":0.75,'
    '"cost_h":null}}}'
)
LEARNT = r"""{"version": 3, "fits": [["join", "eu", null, "{\"deviations\": [], \"products\": [0.0, 0.0, 0.0],
 \"samples\": 0, \"scale\": [0.0, 0.0], \"squares\": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
 \"time\": null}"]], "corrections": {}, "slowness": {"r:orders@us": 2.0}, "flows": {"r:orders@us":
 "{\"bytes\": {\"faded\": 0.0, \"upto\": 1000300000000, \"weight\": 0.5},
 \"rows_in\": {\"faded\": 148.5, \"upto\": 1000300000000, \"weight\": 0.5},
 \"rows_out\": {\"faded\": 149.5, \"upto\": 1000300000000, \"weight\": 0.5}}"},
 "jobs": "{\"deviations\": [], \"products\": [0.0, 0.0, 0.0], \"samples\": 0, \"scale\": [0.0, 0.0],
 \"squares\": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], \"time\": null}", "parallel": 0.75}""".replace("\n", "")
MOVES = (
    '[{"at_s":1000120.0,"contracts":["by_country_eu"],"reasons":["orders changes 500 rows/s instead of 50"],'
    '"restores":[],"saving":3.357288007285689e-7,"migration":0.00016875915153499464,"steps":['
    '{"action":"load","what":"r:customers@us~c2d940"},{"action":"catch up","what":"r:customers@us~c2d940"},'
    '{"action":"switch","what":"d:by_country|by_country@eu~fe7cf4"},'
    '{"action":"drain","what":"d:orders|orders@eu~6d40be"}],'
    '"parts":[{"contract":"by_country_eu","at_s":1000120.0,"before":["d:orders|orders@eu~6d40be"],'
    '"after":["r:customers@us~c2d940"],"because":[{"trouble":"rate off","where":"orders"}]}],"error":null}]'
)


def test_what_became_of_a_promise_is_read():
    assert Record.from_json(RECORD) == Record(1_700_000_000_000_000, 100, 2, 1, False, 40, 3, 0.25, 12.5)


def test_what_a_contract_cost_is_read():
    assert Account.from_json(ACCOUNT) == Account(1_700_000_000_000_000, 0.5, 10.0, 2048.0, 1e9)


def test_the_last_look_is_read():
    numbers = ContractNumbers(1.5, 30.0, 1, 10.0, 500.0, 12.5, 40, 3, 0.25, 0.5, 0.75, None)
    assert ContractReadings.from_json(LOOK) == ContractReadings(5, {"fresh": numbers})


def test_what_pushes_taught_is_read():
    learning = Learning.from_json(plan_for(wanted("sales")), LEARNT)
    upto = 1_000_300_000_000
    flow = VertexFlow(Meter(upto, 148.5, 0.5), Meter(upto, 149.5, 0.5), Meter(upto, 0.0, 0.5))
    assert learning.flows == {"r:orders@us": flow}
    assert list(learning.times.fits.values()) == [Fit()] and learning.parallel == 0.75
    assert learning.times.slowness == {"r:orders@us": 2.0}


def test_moves_are_read_with_what_they_made_and_dropped():
    (move,) = read_moves(MOVES)
    assert move.made == ("r:customers@us~c2d940",) and move.dropped == ("d:orders|orders@eu~6d40be",)
    because = (WatchedCondition(ConditionKind.RATE_OFF, "orders"),)
    before, after = frozenset(move.dropped), frozenset(move.made)
    assert move.parts == (MoveRecord("by_country_eu", 1_000_120.0, before, after, because),)


def test_the_shape_of_a_folder_is_the_same_text():
    """Another text would have the folder read again."""
    columns = (SourceColumn("id", BIGINT),)
    none = (None, None, False, False, None)
    origin = FileFolder("in/clicks", "csv")
    source = Source("clicks", SourceKind.STREAM, "us", (), columns, *none, "at", None, origin, Location("x.yml"))
    assert shape_of(source) == (
        '{"kind": "stream", "site": "us", "from": "FileFolder(path=\'in/clicks\', format=\'csv\')",'
        ' "columns": {"id": "bigint"}, "key": [], "static": false, "time": "at"}'
    )
