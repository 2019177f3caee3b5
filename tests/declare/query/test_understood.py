from headrace.declare.sql import read_query
from headrace.testing import SCHEMA
from tests.declare.query.well_formed import flaws
from tests.queries.schemas import understood


def test_queries_of_all_kinds_are_understood_and_their_trees_well_formed():
    wrong = {sql: found for sql in understood() if (found := flaws(read_query(sql, SCHEMA)))}
    assert not wrong
