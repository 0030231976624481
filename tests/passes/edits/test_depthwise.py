"""A convolution as a depthwise and a pointwise one: the best pair, computed with numpy alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import espalier as es
from espalier.model.errors import GraphError


class Net(nn.Module):
    """Odd sizes, a stride, a dilation, and a convolution that is separable."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(3, 7, (3, 5), stride=(2, 1), padding=(1, 2))
        self.b = nn.Conv2d(7, 4, 3, dilation=2, padding=2, bias=False)
        self.point = nn.Conv2d(4, 4, 1)
        self.grouped = nn.Conv2d(4, 4, 3, groups=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.grouped(self.point(self.b(torch.relu(self.a(x)))))


def made(net: nn.Module) -> es.Model:
    """The traced model."""
    return es.trace(net.eval(), torch.randn(2, 3, 13, 17))


def separable(model: es.Model, node: str) -> es.Model:
    """The model after the edit."""
    return model.edit_graph([{"replace": {"node": node, "op": "depthwise_separable"}}])  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize("name", ["a", "b"])
def test_it_is_the_best_pair_by_numpy(name: str) -> None:
    torch.manual_seed(3)
    net = Net()
    layer = getattr(net, name)
    weight = layer.weight.detach().double().numpy()
    best = np.zeros_like(weight)
    for i in range(weight.shape[1]):
        u, s, vt = np.linalg.svd(weight[:, i].reshape(weight.shape[0], -1), full_matrices=False)
        best[:, i] = (s[0] * np.outer(u[:, 0], vt[0])).reshape(weight[:, i].shape)
    model = separable(made(net), name)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(best))
        x = torch.randn(3, 3, 13, 17)
        torch.testing.assert_close(model.to_torch()(x), net(x), atol=1e-5, rtol=1e-5)
    ops = [n.id for n in model.nodes() if n.op == "conv2d"]
    assert f"{name}_depthwise" in ops and name in ops and len(ops) == 5


def test_a_separable_convolution_stays_what_it_is() -> None:
    torch.manual_seed(4)
    net = Net()
    with torch.no_grad():
        net.a.weight.copy_(torch.einsum("oi,ikl->oikl", torch.randn(7, 3), torch.randn(3, 3, 5)))
        model, x = separable(made(net), "a"), torch.randn(2, 3, 13, 17)
        torch.testing.assert_close(model.to_torch()(x), net(x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("edit", [{"node": "point"}, {"node": "grouped"}, {"node": "relu"}])
def test_others_are_refused(edit: dict[str, Any]) -> None:
    with pytest.raises(GraphError, match=r"Conv2d of one group|no weight"):
        made(Net()).edit_graph([{"replace": {**edit, "op": "depthwise_separable"}}])  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"rank": 2}, "rank is 2, and depthwise_separable has none. Leave it out, or choose low_rank"),
        ({"attrs": {"stride": 2}}, "depthwise_separable takes no attrs: its sizes follow from a. Leave attrs out"),
    ],
)
def test_a_rank_or_sizes_of_its_own_are_refused(more: dict[str, Any], text: str) -> None:
    with pytest.raises(GraphError, match=text):
        made(Net()).edit_graph([{"replace": {"node": "a", "op": "depthwise_separable", **more}}])  # type: ignore[attr-defined]
