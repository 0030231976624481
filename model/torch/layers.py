"""The modules that a build puts in: a tensor's effective value (mask, then format), and leaves that use it."""

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
from espalier.model.formats.straight_through import NOTHING, Own, gated, reused, scaled, straight_through
from espalier.model.graph.views import View
from espalier.model.torch.activation_masks import Flowing

if TYPE_CHECKING:
    from espalier.model.formats.scaled import ScaledFormat


@dataclass(frozen=True, slots=True)
class _Kept:
    """A parameter's value and gate as the format sees it, and the state of the parameter that they belong to."""

    stamp: tuple[Any, ...]
    value: Tensor
    gate: Tensor | None
    gated: bool


class _Steps:
    """How many steps optimisers have taken: fused ones write parameters without raising their `_version`."""

    count = 0

    @classmethod
    def taken(cls, *_: Any) -> None:
        cls.count += 1


register_optimizer_step_post_hook(_Steps.taken)


class Effective(nn.Module):
    """x → format(x·mask). Values of parameters are computed once and kept until the parameter is written.

    `view`: how the tensor lies for formats that see rows. `scale`: a given or learned scale of a ScaledFormat.
    `flowing`: what takes the place of the mask where an activation is pruned. `own`: where it may write, as
    model.unheard says.
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
        flowing: Flowing | None = None,
    ) -> None:
        super().__init__()
        self.format, self.identity, self.flowing = fmt, identity, flowing
        self.view = view if fmt is not None and fmt.rowwise else None
        self.register_buffer("mask", mask, persistent=False)
        if isinstance(scale, nn.Parameter):
            self.scale = scale
        else:
            self.register_buffer("scale", scale, persistent=False)
        self._kept: _Kept | None = None
        self.own = NOTHING

    def forward(self, x: Tensor) -> Tensor:
        """Any shape → the same shape and dtype."""
        if type(x) is Tensor and self._bare:
            assert self.format is not None
            return straight_through(self.format, x, self.identity, self.own)
        learns = torch.is_grad_enabled() and (x.requires_grad or (self.scale is not None and self.scale.requires_grad))
        random = self.format is not None and self.format.stochastic
        computed = type(x) is not nn.Parameter or random or torch.compiler.is_compiling()
        if computed or (learns and self.format is None):
            return self._back(self._fresh(x, self.own if type(x) is Tensor and self.flowing is None else NOTHING), x)
        kept = self._keep(x, learns)
        if not learns:
            return self._back(kept.value, x)
        assert self.format is not None
        if self.scale is not None:
            known = scaled(cast("ScaledFormat", self.format), self.seen(x), self.scale, self.identity, kept.value)
        else:
            mask = None if self.mask is None else self._seen(self.mask)
            known = reused(self.format, self._seen(x), kept.value, kept.gate, mask, self.own)
        return self._back(known, x)

    @property
    def _bare(self) -> bool:
        """Whether there is but a format: then most of `forward` has nothing to do, and that is felt in small models."""
        if self.format is None or self.view is not None or self.flowing is not None:
            return False
        return self._buffers["mask"] is None and "scale" in self._buffers and self._buffers["scale"] is None

    @property
    def kept_bytes(self) -> int:
        """What the value that is kept of a parameter takes in memory, with its gate."""
        kept = self._kept
        return 0 if kept is None else sum(t.nbytes for t in (kept.value, kept.gate) if t is not None)

    def remask(self, mask: Tensor) -> None:
        """Another mask from now on."""
        self.mask, self._kept = mask, None

    def _keep(self, x: Tensor, learns: bool) -> _Kept:
        """The value of a parameter, from before where it has not been written since."""
        scale = self.scale
        given = None if scale is None else (id(scale), scale._version, scale.data_ptr())
        moves = x.requires_grad or (scale is not None and scale.requires_grad)
        stamp = (id(x), x._version, x.data_ptr(), x.dtype, given, _Steps.count if moves else None)
        if self._kept is None or self._kept.stamp != stamp or (learns and not self._kept.gated):
            with torch.no_grad():
                if learns and self.format is not None and self.scale is None and not self.identity:
                    value, gate = gated(self.format, self.seen(x))
                else:
                    value, gate = self._fresh(x), None
            self._kept = _Kept(stamp, value, gate, learns or scale is not None)
        return self._kept

    def _fresh(self, x: Tensor, own: Own = NOTHING) -> Tensor:
        """The value in the format's view."""
        seen = self.seen(x)
        if self.format is None:
            return seen
        if self.scale is None:
            return straight_through(self.format, seen, self.identity, own)
        return scaled(cast("ScaledFormat", self.format), seen, self.scale, self.identity, own=own)

    def seen(self, x: Tensor) -> Tensor:
        """`x` as the format sees it: after the mask, in the view of the op."""
        return self._seen(self._masked(x))

    def _masked(self, x: Tensor) -> Tensor:
        x = x if self.flowing is None else self.flowing(x)
        return x if self.mask is None else x * self.mask

    def _seen(self, x: Tensor) -> Tensor:
        return x if self.view is None else self.view.of(x)

    def _back(self, y: Tensor, x: Tensor) -> Tensor:
        """In the port's own shape; zeros of the mask once more where the format gives 0 another value."""
        y = y if self.view is None else self.view.back(y, x.shape)
        if self.flowing is not None and self.format is not None and not self.format.keeps_zero:
            y = torch.where(self.flowing.dropped(x.detach()), 0.0, y)
        return y if self.mask is None or self.format is None or self.format.keeps_zero else y * self.mask

    def extra_repr(self) -> str:
        """Format and mask, for print(model)."""
        pruned = ", masked" if self.mask is not None else ", pruned as it flows" if self.flowing else ""
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
        held = inner._parameters
        value = held[port] if port in held else cast("Tensor | None", getattr(inner, port, None))
        through = self.effective._modules.get(port)  # pyright: ignore[reportPrivateUsage] (looking the usual way is slow)
        return through(value) if value is not None and through is not None else value

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """As the inner module, on effective tensors; more arguments than x are those of a transposed convolution."""
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
    """Bool mask from numpy.packbits bytes (uint8, one bit an element, most significant first)."""
    shifts = torch.arange(7, -1, -1, dtype=torch.uint8)
    bits = (packed.unsqueeze(1) >> shifts) & 1
    count = math.prod(shape)
    if min(shape, default=0) < 0 or count > bits.numel():
        raise ProjectError("A mask does not have as many bits as its weight has values.", "Open an older copy of it.")
    return bits.reshape(-1)[:count].reshape(shape).bool()
