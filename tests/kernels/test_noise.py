"""The squared error of quantised values, against float64."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("numba")


@pytest.mark.parametrize("shape", [(0,), (1,), (1024,), (1025,), (37, 129), (300, 300)])
def test_squared_error_is_that_of_float64(shape: tuple[int, ...]) -> None:
    from espalier.kernels.fake_quant.noise import squared_error

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=generator)
    y = x + 0.01 * torch.randn(shape, generator=generator)
    exact = float((x.double() - y.double()).square().sum())
    assert squared_error(x, y) == pytest.approx(exact, rel=1e-6)


def test_what_is_not_finite_shows() -> None:
    from espalier.kernels.fake_quant.noise import squared_error

    x = torch.zeros(2000)
    assert squared_error(x, x) == 0
    assert squared_error(x, torch.where(torch.arange(2000) == 1500, torch.inf, x)) == float("inf")
