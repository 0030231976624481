"""`nvfp4`: a first pass computes the tensor scale, a second one the blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from espalier.kernels.fake_quant.plan import Plan, register_plan
from espalier.kernels.fake_quant.plans.ends import most_pattern
from espalier.model.formats.nvfp4 import NVFP4

if TYPE_CHECKING:
    import torch


@register_plan(NVFP4)
def nvfp4(fmt: NVFP4, dtype: torch.dtype) -> Plan:
    """The pattern that replaces infinity; the scale is computed from the tensor."""
    return Plan("nvfp4", (most_pattern(dtype),), fmt.blocks)
