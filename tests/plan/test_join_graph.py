"""Sub-joins and their splits."""

from __future__ import annotations

from itertools import combinations

import pytest

from headrace.plan.join_graph import BEAM, JoinGraph, join_graph


def graph(size, *groups, residuals=()) -> JoinGraph:
    """Inputs are numbered from 0; small sets are small results."""
    return join_graph(size, [bits(*group) for group in groups], [bits(*group) for group in residuals], float)


def bits(*numbers):
    return {1 << number for number in numbers}


def subset(*numbers):
    return sum(bits(*numbers))


CHAIN = ((0, 1), (1, 2), (2, 3))
STAR = ((0, 1), (0, 2), (0, 3))


def test_only_connected_sets_are_sub_joins():
    assert graph(4, *CHAIN).sub_joins == (
        subset(0, 1),
        subset(1, 2),
        subset(2, 3),
        subset(0, 1, 2),
        subset(1, 2, 3),
        subset(0, 1, 2, 3),
    )
    assert len(graph(4, (0, 1, 2, 3)).sub_joins) == 11


def test_a_sub_join_is_split_in_every_way_that_leaves_both_sides_connected():
    everything = subset(0, 1, 2, 3)
    assert set(graph(4, *CHAIN).splits(everything)) == {
        (subset(0), subset(1, 2, 3)),
        (subset(0, 1), subset(2, 3)),
        (subset(0, 1, 2), subset(3)),
    }
    assert set(graph(4, *STAR).splits(everything)) == {
        (everything ^ subset(number), subset(number)) for number in (1, 2, 3)
    }
    assert len(list(graph(4, (0, 1, 2, 3)).splits(everything))) == 7


@pytest.mark.parametrize("size", [6, 7])
def test_joins_of_many_inputs_add_one_input_at_a_time(size):
    clique = graph(size, range(size))
    for one in clique.sub_joins:
        sides = list(clique.splits(one))
        assert len(sides) == len(set(sides)) == (1 if one.bit_count() == 2 else one.bit_count())
        assert all(1 in (left.bit_count(), right.bit_count()) for left, right in sides)


def test_of_very_many_sub_joins_the_smallest_are_looked_at():
    clique = graph(12, range(12))
    by_size = {size: [s for s in clique.sub_joins if s.bit_count() == size] for size in range(2, 13)}
    assert all(0 < len(found) <= BEAM for found in by_size.values())
    assert by_size[12] == [clique.everything]
    assert all(list(clique.splits(one)) for one in clique.sub_joins)


@pytest.mark.parametrize("size", [13, 30, 80, 200])
def test_the_more_inputs_there_are_the_fewer_sub_joins_of_a_size_are_looked_at(size):
    clique = graph(size, range(size))
    assert clique.sub_joins[-1] == clique.everything
    joins = [list(clique.splits(one)) for one in clique.sub_joins]
    assert all(joins)
    assert sum(map(len, joins)) <= BEAM * BEAM * 12


def test_what_no_class_joins_a_residual_does():
    assert graph(2, residuals=[(0, 1)]).sub_joins == (subset(0, 1),)
    apart = graph(3, (0, 1), residuals=[(1, 2)])
    assert apart.sub_joins == (subset(0, 1), subset(1, 2), subset(0, 1, 2))


def test_without_any_condition_everything_goes_with_everything():
    assert {one for one in graph(3, (0, 1)).sub_joins if one.bit_count() == 2} == {
        subset(*pair) for pair in combinations(range(3), 2)
    }
