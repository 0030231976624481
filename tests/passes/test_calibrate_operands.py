"""Operations with several operands: each has a static scale of its own, so that results do not depend on the batch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

import espalier as es

STATIC = "scaled_integer(width=8, granularity=tensor, symmetric=false)"


class Sums(nn.Module):
    """A shared layer, sums and products of computed tensors, a stored factor, and a weight that is computed."""

    def __init__(self) -> None:
        super().__init__()
        self.shared, self.wide = nn.Linear(8, 8), parametrizations.weight_norm(nn.Linear(16, 8))
        self.scale, self.head = nn.Parameter(torch.linspace(0.5, 2, 8)), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(2):
            x = x + torch.relu(self.shared(x)) * self.scale
        return self.head(x + self.wide(torch.cat([x, torch.tanh(x)], 1)))


def model(x: Tensor) -> es.Model:
    torch.manual_seed(0)
    m = es.trace(Sums().eval(), x[:4])
    return m.quantize("all", weight="scaled_integer(width=8, granularity=row)", data_in=STATIC)


def data(x: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
    labels = torch.zeros(len(x), dtype=torch.long)
    return {"train": (x, labels), "test": (x, labels)}


@pytest.mark.slow
def test_results_of_static_scales_do_not_depend_on_the_batch() -> None:
    x = torch.randn(64, 8, generator=torch.Generator().manual_seed(0)) * 3
    m = model(x).calibrate(data=data(x))
    left = {f"{n.id}.{p}" for n in m.graph for p, c in n.precision.items() if c.scale is None}
    assert left == {"linear_2.weight"}  # of the weight norm
    sums = [n for n in m.graph if n.op in ("add", "mul", "cat")]
    assert sums and all({"data_in", "data_in_1"} <= set(n.precision) for n in sums)
    module = m.to_torch().double()
    with torch.no_grad():
        whole, alone = module(x.double()), torch.cat([module(row[None]) for row in x.double()])
    torch.testing.assert_close(whole, alone, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_another_format_takes_the_scales_of_operands_away() -> None:
    x = torch.randn(16, 8, generator=torch.Generator().manual_seed(0))
    m = model(x).calibrate(data=data(x))
    m.quantize("linear", weight="int4")
    assert [p for n in m.graph for p in n.precision if p.startswith("data_in_")]
    m.quantize("all", data_in="integer(width=8, frac_width=4)")
    assert not [p for n in m.graph for p in n.precision if p.startswith("data_in_")]
    assert not [name for name in m.graph.weights if "data_in_1_scale" in name]
