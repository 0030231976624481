"""Formats leave tensors in one piece of memory, as code that takes views of them counts on."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from espalier.model.formats.base import Format, parse_format
from espalier.model.registry import FORMATS
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build
from espalier.model.trace.trace import Traced, trace
from espalier.passes.base import Context
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.select import Select
from espalier.passes.transform.quantize import quantize

TEXTS = (*(n for n, _ in FORMATS.items()), "block_fp(block=5, rows=3)", "mxint(block=3)", "nvfp4(block=4, rows=2)",
         "scaled_integer(granularity=group, group=3)")  # fmt: skip


class Views(nn.Module):
    """Views of what a convolution, a norm and a product give."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.line, self.head = nn.Conv1d(4, 6, 1), nn.Linear(42, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.conv(x)).view(len(x), 4, -1)
        y = self.line(y).view(len(x), 6, -1)
        return self.head(torch.matmul(y, y.transpose(1, 2)).view(len(x), -1).repeat(1, 2)[:, :42]).view(-1)


@cache
def traced() -> tuple[Traced, WeightStore, Tensor]:
    torch.manual_seed(0)
    store, x = WeightStore(Path(tempfile.gettempdir()) / "espalier-tests-views-unwritten"), torch.randn(2, 3, 5, 5)
    return trace(Views().eval(), {"x": x}, store), store, x


@pytest.mark.parametrize("port", ["data_in", "data_out"])
@pytest.mark.parametrize("fmt", [parse_format(t) for t in TEXTS], ids=str)
def test_views_of_quantised_values(fmt: Format, port: str) -> None:
    found, store, x = traced()
    graph, _ = quantize(found.graph, QuantizeOptions((Rule(Select(), {port: fmt}),)), Context(store))
    module = build(graph, store)
    with torch.no_grad():
        assert module(x=x).shape == (10,)
    module.train()(x=x).sum().backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in module.parameters())
