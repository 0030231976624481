"""Tensors of every node with their gradients, held to those of autograd."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from espalier.model.graph.ops import quantisable
from espalier.model.store.weights import WeightStore
from espalier.model.trace.trace import trace
from espalier.passes.base import Context
from espalier.passes.sensitivity.gradient_hooks import HookedModel


class Counting(nn.Module):
    """Counts of values, summed to whole numbers, as mixtures of experts sort their tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.fc(x))
        ends = torch.histc(h.argmax(-1).float(), 4, 0, 3).cumsum(0, dtype=torch.int32)
        return h * ends.float()


def test_whole_numbers_have_no_gradient_and_the_others_are_those_of_autograd(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x, store = Counting().eval(), torch.randn(5, 6), WeightStore(tmp_path)
    graph = trace(model, {"x": x}, store).graph
    assert any(n.op == "cumsum" for n in graph)
    found: dict[tuple[str, str], Tensor] = {}

    def sink(node: str, port: str, _: Tensor, gradient: Tensor, __: str) -> None:
        found[node, port] = gradient

    wanted = {n.id: quantisable(n) for n in graph if quantisable(n)}
    hooked = HookedModel(graph, wanted, sink, Context(store))
    result: Any = hooked({"x": x})
    result = result[0] if isinstance(result, tuple) else result
    assert torch.equal(result, model(x))
    result.square().sum().backward()
    model(x).square().sum().backward()
    linear = next(n.id for n in graph if n.op == "linear")
    assert torch.allclose(found[linear, "weight"], model.fc.weight.grad, atol=1e-6)  # type: ignore[arg-type]
    assert not any(graph.nodes[node].op == "cumsum" for node, _ in found)
