"""Training counts denormals as 0: no format may divide by what then is 0."""

from __future__ import annotations

from collections.abc import Generator

import pytest
import torch

import passes  # noqa: F401  (fast versions register)
from model.formats.base import Format
from model.straight_through import gated
from tests.contract.format_cases import FORMS
from tests.contract.test_scaled_formats import RULED as SCALED


@pytest.fixture
def flushed() -> Generator[None]:
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush denormals")
    yield
    torch.set_flush_denormal(False)


@pytest.mark.parametrize("fmt", [*FORMS, *SCALED], ids=str)
def test_zero_rows_and_tiny_rows_stay_numbers(fmt: Format, flushed: None) -> None:
    x = torch.randn(6, 64, generator=torch.Generator().manual_seed(0)) * 0.02
    x[0], x[3], x[5] = 0, x[3] * 1e-37, x[5] * 1e-42
    assert fmt.define(x).isfinite().all() and fmt.forward(x).isfinite().all()
    assert gated(fmt, x)[0].isfinite().all()
