"""Vertices in words."""

from __future__ import annotations

import pytest

from headrace.model.plan import Vertex, VertexKind
from headrace.model.rate import Rate
from headrace.model.words import name_id, name_ids, name_vertex, put_in_words


def vertex(id_: str, kind: VertexKind, scope: tuple[str, ...], **given: object) -> Vertex:
    made = Vertex(id_, kind, "us", scope, None, False, "b600ec", (), 8.0, None, Rate())
    return Vertex(**{**{name: getattr(made, name) for name in Vertex.__slots__}, **given})


VIEW = vertex("r:customers,orders@us~b600ec", VertexKind.RELATION, ("customers", "orders"), stands_for="customer360")
CHANGES = vertex("d:customers,orders|orders@us~b600ec", VertexKind.DELTA, ("customers", "orders"), delta_of=("orders",))
VERTICES = {one.id: one for one in (VIEW, CHANGES)}


def test_a_vertex_is_named_after_the_view_that_it_is() -> None:
    assert name_vertex(VIEW) == "customer360 at us"


def test_changes_of_a_part_say_whose_they_are() -> None:
    assert name_vertex(CHANGES) == "changes of customers x orders made by orders at us"


@pytest.mark.parametrize(
    ("id_", "name"),
    [
        ("d:customer360|customer360@us~b600ec", "changes of customer360 at us"),
        ("r:orders@eu-west", "orders at eu-west"),
        ("d:a,b|a@us~0123ab", "changes of a x b made by a at us"),
        ("r:users#1,users#2@us~0123ab#mine", "users#1 x users#2 at us"),
        (
            "d:Größe,Order Items|Order Items@new york~0123ab",
            "changes of Größe x Order Items made by Order Items at new york",
        ),
        ("r:Order Items@new york", "Order Items at new york"),
        ("orders", "orders"),
    ],
)
def test_a_vertex_that_is_gone_is_named_by_what_its_id_says(id_: str, name: str) -> None:
    assert name_id(id_) == name


def test_copies_that_differ_in_columns_are_named_once() -> None:
    assert name_ids(["r:a@us~0123ab", "r:a@us~0123cd", VIEW.id], VERTICES) == ["a at us", "customer360 at us"]


def test_ids_in_a_message_become_words() -> None:
    message = f'reading "{VIEW.id}" failed: d:orders|orders@eu is not there; r:gone@us~abcdef, too'
    assert put_in_words(message, VERTICES) == (
        'reading "customer360 at us" failed: changes of orders at eu is not there; gone at us, too'
    )
