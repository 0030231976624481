"""Layers that read one tensor in one format share the quantised tensor; each is told, and trains, as if alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from espalier.model.formats.base import Format
from espalier.model.formats.binary import Binary
from espalier.model.formats.integer import Integer
from espalier.model.formats.mxint import MXInt
from espalier.model.formats.straight_through import straight_through
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Precision
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build
from espalier.model.torch.layers import Effective
from espalier.model.trace.trace import trace
from espalier.passes.running.observing import tap

FINE, COARSE = Integer(8, 4), Integer(4, 2)


class Three(nn.Module):
    """Three layers on one tensor, and a function that writes into it."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(32, 4) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        h = x * 2
        return self.query(h) + self.key(h) + self.value(h) + torch.relu(h).sum()


def three(tmp_path: Path, **formats: Format) -> tuple[nn.Module, Graph, Three]:
    """The built module with a format on data_in of each node named."""
    store = WeightStore(tmp_path)
    torch.manual_seed(0)
    model = Three().eval()
    graph = trace(model, {"x": torch.randn(2, 32)}, store).graph
    chosen = {n: replace(graph[n], precision={"data_in": Precision(f)}) for n, f in formats.items()}
    graph = graph.replace(*chosen.values())
    return build(graph, store), graph, model


def quantisers(module: nn.Module) -> int:
    return sum(isinstance(m, Effective) for m in module.modules())


def test_equal_formats_share_and_others_do_not(tmp_path: Path) -> None:
    assert quantisers(three(tmp_path, query=FINE, key=FINE, value=FINE)[0]) == 1
    assert quantisers(three(tmp_path, query=FINE, key=COARSE, value=FINE)[0]) == 2
    assert quantisers(three(tmp_path, query=MXInt(8), key=MXInt(8), value=MXInt(4))[0]) == 2
    chance = Binary(stochastic=True)
    assert quantisers(three(tmp_path, query=chance, key=chance, value=chance)[0]) == 3


def test_only_products_share(tmp_path: Path) -> None:
    """Other functions may write into their operand, which no neighbour may see."""
    assert quantisers(three(tmp_path, query=FINE, relu=FINE)[0]) == 2


def test_values_and_gradients_are_those_of_each_alone(tmp_path: Path) -> None:
    module, _, model = three(tmp_path, query=FINE, key=FINE, value=COARSE)
    x, y = (torch.randn(5, 32, generator=torch.Generator().manual_seed(1)).requires_grad_() for _ in range(2))
    got = module(x=x)
    h = y * 2
    want = sum(
        getattr(model, n)(straight_through(f, h)) for n, f in (("query", FINE), ("key", FINE), ("value", COARSE))
    )
    want = want + torch.relu(h).sum()
    assert torch.equal(got, want)
    got.square().sum().backward()
    want.square().sum().backward()
    assert x.grad is not None and y.grad is not None and torch.allclose(x.grad, y.grad, rtol=1e-5)


def test_each_port_is_told_what_flows_before_its_format(tmp_path: Path) -> None:
    module, graph, _ = three(tmp_path, query=FINE, key=FINE, value=COARSE)
    told: dict[str, Tensor] = {}
    x = torch.randn(3, 32)
    run = tap(
        module, graph, dict.fromkeys(("query", "key", "value"), ("data_in",)), lambda n, p, v: told.update({n: v})
    )
    run({"x": x})
    assert told.keys() == {"query", "key", "value"}
    assert all(torch.equal(v, x * 2) for v in told.values())
