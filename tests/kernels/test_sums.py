"""Sums of magnitudes of 16 bits, some of them taken in float32, are those of float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from espalier.model.formats.ternary import Ternary

sums = pytest.importorskip("espalier.kernels.fake_quant.loops.sums", reason="numba is not installed")
cpu = pytest.importorskip("espalier.kernels.fake_quant.cpu", reason="numba is not installed")


def magnitudes(dtype: torch.dtype, furthest: float) -> Tensor:
    """Normal numbers, a few as far away as `furthest`; no multiple of a vector of them."""
    x = torch.randn(5003, generator=torch.Generator().manual_seed(1))
    x[::700] *= furthest
    return x.to(dtype)


def found(loop: Any, x: Tensor, a: Any, b: Any) -> list[float]:
    """Sum and number."""
    row = np.zeros(2)
    loop(cpu.words(x), a, b, row)
    return row.tolist()


@pytest.mark.parametrize("furthest", [1.0, 2.0**-12, 3000.0], ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_sums_lose_nothing(dtype: torch.dtype, furthest: float) -> None:
    """Float32 would: what lies far out has a last place above the others'."""
    x = magnitudes(dtype, furthest)
    exact, delta = x.double().abs(), np.float32(0.01)
    total, count = found(sums.whole_residual, x, np.float32(0), np.float32(0))
    assert (total, count) == (pytest.approx(exact.sum().item(), rel=1e-14), x.numel())
    kept = exact[exact > float(delta)]
    total, count = found(sums.whole_above, x, delta, np.bool_(True))
    assert (total, count) == (pytest.approx(kept.sum().item(), rel=1e-14), kept.numel())


def test_bfloat16_has_sums_beyond_float32_and_of_denormals() -> None:
    for value in (3e38, 1e-39):
        x = torch.full((4099,), value).to(torch.bfloat16)
        total, _ = found(sums.whole_residual, x, np.float32(0), np.float32(0))
        assert total == pytest.approx(x.double().sum().item(), rel=1e-14)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_a_negative_scale_turns_the_signs(dtype: torch.dtype) -> None:
    x, fmt = magnitudes(dtype, 1.0).view(1, -1), Ternary()
    scale = torch.tensor([[-0.5]])
    assert torch.equal(fmt.forward_with(x, scale), fmt.with_scale(x, scale))
