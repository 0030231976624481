"""Multiply–accumulates against torch's own counter, and by hand where it knows no formula."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from espalier.model.document.graph_json import graph_from_json, graph_to_json
from espalier.model.formats.integer import Integer
from espalier.model.formats.mxint import MXInt
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Precision, TensorMeta
from espalier.model.graph.node import Node
from espalier.model.graph.ops import _ARG_PORTS, OPS, macs  # type: ignore[reportPrivateUsage]
from espalier.model.trace.trace import trace
from espalier.passes.costs.base import COSTS, with_candidates
from espalier.passes.score import bitops, node_bitops
from espalier.passes.sensitivity.table import Candidate
from tests.model.zoo import case

# Ops with a weight and no count, with the reason.
WITHOUT = {
    **dict.fromkeys(("layer_norm", "group_norm", "rms_norm", "instance_norm", "batch_norm"), "scales by element"),
    "prelu": "scales by element",
    "embedding": "reads rows",
}


class Function(nn.Module):
    """A function of an input and the given modules and parameters."""

    def __init__(self, function: Callable[[Any, Tensor], Any], **parts: Any) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x: Tensor) -> Any:
        return self.function(self, x)


def first(layer: nn.Module) -> Function:
    return Function(lambda m, x: m.layer(x)[0], layer=layer)


def parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape))


def traced(model: nn.Module, *shape: int) -> Graph:
    torch.manual_seed(0)
    return trace(model.eval(), {"x": torch.randn(*shape)}, case("mlp").store).graph


def total(graph: Graph, **sizes: int) -> int:
    return sum(macs(n, graph.symbols | sizes) for n in graph)


def counted_by_torch(model: nn.Module, *shape: int) -> int:
    """Half of torch's FLOPs of its products; without oneDNN it runs recurrent layers as products."""
    counter, enabled = FlopCounterMode(display=False), torch.backends.mkldnn.is_available()
    torch._C._set_mkldnn_enabled(False)  # type: ignore[reportPrivateUsage]
    try:
        with torch.no_grad(), counter:
            model.eval()(torch.randn(*shape))
    finally:
        torch._C._set_mkldnn_enabled(enabled)  # type: ignore[reportPrivateUsage]
    return counter.get_total_flops() // 2


RECURRENT: dict[str, nn.Module] = {
    "lstm": nn.LSTM(12, 9, batch_first=True),
    "lstm_deep": nn.LSTM(12, 9, 3, batch_first=True),
    "lstm_both": nn.LSTM(12, 9, 2, batch_first=True, bidirectional=True),
    "lstm_projected": nn.LSTM(12, 9, 2, batch_first=True, bidirectional=True, proj_size=4),
    "lstm_no_bias": nn.LSTM(12, 9, bias=False),
    "gru": nn.GRU(12, 9, 2, bidirectional=True),
    "rnn": nn.RNN(12, 9, 2, batch_first=True),
    "rnn_relu": nn.RNN(12, 9, nonlinearity="relu", bidirectional=True),
}
CELLS: dict[str, nn.Module] = {
    "lstm_cell": Function(lambda m, x: m.cell(x)[0], cell=nn.LSTMCell(12, 9)),
    "gru_cell": Function(lambda m, x: m.cell(x), cell=nn.GRUCell(12, 9)),
    "rnn_cell": Function(lambda m, x: m.cell(x), cell=nn.RNNCell(12, 9)),
}


def contracted(m: Any, x: Tensor) -> Tensor:
    """A product over two axes."""
    axes: Any = ([2, 1], [0, 1])
    return torch.tensordot(x, m.w, dims=axes)


PRODUCTS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "einsum_ellipsis": (Function(lambda m, x: torch.einsum("...i,oi->...o", x, m.w), w=parameter(5, 12)), (4, 6, 12)),
    "einsum_heads": (Function(lambda m, x: torch.einsum("bhi,hij->bhj", x, m.w), w=parameter(6, 12, 5)), (4, 6, 12)),
    "tensordot": (Function(contracted, w=parameter(12, 6, 5)), (4, 6, 12)),
    "inner": (Function(lambda m, x: torch.inner(x, m.w), w=parameter(5, 12)), (4, 6, 12)),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers_count_as_torch(name: str) -> None:
    model = first(RECURRENT[name])
    graph = traced(model, 4, 6, 12)
    assert total(graph) == counted_by_torch(model, *graph.placeholders[0].ports["data_out"].sizes(graph.symbols)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", CELLS)
def test_cells_count_as_torch(name: str) -> None:
    graph = traced(CELLS[name], 4, 12)
    assert total(graph, batch=4) == counted_by_torch(CELLS[name], 4, 12) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", PRODUCTS)
def test_other_products_count_as_torch(name: str) -> None:
    model, shape = PRODUCTS[name]
    assert total(traced(model, *shape), batch=shape[0]) == counted_by_torch(model, *shape) > 0


def test_products_that_torch_does_not_count_by_hand() -> None:
    sums = Function(
        lambda m, x: torch.addbmm(m.b, x, m.w.expand(x.shape[0], 12, 5)), w=parameter(12, 5), b=parameter(6, 5)
    )
    assert total(traced(sums, 4, 6, 12), batch=1) == 6 * 12 * 5
    assert total(traced(Function(lambda m, x: x[0] @ m.w, w=parameter(12)), 4, 6, 12)) == 6 * 12


def test_the_counts_of_the_layers_by_hand() -> None:
    assert total(traced(first(nn.LSTM(12, 9, batch_first=True)), 4, 6, 12), batch=1) == 4 * 9 * (12 + 9) * 6
    assert total(traced(first(nn.RNN(12, 9, batch_first=True)), 4, 6, 12), batch=1) == 9 * (12 + 9) * 6
    bilinear = Function(lambda m, x: m.b(x, x), b=nn.Bilinear(12, 12, 5))
    assert total(traced(bilinear, 4, 12), batch=1) == 5 * 12 * 12


def test_experts_count_the_tokens_that_each_is_chosen_for() -> None:
    """As torch counts the products of transformers' loop over the experts, whichever are chosen."""
    from transformers.integrations.moe import _grouped_mm_fallback  # type: ignore[reportPrivateUsage]

    x, weight = torch.randn(32, 12), torch.randn(4, 12, 7)
    counter = FlopCounterMode(display=False)
    with counter:
        out = _grouped_mm_fallback(x, weight, torch.tensor([5, 5, 20, 32], dtype=torch.int32))
    assert out.shape == (32, 7)
    for op, ports in (("grouped_mm_fallback", ("data_in", "weight")), ("_grouped_mm", ("data_in", "data_in_1"))):
        shapes = zip((*ports, "data_out"), (("2*seq", 12), (4, 12, 7), ("2*seq", 7)), strict=True)
        metas = {port: TensorMeta(shape, "float32") for port, shape in shapes}
        assert (
            macs(Node("n", op, "call_function", f"x.{op}.default", ports=metas), {"seq": 16})
            == counter.get_total_flops() // 2
            == 32 * 12 * 7
        )


def test_gradients_of_experts_share_their_sum() -> None:
    metas = {"data_in": (12, 32), "weight": (32, 7), "data_out": (4, 12, 7)}
    ports = {p: TensorMeta(s, "float32") for p, s in metas.items()}
    assert macs(Node("n", "_grouped_mm", "call_function", "aten._grouped_mm.default", ports=ports), {}) == 12 * 32 * 7


def test_each_op_with_a_weight_has_a_count_or_a_reason() -> None:
    named = {op for op, names in _ARG_PORTS.items() if "weight" in str(names)}
    weighty = {name for name, row in OPS.items() if "weight" in row.quantisable} | named
    assert {n for n in weighty if OPS[n].macs is None} == set(WITHOUT)


# -- BitOPs


def _rounded(graph: Graph, op: str, **bits: int) -> tuple[Graph, Node]:
    node = next(n for n in graph if n.op == op)
    node = replace(node, precision={p: Precision(Integer(b, 2)) for p, b in bits.items()})
    return graph.replace(node), node


def test_steps_of_a_layer_multiply_float_states() -> None:
    """Only the first layer's input is rounded: torch's kernel has no format between steps and layers."""
    graph, node = _rounded(traced(first(nn.LSTM(12, 9, 2, batch_first=True)), 4, 6, 12), "lstm", data_in=8, weight=4)
    inputs, others = 6 * 36 * 12, 6 * 36 * (9 + 9 + 9)
    assert node_bitops(node, {"batch": 1}) == bitops(graph) == 4 * (inputs * 8 + others * 32)


def test_a_cell_multiplies_its_rounded_state() -> None:
    _, node = _rounded(traced(CELLS["lstm_cell"], 4, 12), "lstm_cell", data_in=8, weight=4)
    assert node_bitops(node, {"batch": 1}) == 36 * (12 + 9) * 8 * 4


@pytest.mark.slow
def test_shares_of_bitops_are_those_of_each_pair_of_candidates() -> None:
    """Shared exponents of blocks cost each matrix bits of its own."""
    graph, node = _rounded(traced(first(nn.GRU(12, 9, 2, batch_first=True)), 4, 6, 12), "gru")
    shares, choices = COSTS.get("bitops").shares, [Candidate(), Candidate(MXInt(4, 8)), Candidate(MXInt(8, 5))]
    assert shares is not None and shares.grid is not None
    grid = shares.grid(node, graph, ("data_in", "weight"), [choices, choices])
    for i, a in enumerate(choices):
        for j, b in enumerate(choices):
            chosen = with_candidates(node, {"data_in": a, "weight": b})
            assert float(grid[i][j]) == pytest.approx(bitops(graph.replace(chosen)), rel=1e-12)


# -- graphs of before


def test_ports_of_older_graphs_get_their_names() -> None:
    graph, node = _rounded(traced(CELLS["lstm_cell"], 4, 12), "lstm_cell", data_in=8)
    older = {"weight": "data_in_3", "weight_1": "data_in_4", "bias": "data_in_5", "bias_1": "data_in_6"}
    ports = {older.get(p, p): m for p, m in node.ports.items()}
    data = graph_to_json(replace(graph, nodes=graph.nodes | {node.id: replace(node, ports=ports)}))
    opened = graph_from_json(data)[node.id]
    assert opened.ports == node.ports
    assert {p: c.format for p, c in opened.precision.items()} == dict.fromkeys(("data_in", "weight"), Integer(8, 2))
