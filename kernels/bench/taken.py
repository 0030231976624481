"""Checks the arguments of kernels, which would compute wrong numbers for wrong dtypes or shapes."""

from __future__ import annotations

import torch
from torch import Tensor

from espalier.kernels.bench.spec import KernelError

FLOATS = (torch.float32, torch.bfloat16, torch.float16)


def floats(name: str, *tensors: Tensor | None) -> None:
    """Raises KernelError unless all are of one floating type that kernels compute in."""
    given = {t.dtype for t in tensors if t is not None}
    if len(given) == 1 and given <= set(FLOATS):
        return
    told = " and ".join(sorted(str(d).removeprefix("torch.") for d in given))
    raise KernelError(f"{name} does not take {told}.", "Give float32, bfloat16 or float16, one for all tensors.")


def forward_only(name: str, *tensors: Tensor | None) -> None:
    """Raises KernelError where a gradient is wanted that the kernel would drop without a word."""
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors):
        raise KernelError(f"{name} has no backward pass.", "Use torch's own where gradients are wanted, or no_grad.")


def block_of(name: str, block: int, least: int, most: int = 1 << 30) -> None:
    """Raises KernelError unless a block is a power of two in a range."""
    if block & (block - 1) or not least <= block <= most:
        limit = f" to {most}" if most < 1 << 30 else " on"
        raise KernelError(f"{name} does not take blocks of {block}.", f"They are powers of two from {least}{limit}.")
