"""`nvfp4`: a first pass finds the tensor's scale, the second is the blocks'."""

from __future__ import annotations

from typing import TYPE_CHECKING

from espalier.kernels.fake_quant.plan import Plan, planned
from espalier.kernels.fake_quant.plans.ends import most_pattern
from espalier.model.formats.nvfp4 import NVFP4

if TYPE_CHECKING:
    import torch


@planned(NVFP4)
def nvfp4(fmt: NVFP4, dtype: torch.dtype) -> Plan:
    """What infinity counts as; the scale is found from the tensor."""
    return Plan("nvfp4", (most_pattern(dtype),), fmt.blocks)
