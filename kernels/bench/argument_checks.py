"""Checks of kernels' arguments: kernels compute wrong numbers for wrong dtypes or shapes."""

from __future__ import annotations

import torch
from torch import Tensor

from espalier.kernels.bench.spec import KernelError

FLOATS = (torch.float32, torch.bfloat16, torch.float16)


def check_float_dtypes(name: str, *tensors: Tensor | None) -> None:
    """Raise KernelError unless all tensors have the same supported floating dtype."""
    dtypes = {t.dtype for t in tensors if t is not None}
    if len(dtypes) == 1 and dtypes <= set(FLOATS):
        return
    names = " and ".join(sorted(str(d).removeprefix("torch.") for d in dtypes))
    raise KernelError(f"{name} does not take {names}.", "Use float32, bfloat16 or float16 for all tensors.")


def check_no_gradient(name: str, *tensors: Tensor | None) -> None:
    """Raise KernelError if a gradient is required, which the kernel would silently drop."""
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors):
        raise KernelError(
            f"{name} has no backward pass.", "Use torch's own function for gradients, or call it under no_grad."
        )


def check_block(name: str, block: int, lowest: int, highest: int = 1 << 30) -> None:
    """Raise KernelError unless a block size is a power of two within lowest … highest."""
    if block & (block - 1) or not lowest <= block <= highest:
        limit = f" to {highest}" if highest < 1 << 30 else " on"
        raise KernelError(f"{name} does not take blocks of {block}.", f"They are powers of two from {lowest}{limit}.")
