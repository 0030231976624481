"""Modules of a built model: a tensor's effective value (mask, then format), and leaves that use it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from espalier.model.errors import ProjectError
from espalier.model.formats.base import Format
from espalier.model.formats.straight_through import (
    NOT_EXCLUSIVE,
    Exclusive,
    straight_through,
    straight_through_cached,
    straight_through_scaled,
    value_and_gate,
)
from espalier.model.graph.views import View
from espalier.model.torch.activation_masks import ActivationMask

if TYPE_CHECKING:
    from espalier.model.formats.scaled import ScaledFormat


@dataclass(frozen=True, slots=True)
class _Cached:
    """A parameter's quantised value and gradient gate in the format's view; `stamp`: the parameter's state."""

    stamp: tuple[Any, ...]
    value: Tensor
    gate: Tensor | None
    gated: bool


class _Steps:
    """Counts optimiser steps: fused optimisers write parameters without increasing their `_version`."""

    count = 0

    @classmethod
    def increment(cls, *_: Any) -> None:
        cls.count += 1


register_optimizer_step_post_hook(_Steps.increment)


class Effective(nn.Module):
    """x → format(x·mask). Values of parameters are cached until the parameter is written.

    `view`: the tensor's view for formats with rows. `scale`: a static or learned scale of a ScaledFormat. `rule`: the
    mask of a pruned activation. `exclusive`: tensors that it may overwrite (see `in_place`).
    """

    mask: Tensor | None
    scale: Tensor | None

    def __init__(
        self,
        fmt: Format | None,
        mask: Tensor | None = None,
        view: View | None = None,
        scale: Tensor | None = None,
        identity: bool = False,
        rule: ActivationMask | None = None,
    ) -> None:
        super().__init__()
        self.format, self.identity, self.rule = fmt, identity, rule
        self.view = view if fmt is not None and fmt.rowwise else None
        self.register_buffer("mask", mask, persistent=False)
        if isinstance(scale, nn.Parameter):
            self.scale = scale
        else:
            self.register_buffer("scale", scale, persistent=False)
        self._cached: _Cached | None = None
        self.exclusive = NOT_EXCLUSIVE

    def forward(self, x: Tensor) -> Tensor:
        """Any shape → the same shape and dtype."""
        if type(x) is Tensor and self._bare:
            assert self.format is not None
            return straight_through(self.format, x, self.identity, self.exclusive)
        learns = torch.is_grad_enabled() and (x.requires_grad or (self.scale is not None and self.scale.requires_grad))
        random = self.format is not None and self.format.stochastic
        computed = type(x) is not nn.Parameter or random or torch.compiler.is_compiling()
        if computed or (learns and self.format is None):
            exclusive = self.exclusive if type(x) is Tensor and self.rule is None else NOT_EXCLUSIVE
            return self._back(self._computed(x, exclusive), x)
        cached = self._cached_value(x, learns)
        if not learns:
            return self._back(cached.value, x)
        assert self.format is not None
        if self.scale is not None:
            value = straight_through_scaled(
                cast("ScaledFormat", self.format), self.seen(x), self.scale, self.identity, cached.value
            )
        else:
            mask = None if self.mask is None else self._viewed(self.mask)
            value = straight_through_cached(
                self.format, self._viewed(x), cached.value, cached.gate, mask, self.exclusive
            )
        return self._back(value, x)

    @property
    def _bare(self) -> bool:
        """Whether there is only a format: `forward` then skips most checks, which matters in small models."""
        if self.format is None or self.view is not None or self.rule is not None:
            return False
        return self._buffers["mask"] is None and "scale" in self._buffers and self._buffers["scale"] is None

    @property
    def cached_bytes(self) -> int:
        """Bytes of the cached value of a parameter and its gate."""
        cached = self._cached
        return 0 if cached is None else sum(t.nbytes for t in (cached.value, cached.gate) if t is not None)

    def remask(self, mask: Tensor) -> None:
        """Replace the mask."""
        self.mask, self._cached = mask, None

    def _cached_value(self, x: Tensor, learns: bool) -> _Cached:
        """The cached value of a parameter, computed again if the parameter has been written."""
        scale = self.scale
        of_scale = None if scale is None else (id(scale), scale._version, scale.data_ptr())
        trains = x.requires_grad or (scale is not None and scale.requires_grad)
        stamp = (id(x), x._version, x.data_ptr(), x.dtype, of_scale, _Steps.count if trains else None)
        if self._cached is None or self._cached.stamp != stamp or (learns and not self._cached.gated):
            with torch.no_grad():
                if learns and self.format is not None and self.scale is None and not self.identity:
                    value, gate = value_and_gate(self.format, self.seen(x))
                else:
                    value, gate = self._computed(x), None
            self._cached = _Cached(stamp, value, gate, learns or scale is not None)
        return self._cached

    def _computed(self, x: Tensor, exclusive: Exclusive = NOT_EXCLUSIVE) -> Tensor:
        """The effective value in the format's view."""
        seen = self.seen(x)
        if self.format is None:
            return seen
        if self.scale is None:
            return straight_through(self.format, seen, self.identity, exclusive)
        return straight_through_scaled(
            cast("ScaledFormat", self.format), seen, self.scale, self.identity, exclusive=exclusive
        )

    def seen(self, x: Tensor) -> Tensor:
        """The masked `x` in the format's view."""
        return self._viewed(self._masked(x))

    def _masked(self, x: Tensor) -> Tensor:
        x = x if self.rule is None else self.rule(x)
        return x if self.mask is None else x * self.mask

    def _viewed(self, x: Tensor) -> Tensor:
        return x if self.view is None else self.view.of(x)

    def _back(self, y: Tensor, x: Tensor) -> Tensor:
        """`y` in the port's shape, masked again if the format does not map 0 to 0."""
        y = y if self.view is None else self.view.back(y, x.shape)
        if self.rule is not None and self.format is not None and not self.format.keeps_zero:
            y = torch.where(self.rule.dropped(x.detach()), 0.0, y)
        return y if self.mask is None or self.format is None or self.format.keeps_zero else y * self.mask

    def extra_repr(self) -> str:
        """Format and mask, for print(model)."""
        pruned = ", masked" if self.mask is not None else ", pruned activation" if self.rule else ""
        return f"{self.format or 'float'}{pruned}"


class Compressed(nn.Module):
    """A leaf module whose weight and bias pass through `Effective` first."""

    def __init__(self, inner: nn.Module, op: str, effective: dict[str, Effective]) -> None:
        super().__init__()
        self.inner = inner
        self.op = op
        self.effective = nn.ModuleDict(effective)

    @property
    def weight(self) -> Tensor:
        """The stored weight, before mask and format."""
        return cast("Tensor", self.inner.weight)

    @property
    def bias(self) -> Tensor | None:
        """The stored bias."""
        return cast("Tensor | None", self.inner.bias)

    def tensor(self, port: str) -> Tensor | None:
        """The effective tensor of a port."""
        return self._through(self.inner, port)

    def _through(self, inner: nn.Module, port: str) -> Tensor | None:
        parameters = inner._parameters
        value = parameters[port] if port in parameters else cast("Tensor | None", getattr(inner, port, None))
        effective = self.effective._modules.get(port)  # pyright: ignore[reportPrivateUsage] (ModuleDict access is slow)
        return effective(value) if value is not None and effective is not None else value

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """The inner module on effective tensors; further arguments are those of a transposed convolution."""
        inner = self.inner
        weight, bias = cast("Tensor", self._through(inner, "weight")), self._through(inner, "bias")
        if isinstance(inner, nn.Linear):
            return F.linear(x, weight, bias)
        if isinstance(inner, nn.Conv1d | nn.Conv2d | nn.Conv3d):
            return inner._conv_forward(x, weight, bias)  # pyright: ignore[reportPrivateUsage]
        values: dict[str, Any] = {"weight": weight} | ({} if bias is None else {"bias": bias})
        return torch.func.functional_call(inner, values, (x, *args), kwargs)  # type: ignore[no-any-return]


class Switch(nn.Module):
    """An argument of a function that has one value in evaluation and another in training."""

    def __init__(self, evaluation: Any, in_training: Any) -> None:
        super().__init__()
        self.evaluation, self.in_training = evaluation, in_training

    def forward(self) -> Any:
        """The value of the present mode."""
        return self.in_training if self.training else self.evaluation

    def extra_repr(self) -> str:
        """Both values, for print(model)."""
        return f"{self.evaluation}, in training {self.in_training}"


def unpack_mask(packed: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Bool mask from numpy.packbits bytes (uint8, one bit per element, most significant first); raises ProjectError."""
    shifts = torch.arange(7, -1, -1, dtype=torch.uint8)
    bits = (packed.unsqueeze(1) >> shifts) & 1
    count = math.prod(shape)
    if min(shape, default=0) < 0 or count > bits.numel():
        raise ProjectError("A mask has fewer bits than its weight has elements.", "Open an older copy of the project.")
    return bits.reshape(-1)[:count].reshape(shape).bool()
