"""Scales of 16 bits are the next number above, as the page of the format says, so that nothing clips."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.formats.stored_scale import ScaleType

PAGE = Path(__file__).resolve().parents[2] / "resources" / "guide" / "reference" / "formats.md"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_short_scale_is_rounded_up(dtype: ScaleType) -> None:
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(500, 16)).astype(np.float32))
    ideal = x.abs().amax(1) / 127
    near = ideal.to(getattr(torch, dtype)).float()  # as torch rounds, to nearest
    assert bool((near < ideal).any())
    found = ScaledInteger(8, "channel", scale_dtype=dtype).define(x)
    assert bool(((x - found).abs() <= 0.5001 * (1 + 2.0**-7) * ideal[:, None]).all()), "nothing clips"
    page = PAGE.read_text(encoding="utf-8").partition("## scaled_integer")[2].partition("\n## ")[0]
    assert "in float16 or bfloat16 is rounded up" in page
