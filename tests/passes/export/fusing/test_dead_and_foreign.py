"""Channels without weights keep their biases, and numbers that a model subtracts are no biases of a channel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import espalier as es
from espalier.model.errors import DataError, ExportError
from tests.passes.export.precise_session import precise_session, skip_if_products_overflow

ort = pytest.importorskip("onnxruntime")
AFFINE = "scaled_integer(width=8, granularity=tensor, symmetric=false)"
INT8 = "scaled_integer(width=8, granularity=channel)"
UNEVEN = "scaled_integer(width=4, symmetric=false, granularity=group, group=4)"


class Convolved(nn.Module):
    def __init__(self, dead: str = "", minus: torch.Tensor | None = None) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.conv = nn.Conv2d(3, 8, 3, padding=1, bias=minus is None)
        self.norm, self.head, self.minus = nn.BatchNorm2d(8), nn.Linear(8, 4), minus
        if dead == "gamma":
            nn.init.zeros_(self.norm.weight[::4])
            self.norm.bias.data[::4] = 1.2
        elif dead and self.conv.bias is not None:
            self.conv.weight.data[::4] = 0
            self.conv.bias.data[::4] = 1.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        return self.head(torch.relu(self.norm(y if self.minus is None else y - self.minus)).mean((2, 3)))


class Product(nn.Module):
    def __init__(self, minus: Any) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.head, self.minus = nn.Linear(10, 8, bias=False), nn.Linear(8, 4), minus

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.first(x) - self.minus))


def difference(
    module: nn.Module, x: torch.Tensor, path: Path, weight: str, data: str = "", calibrated: bool = True, **options: Any
) -> float:
    """The largest difference of a file's results from torch's, by the largest result."""
    m = es.trace(module.eval(), x)
    layers = [op for op in ("conv2d", "linear") if any(n.op == op for n in m.graph)]
    m.quantize(layers, weight=weight, **({"data_in": data, "data_out": data} if data else {}))
    if data and calibrated:
        samples = torch.randn(40, *x.shape[1:])
        m.calibrate(data=(samples, torch.zeros(40, dtype=torch.long)), batch_size=len(x))
    m.export("onnx", path, **options)
    session = precise_session(path)
    with torch.no_grad():
        expected = m.to_torch()(x).numpy()
    (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    return float(np.abs(found - expected).max() / np.abs(expected).max())


@pytest.mark.slow
@pytest.mark.parametrize("dead", ["weights", "gamma"])
@pytest.mark.parametrize("exact", [False, True])
def test_the_bias_of_a_channel_without_weights_stays(dead: str, exact: bool, tmp_path: Path) -> None:
    x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(2))
    assert difference(Convolved(dead), x, tmp_path / "m.onnx", INT8, AFFINE, exact=exact) < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("data", ["", AFFINE])
@pytest.mark.parametrize("shape", [(8,), (8, 1, 1), (8, 8)], ids=str)
def test_numbers_beside_a_convolution_broadcast_as_in_torch(shape: tuple[int, ...], data: str, tmp_path: Path) -> None:
    """[8] lies along the columns, of which there are as many as channels."""
    given = torch.Generator().manual_seed(3)
    x, minus = torch.randn(2, 3, 8, 8, generator=given), torch.randn(shape, generator=given)
    assert difference(Convolved(minus=minus), x, tmp_path / "m.onnx", INT8, data) < (0.02 if data else 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("calibrated", [False, True])
@pytest.mark.parametrize("shape", [(), (8,), (8, 1)], ids=str)
def test_numbers_beside_a_product_broadcast_as_in_torch(
    shape: tuple[int, ...], calibrated: bool, tmp_path: Path
) -> None:
    given = torch.Generator().manual_seed(4)
    skip_if_products_overflow()
    x, minus = torch.randn(8, 10, generator=given), torch.randn(shape, generator=given)
    assert difference(Product(minus), x, tmp_path / "m.onnx", INT8, AFFINE, calibrated) < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("standard", [False, True])
def test_groups_of_4_bits_that_do_not_divide_a_row(standard: bool, tmp_path: Path) -> None:
    x = torch.randn(3, 10, generator=torch.Generator().manual_seed(5))
    assert difference(Product(0.5), x, tmp_path / "m.onnx", UNEVEN, standard=standard) < 1e-5


@pytest.mark.slow
def test_what_makes_no_sense_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    x, path = torch.randn(8, 10), tmp_path / "m.onnx"
    m = es.trace(Product(0.5).eval(), x).quantize("linear", weight=INT8)
    with pytest.raises(DataError, match="cannot take this data"):
        m.export("onnx", path, check=True, data="demo:digits")
    with pytest.raises(ExportError, match="not exact"):
        m.export("onnx", path, exact=True, accuracy_level=4)
    broken = Product(0.5)
    broken.first.weight.data[2, 1] = torch.nan
    with pytest.warns(UserWarning, match="not finite"):
        m_broken = es.trace(broken.eval(), x)
    with pytest.raises(ExportError, match="first weight has values that are no numbers"):
        m_broken.quantize("linear", weight=INT8).export("onnx", path)
    assert not path.exists()
    rows = m.export("onnx", path, check=True, data=np.tile(x.numpy(), (2, 1)), runs=2).summary["check"]["rows"]
    assert all("accuracy" not in row or row["accuracy"] is None for row in rows), "without labels"
