"""Costs name the nodes whose multiplications are not known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from espalier.app.cli import main
from espalier.model.graph.graph import Graph
from espalier.passes.analysis.cost import cost
from espalier.passes.base import Context, NoOptions, Row
from espalier.passes.uncounted import Uncounted, uncounted, uncounted_fields, uncounted_note
from tests.model.test_products import Function, first, parameter, traced
from tests.model.zoo import case

MODEL = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Parameter(torch.randn(3, 8))
    def forward(self, x):
        return torch.cdist(self.a(x), self.b)

def make():
    torch.manual_seed(0)
    return Net().eval(), torch.randn(4, 8)
"""


def costs(graph: Graph) -> Row:
    return cost(graph, NoOptions(), Context(case("mlp").store))[1].summary


def named(graph: Graph) -> list[str]:
    return [n.op for n in uncounted(graph)]


def kron(m: nn.Module, x: Tensor) -> Tensor:
    return torch.kron(x, m.get_parameter("w"))


def test_products_without_a_formula_are_named() -> None:
    graph = traced(Function(lambda m, x: torch.cdist(x, m.w), w=parameter(5, 12)), 4, 12)
    assert named(graph) == ["cdist"]
    assert costs(graph)["uncounted"] == "MACs, FLOPs and BitOPs leave out cdist, whose multiplications are not known."
    assert named(traced(Function(kron, w=parameter(5, 3)), 4, 12)) == ["kron"]
    inverse = Function(lambda m, x: x @ torch.linalg.inv(m.w), w=nn.Parameter(torch.eye(12)))
    assert named(traced(inverse, 4, 12)) == ["linalg_inv"]


def test_products_of_more_than_two_operands_are_named() -> None:
    three = Function(lambda m, x: torch.einsum("bi,ij,jk->bk", x, m.w, m.v), w=parameter(12, 5), v=parameter(5, 3))
    assert named(traced(three, 4, 12)) == ["einsum"]


def test_a_counted_model_has_no_note() -> None:
    for model in (first(nn.LSTM(12, 9)), Function(lambda m, x: x * m.w + m.w.exp(), w=parameter(6, 12))):
        graph = traced(model, 4, 6, 12)
        assert named(graph) == [] and uncounted_note([]) == "" and uncounted_fields(graph) == {}
        assert "uncounted" not in costs(graph)


@pytest.mark.parametrize("name", ["mlp"])
def test_models_of_known_layers_have_no_note(name: str) -> None:
    assert uncounted(case(name).graph) == []


def test_foreign_code_with_weights_is_named() -> None:
    graph = traced(Function(lambda m, x: x @ m.w, w=parameter(12, 5)), 4, 12)
    node = next(n for n in graph if n.op == "matmul")
    opaque = graph.replace(replace(node, op="opaque", call="opaque", target="opaque.matmul"))
    assert [n.id for n in uncounted(opaque)] == [node.id] and costs(opaque)["macs"] == 0
    foreign = graph.replace(replace(node, op="own_product", target="plugin.own_product.default"))
    assert [n.op for n in uncounted(foreign)] == ["own_product"]


def test_a_note_names_the_first_nodes() -> None:
    def many(m: nn.Module, x: Tensor) -> Tensor:
        for _ in range(6):
            x = torch.cdist(x, m.get_parameter("w"))
        return x

    note = uncounted_note(uncounted(traced(Function(many, w=parameter(12, 12)), 4, 12)))
    assert "cdist, cdist_1 (cdist), cdist_2 (cdist), cdist_3 (cdist) and 2 more" in note


def test_successive_graphs_have_the_same_nodes_as_each_alone() -> None:
    graph = traced(Function(lambda m, x: x @ m.w, w=parameter(12, 5)), 4, 12)
    node = next(n for n in graph if n.op == "matmul")
    opaque = graph.replace(replace(node, op="opaque", call="opaque", target="opaque.matmul"))
    other = traced(Function(lambda m, x: torch.cdist(x, m.w), w=parameter(5, 12)), 4, 12)
    found = Uncounted()
    for each in (graph, opaque, opaque, other, graph, opaque):
        assert found.of(each) == uncounted(each)


# -- FLOPs and bytes of recurrent layers


@pytest.mark.slow
def test_flops_of_recurrent_layers_by_hand() -> None:
    """2 per MAC, both biases, and per unit and step 13 (LSTM), 10 (GRU) and 2 (RNN) operations."""
    for layer, gates, units in ((nn.LSTM, 4, 13), (nn.GRU, 3, 10), (nn.RNN, 1, 2)):
        graph = traced(first(layer(12, 9, 2, batch_first=True, bidirectional=True)), 4, 6, 12)
        products = 2 * gates * 9 * (12 + 9) + 2 * gates * 9 * (18 + 9)
        figures = costs(graph)
        assert figures["macs"] == 6 * products
        assert figures["flops"] == 6 * (2 * products + 4 * (2 * gates * 9 + 9 * units))
        assert figures["weight_bytes"] == 4 * sum(p.numel() for p in layer(12, 9, 2, bidirectional=True).parameters())


@pytest.mark.slow
def test_the_command_line_says_what_is_not_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.py").write_text(MODEL)
    source = f"{tmp_path / 'net.py'}:make"
    assert main(["report", source, "--what", "cost"]) == 0
    assert "leave out cdist" in capsys.readouterr().out
    assert main(["report", source, "--what", "cost", "--json"]) == 0
    assert "leave out cdist" in str(json.loads(capsys.readouterr().out))
