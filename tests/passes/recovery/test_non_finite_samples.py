"""Passes that compute something from samples refuse samples, and inputs of layers, that are not finite."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

import pytest
import torch
from torch import Tensor, nn

import espalier as es
from espalier.model.errors import EspalierError
from espalier.model.torch.build import parameters_of

FEATURES, N = 8, 20
Data = tuple[Tensor, Tensor]


class Roots(nn.Module):
    """Its square root is NaN for negative inputs of `two`."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.norm = nn.Linear(FEATURES, 16), nn.Linear(16, 16), nn.LayerNorm(16)
        self.three = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.three(self.norm(self.two(torch.sqrt(self.one(x) + 1.5))))


CALLS: dict[str, Callable[[es.Model, Data], object]] = {
    "calibrate": lambda m, data: m.quantize("linear", data_in="integer").calibrate(data=data),
    "smoothquant": lambda m, data: m.quantize("linear", data_in="int8", weight="int8").smoothquant(data=data),
    "gptq": lambda m, data: m.quantize("linear", weight="int4").gptq(data=data),
    "awq": lambda m, data: m.quantize("linear", weight="int4").awq(data=data),
    "mse_clip": lambda m, data: m.quantize("linear", weight="int4").mse_clip(data=data),
    "bias_correction": lambda m, data: m.quantize("linear", weight="int4").bias_correction(data=data),
    "autoround": lambda m, data: m.quantize("linear", weight="int4").autoround(data=data, steps=2),
    "prune": lambda m, data: m.prune(sparsity=0.5, method="wanda", data=data),
}


def model() -> es.Model:
    torch.manual_seed(0)
    return es.trace(Roots(), torch.randn(2, FEATURES))


def data(scale: float) -> Data:
    torch.manual_seed(1)
    return torch.randn(N, FEATURES) * scale, torch.arange(N) % 4


@pytest.mark.parametrize("name", CALLS)
def test_samples_that_are_not_finite_are_counted(name: str) -> None:
    x, y = data(0.1)
    x[::2, 2], x[1] = torch.nan, torch.inf
    with pytest.raises(EspalierError) as error:
        CALLS[name](model(), (x, y))
    found = re.search(r"NaN or infinite numbers are in (\d+) of (\d+) samples of the split", str(error.value))
    assert found and 0 < int(found[1]) <= 11 and int(found[2]) in (N, 16, 17, 18)


@pytest.mark.parametrize("name", [n for n in CALLS if n != "calibrate"])
def test_inputs_of_a_layer_that_are_not_finite_name_it(name: str) -> None:
    """All samples are finite; the root within the model is not."""
    with pytest.raises(EspalierError, match=r"two\b.*not finite|three\b.*not finite"):
        CALLS[name](model(), data(5.0))


@pytest.mark.parametrize("method", ["minmax", "mse", "percentile", "entropy"])
def test_calibrated_scales_leave_nan_out(method: Literal["minmax", "mse", "percentile", "entropy"]) -> None:
    """The scale of an input with NaN is that of its finite values."""
    fmt = "scaled_integer(width=8, granularity=tensor)"
    m = model().quantize("two", data_in=fmt).calibrate(data=data(5.0), method=method, split="all")
    name = m["two"].precision["data_in"].scale
    assert name is not None
    scale = float(parameters_of(m.to_torch())[name])
    inner = _inner()
    assert inner.isnan().any()
    top = float(inner[inner.isfinite()].max()) / 127
    assert scale == pytest.approx(top, rel=1e-5) if method == "minmax" else 0.05 * top < scale < 1.01 * top


def _inner() -> Tensor:
    torch.manual_seed(0)
    net = Roots()
    with torch.no_grad():
        return torch.sqrt(net.one(data(5.0)[0]) + 1.5)
