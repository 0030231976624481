"""Adafactor of split parameters: transformers' own steps, with the moments of rows and columns in parts as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard, distribute_tensor
from transformers.optimization import Adafactor

from espalier.passes.distributed.placements import settled


class SplitAdafactor(Adafactor):
    """The optimiser of transformers. Its state begins as DTensors, since it would make plain tensors."""

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step; state that is new, or was read from a checkpoint, is distributed first."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if isinstance(parameter, DTensor) and parameter.grad is not None:
                    self._distribute(parameter, group["beta1"] is not None)
        return super().step(closure)

    def _distribute(self, parameter: DTensor, averages: bool) -> None:
        state = self.state[parameter]
        rank = parameter.dim()
        without = {"exp_avg_sq_row": rank - 1, "exp_avg_sq_col": rank - 2} if rank >= 2 else {"exp_avg_sq": None}
        without |= {"exp_avg": None} if averages else {}
        if not state:
            state.update(step=0, RMS=0)
        for name, dim in without.items():
            shape = [n for i, n in enumerate(parameter.shape) if i != dim]
            value = state.get(name)
            if isinstance(value, DTensor):
                continue
            whole: Any = torch.zeros(shape) if value is None else value
            whole = whole.to(parameter.to_local().device, torch.float32 if _is_short(parameter) else parameter.dtype)
            state[name] = distribute_tensor(whole, parameter.device_mesh, _kept(parameter, dim), src_data_rank=None)

    @staticmethod
    def _rms(tensor: Tensor) -> Tensor:
        """The root of the mean square of all parts."""
        found: Any = Adafactor._rms(settled(tensor) if isinstance(tensor, DTensor) else tensor)
        return settled(found) if isinstance(found, DTensor) else found


def _is_short(tensor: Tensor) -> bool:
    """Whether Adafactor computes in float32 instead of the tensor's type."""
    return tensor.dtype in (torch.float16, torch.bfloat16)


def _kept(parameter: DTensor, without: int | None) -> list[Placement]:
    """The placements of a parameter for a tensor that lacks one of its dimensions."""
    found = list[Placement]()
    for placement in parameter.placements:
        if not isinstance(placement, Shard) or placement.dim == without:
            found.append(Replicate())
        else:
            found.append(Shard(placement.dim - (without is not None and placement.dim > without)))
    return found
