"""Masks and formats of split tensors: on each rank's part where the split cuts no block and no shared scale."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from espalier.model.formats.blocks import BlockFormat
from espalier.model.formats.independent_rows import independent_rows
from espalier.model.formats.nvfp4 import NVFP4
from espalier.model.torch.layers import Effective
from espalier.passes.distributed.placements import as_replicated, full, local, placed, settled


class SplitEffective(nn.Module):
    """x → format(x·mask) of a DTensor, in its placements. `gathered`: whether the last value was gathered first."""

    def __init__(self, inner: Effective) -> None:
        super().__init__()
        self.inner = inner
        self.gathered = False
        self._parts: dict[Any, tuple[Tensor, Effective]] = {}

    def forward(self, x: Any) -> Any:
        """As the inner module; a plain tensor is a whole one."""
        if not isinstance(x, DTensor):
            return self._whole(x)
        x = settled(x)
        dims = {p.dim for p in x.placements if isinstance(p, Shard)}
        separated = all(separable(self.inner, tuple(x.shape), d, _parts(x, d)) for d in dims)
        self.gathered = bool(dims) and (not separated or self.hooked)
        if self.gathered or not dims:
            value = as_replicated(self._whole(full(x)), x.device_mesh)
            return placed(value, tuple(x.placements))
        value = self._part(x)(local(x, [isinstance(p, Shard) for p in x.placements]))
        return DTensor.from_local(value, x.device_mesh, x.placements, run_check=False, shape=x.shape, stride=x.stride())  # type: ignore[arg-type]

    @property
    def hooked(self) -> bool:
        """Whether hooks of the inner module must see whole tensors."""
        return bool(self.inner._forward_hooks)

    def _whole(self, x: Any) -> Any:
        """As the inner module, with the whole of a learned scale."""
        scale: Any = self.inner.scale
        if isinstance(scale, DTensor):
            return torch.func.functional_call(self.inner, {"scale": local(scale)}, (x,))
        return self.inner(x)

    def _part(self, x: DTensor) -> Effective:
        """The inner module with this rank's part of its mask."""
        mask = self.inner.mask
        if mask is None:
            return self.inner
        key = tuple(x.placements), tuple(x.shape)
        if key not in self._parts or self._parts[key][0] is not mask:  # a training may replace it
            whole = mask.expand(x.shape).contiguous()
            part = distribute_tensor(whole, x.device_mesh, x.placements, src_data_rank=None).to_local()
            old = self.inner
            made = Effective(old.format, part.clone(), old.view, old.scale, old.identity, old.rule)
            self._parts[key] = mask, made
        return self._parts[key][1]


def _parts(x: DTensor, dim: int) -> int:
    """Into how many parts a dimension is split."""
    count = 1
    for axis, placement in enumerate(x.placements):
        if isinstance(placement, Shard) and placement.dim == dim:
            count *= x.device_mesh.size(axis)
    return count


def separable(effective: Effective, shape: tuple[int, ...], dim: int, parts: int) -> bool:
    """Whether the values of equal parts of a tensor, split along `dim`, are the parts of its value."""
    if shape[dim] % parts or not _rule_separable(effective, shape, dim):
        return False
    fmt, scale = effective.format, effective.scale
    if fmt is None:
        return True
    if fmt.stochastic or (scale is not None and (scale.numel() != 1 or isinstance(scale, nn.Parameter))):
        return False
    if not fmt.rowwise:
        return True
    if scale is None and independent_rows(fmt) != 1:
        return False
    view = effective.view
    if view is not None and (view.groups > 1 or view.dense or view.joined > 1):
        return dim == 0 and view.order[0] == 0 and view.groups == 1
    axis = view.order.index(dim) if view is not None else dim
    last = axis > 0 if view is not None and view.flat else axis == len(shape) - 1
    if not last or len(shape) == 1:
        return not last
    if not isinstance(fmt, BlockFormat) or isinstance(fmt, NVFP4) or (view is not None and view.flat):
        return False
    return fmt.blocks.rows == 1 and (shape[dim] // parts) % fmt.blocks.block == 0


def _rule_separable(effective: Effective, shape: tuple[int, ...], dim: int) -> bool:
    """Whether a rule that prunes activations can be applied to parts: it drops a share of each sample, or by value."""
    rule = effective.rule
    return rule is None or rule.chosen.pattern == "threshold" or (dim == 0 and len(shape) > 1)
