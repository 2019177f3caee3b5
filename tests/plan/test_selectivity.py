"""How many rows filters let through."""

from __future__ import annotations

import pytest

from headrace.declare.read import read_project
from headrace.plan.cores import cores_of
from headrace.plan.views import views_of
from tests.plan.test_document import written_project


def shares(folder, condition, declared="", joined=""):
    """The selectivities of a filter on orders, with declared ones, by alias; and of residuals."""
    sql = f"SELECT o.id FROM orders o {joined} WHERE {condition}"
    extra = f"selectivity:\n  orders: {{{declared}}}\n" if declared else ""
    project = read_project(written_project(folder / "project", {"v": sql}, {"c": ("v", "eu", "30 s")}, extra), {})
    blocks = views_of(project)["v"]
    assert isinstance(blocks, tuple)
    (core,) = cores_of(blocks, project)
    return {input_.alias: input_.share for input_ in core.inputs}, core.residual_shares


@pytest.mark.parametrize(
    ("condition", "share"),
    [
        ("customer = 7", 1 / 100_000),
        ("customer IN (7, 8, 9)", 3 / 100_000),
        ("total > 100", 1 / 3),
        ("note LIKE 'a%'", 1 / 10),
        ("total % 2 = 1", 1 / 3),
        ("total > 100 AND note LIKE 'a%'", 1 / 30),
        ("total IS NULL", 1 / 3),
    ],
)
def test_a_filter_is_estimated_by_its_form(condition, share, tmp_path):
    assert shares(tmp_path, condition)[0]["orders"] == pytest.approx(share)


@pytest.mark.parametrize(
    ("condition", "declared", "share"),
    [
        ("total > 100", '"total > 100": 0.25', 0.25),
        ("total > 100", '"100 < total": 0.25', 0.25),
        ("NOT total <= 100", '"total > 100": 0.25', 0.25),
        ("total BETWEEN 5 AND 9", '"total >= 5 AND total <= 9": 0.25', 0.25),
        ("total > 100 AND customer = 7", '"total > 100": 0.25', 0.25 / 100_000),
        ("total > 100 AND note = 'x'", '"total > 100": 0.25, "note = \'x\'": 0.5', 0.125),
        ("total > 100", '"total > 101": 0.25', 1 / 3),
    ],
)
def test_what_is_declared_counts_in_whatever_spelling(condition, declared, share, tmp_path):
    assert shares(tmp_path, condition, declared)[0]["orders"] == pytest.approx(share)


def test_each_alias_of_a_self_join_has_its_own_filter(tmp_path):
    joined = "JOIN orders p ON o.customer = p.customer"
    found, _ = shares(tmp_path, "o.total > 100 AND p.total > 5", '"total > 100": 0.25', joined)
    assert sorted(found.values()) == [pytest.approx(0.25), pytest.approx(1 / 3)]


def test_a_condition_over_two_tables_lets_a_share_of_the_pairs_through(tmp_path):
    joined = "JOIN customers c ON o.customer = c.customer"
    assert shares(tmp_path, "o.total > c.region", joined=joined)[1] == (pytest.approx(1 / 3),)
