"""The tensors of a model by canonical name: tied parameters share one name."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from espalier.model.graph.meta import Weight
from espalier.model.store.weights import Tensor as Stored
from espalier.model.store.weights import WeightStore

_CARRIER = {torch.bfloat16: torch.uint16, torch.float8_e4m3fn: torch.uint8, torch.float8_e5m2: torch.uint8}


def to_numpy(value: Tensor) -> Stored:
    """A stored tensor that shares memory with `value` if it is a contiguous CPU tensor."""
    plain = value.detach().cpu().contiguous()
    dtype = str(plain.dtype).removeprefix("torch.")
    carrier = _CARRIER.get(plain.dtype)
    return Stored((plain.view(carrier) if carrier else plain).numpy(), dtype)


def to_torch(stored: Stored) -> Tensor:
    """A torch tensor over the same memory."""
    value = torch.from_numpy(stored.array)
    dtype = getattr(torch, stored.dtype)
    return value if value.dtype == dtype else value.view(dtype)


class Tensors:
    """Canonical names of a model's tensors, and the `Weight` facts of used ones in `found`."""

    def __init__(self, model: nn.Module, store: WeightStore) -> None:
        self._store = store
        self._names: dict[int, str] = {}
        self._values: dict[str, tuple[Tensor, str]] = {}
        self.found: dict[str, Weight] = {}
        for name, value in model.named_parameters():
            self._names[id(value)] = name
            self._values[name] = (value, "parameter")
        state = model.state_dict(keep_vars=True)
        for name, value in model.named_buffers():
            self._names.setdefault(id(value), name)
            self._values[name] = (value, "buffer" if name in state else "constant")

    def name(self, value: Tensor, wish: str, role: str = "constant") -> str:
        """The canonical name of a tensor, recording it as used."""
        name = self._names.setdefault(id(value), wish)
        if name not in self._values:
            self._values[name] = (value, role)
        if name not in self.found:
            self.found[name] = self._fact(*self._values[name])
        return name

    def _fact(self, value: Tensor, role: Any) -> Weight:
        dtype = str(value.dtype).removeprefix("torch.")
        key = None if value.is_meta else self._store.hold(to_numpy(value))
        return Weight(key, tuple(value.shape), dtype, role, bool(value.requires_grad))
