"""What is typed into a find field, told apart: expressions, regular expressions, plain text."""

from __future__ import annotations

import pytest

import espalier as es
from espalier.model.errors import OptionsError
from espalier.passes.query import find_nodes, selection_of


@pytest.fixture(scope="module")
def model() -> es.Model:
    """A small convolutional model."""
    return es.open("demo:digits")


@pytest.mark.parametrize(
    ("text", "by"),
    [("conv", None), ("layer.0 query", None), ("a<b", None), ("not a command", None),
     ("not muted", "where"), ("bits <= 4", "where"),
     ("op == 'relu' and inputs == 1", "where"), ("where: muted", "where"), ("muted", "where"),
     ("(params) > 3", "where"),
     ("/conv\\d/", "regex"), ("/", None), ("//", None), ("", None), ("params", None), ("save as", None)],
)  # fmt: skip
def test_texts_are_told_apart(text: str, by: str | None) -> None:
    try:
        select = selection_of(text)
    except OptionsError:
        assert by == "where" and text.startswith("not a")
        return
    assert (select.by if select else None) == by


def test_nodes_are_those_that_python_finds(model: es.Model) -> None:
    graph = model.project.graph
    select = selection_of("op == 'conv2d' and params > 200")
    assert select is not None
    by_hand = [n.id for n in graph if n.op == "conv2d" and sum(graph.weights[w].elements for p, w in n.weights.items()
                                                               if p in ("weight", "bias")) > 200]  # fmt: skip
    assert list(find_nodes(graph, select)) == by_hand and by_hand
    regex = selection_of("/^conv[12]$/")
    assert regex is not None and find_nodes(graph, regex) == ("conv1", "conv2")
    nothing = selection_of("bits > 900")
    assert nothing is not None and find_nodes(graph, nothing) == ()


@pytest.mark.parametrize("text", ["bits <", "op == __import__('os')", "/(/", "bits == 'x' < 3 <", "op < 3"])
def test_what_cannot_be_read_is_said(model: es.Model, text: str) -> None:
    with pytest.raises(OptionsError):
        select = selection_of(text)
        assert select is not None
        find_nodes(model.project.graph, select)


@pytest.mark.parametrize("text", ["where:f(" + "-" * 900 + "1)", "where:" + "(" * 400 + "bits" + ")" * 400])
def test_deep_expressions_are_one_clear_error_or_true(model: es.Model, text: str) -> None:
    try:
        select = selection_of(text)
        assert select is not None
        find_nodes(model.project.graph, select)
    except OptionsError as error:
        assert error.message
