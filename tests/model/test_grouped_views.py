"""Transposed convolutions in groups: rows of a weight are output channels, each with its own scale."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from espalier.model.errors import ProjectError
from espalier.model.formats.base import Format, parse_format
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.graph.graph import Graph
from espalier.model.graph.views import view_at, view_of
from espalier.model.opening import open_any
from espalier.model.packed.file import write_packed
from espalier.model.packed.layout import plan
from espalier.model.sources.info import SourceInfo
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build
from espalier.model.trace.trace import trace
from espalier.model.trust import Origin
from espalier.passes.base import Context
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.score import port_bits
from espalier.passes.select import Select
from espalier.passes.transform.quantize import quantize

GROUPS, INPUTS, OUTPUTS, KERNEL = 3, 6, 12, 5
X = torch.randn(2, INPUTS, 7, generator=torch.Generator().manual_seed(1))


class Layer(nn.Module):
    """By a module, or by a function of a parameter."""

    def __init__(self, module: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.module = module
        self.up = nn.ConvTranspose1d(INPUTS, OUTPUTS, KERNEL, groups=GROUPS)
        with torch.no_grad():
            self.up.weight.mul_(torch.rand_like(self.up.weight) * torch.logspace(-2, 1, INPUTS)[:, None, None])

    def forward(self, x: Tensor) -> Tensor:
        return self.up(x) if self.module else F.conv_transpose1d(x, self.up.weight, self.up.bias, groups=GROUPS)


def quantised(fmt: Format, module: bool, folder: Path) -> tuple[Tensor, Graph, WeightStore]:
    """(the layer's own weight, the graph with `fmt` on it)."""
    layer, store = Layer(module).eval(), WeightStore(folder)
    graph = trace(layer, {"x": X}, store).graph
    after, _ = quantize(graph, QuantizeOptions((Rule(Select(), {"weight": fmt}),)), Context(store))
    return layer.up.weight.detach(), after, store


def channels(weight: Tensor) -> list[tuple[slice, int]]:
    """Where the weight of each output channel lies, by the definition of groups: (its inputs, place in its group)."""
    per = INPUTS // GROUPS
    return [(slice(c // weight.shape[1] * per, (c // weight.shape[1] + 1) * per), c % weight.shape[1])
            for c in range(OUTPUTS)]  # fmt: skip


@pytest.mark.parametrize("module", [True, False])
@pytest.mark.parametrize("text", ["scaled_integer(width=4)", "scaled_integer(width=4, symmetric=false)", "ternary()",
                                  "binary_scaled()", "mxint(width=4, block=8)"])  # fmt: skip
def test_each_output_channel_is_a_row(text: str, module: bool, tmp_path: Path) -> None:
    fmt = parse_format(text)
    weight, graph, store = quantised(fmt, module, tmp_path)
    want = weight.clone()
    for inputs, place in channels(weight):
        row = weight[inputs, place]
        want[inputs, place] = fmt.define(row.reshape(1, -1)).reshape(row.shape)
    with torch.no_grad():
        bias = Layer(module).up.bias
        assert torch.equal(build(graph, store)(x=X), F.conv_transpose1d(X, want, bias, groups=GROUPS))


def test_bits_count_a_scale_for_each_output_channel(tmp_path: Path) -> None:
    weight, graph, _ = quantised(ScaledInteger(4), True, tmp_path)
    part = next(p for p in plan(graph) if p.weight == "up.weight")
    assert part.shared == 32 * OUTPUTS and part.bits == 4 * weight.numel() + 32 * OUTPUTS
    node = next(n for n in graph if n.op == "conv_transpose1d")
    assert port_bits(node, "weight", graph.symbols) == 4 + 32 * OUTPUTS / weight.numel()


def test_the_view_and_back(tmp_path: Path) -> None:
    weight, graph, _ = quantised(ScaledInteger(4), True, tmp_path)
    view = view_at(next(n for n in graph if n.op == "conv_transpose1d"), "weight")
    assert view is not None and view.shape(tuple(weight.shape)) == (OUTPUTS, INPUTS // GROUPS * KERNEL)
    rows = torch.stack([weight[inputs, place].reshape(-1) for inputs, place in channels(weight)])
    assert torch.equal(view.of(weight), rows) and torch.equal(view.back(rows, tuple(weight.shape)), weight)
    assert (view.of_array(weight.numpy()) == rows.numpy()).all()
    assert (view.array_back(rows.numpy(), tuple(weight.shape)) == weight.numpy()).all()


@pytest.mark.parametrize("text", ["scaled_integer(width=4)", "mxint(width=4, block=8)"])
def test_a_packed_file_gives_it_again(text: str, tmp_path: Path) -> None:
    _, graph, store = quantised(parse_format(text), True, tmp_path)
    path = tmp_path / "m.packed.safetensors"
    write_packed(graph, store, SourceInfo("made", "made"), path)
    opened = open_any(str(path), tmp_path / "again", origin=Origin.TYPED)
    with torch.no_grad():
        assert torch.equal(build(opened.project.graph, opened.store)(x=X), build(graph, store)(x=X))


def test_a_packed_file_in_another_order_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As files were written whose rows went over groups: as many bits, and other values."""
    _, graph, store = quantised(parse_format("mxint(width=4, block=8)"), True, tmp_path)
    path = tmp_path / "m.packed.safetensors"
    with monkeypatch.context() as old:
        old.setattr("espalier.model.packed.layout.view_at", lambda node, port: view_of(node.op, port, 3))
        write_packed(graph, store, SourceInfo("made", "made"), path)
    with pytest.raises(ProjectError, match="the layout of"):
        open_any(str(path), tmp_path / "again", origin=Origin.TYPED)
