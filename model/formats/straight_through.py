"""The straight-through estimator, which defines the gradients of all number formats (Bengio et al. 2013).

The gradient of x is that of the value where `Format.inside(x)`, otherwise 0; or the identity everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from espalier.model.formats.base import Format, fast_for
from espalier.model.formats.scaled import ScaledFormat


@dataclass(frozen=True, slots=True)
class Exclusive:
    """Tensors that only the format reads and may overwrite: its `input` in runs without gradients, its input
    in runs with gradients (`trained`), and the `gradient` of its result."""

    input: bool = False
    trained: bool = False
    gradient: bool = False


NOT_EXCLUSIVE = Exclusive()


def value_and_gate(fmt: Format, x: Tensor) -> tuple[Tensor, Tensor | None]:
    """(value of `x`, gate of its gradient: that of the fast version, or the bool tensor `inside`)."""
    fast = fast_for(fmt, x)
    return fast.masked(fmt, x) if fast else (fmt.define(x), fmt.inside(x))


def _gated_gradient(fmt: Format, grad: Tensor, gate: Tensor | None, exclusive: bool) -> Tensor:
    if gate is None:
        return grad
    fast = fast_for(fmt, grad)
    return fast.gradient(grad, gate, exclusive) if fast else grad * gate


class _StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, fmt: Format, identity: bool, exclusive: Exclusive) -> Tensor:
        ctx.fmt, ctx.exclusive = fmt, exclusive
        fast = fast_for(fmt, x) if exclusive.trained and not x._is_view() else None
        if fast and (overwritten := fast.over(fmt, x, None, not identity)):
            ctx.mark_dirty(x)
            value, gate = x, overwritten[1]
        else:
            value, gate = (fmt.forward(x), None) if identity else value_and_gate(fmt, x)
        ctx.save_for_backward(gate)
        return value

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        return _gated_gradient(ctx.fmt, grads[0], ctx.saved_tensors[0], ctx.exclusive.gradient), None, None, None


class _Reused(torch.autograd.Function):
    """The cached value and gate of an unchanged parameter."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, value: Tensor, gate: Tensor | None, mask: Tensor | None, fmt: Format, exclusive: Exclusive
    ) -> Tensor:
        ctx.fmt, ctx.exclusive = fmt, exclusive
        ctx.save_for_backward(gate, mask)
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None, None, None]:
        gate, mask = ctx.saved_tensors
        grad = _gated_gradient(ctx.fmt, grads[0], gate, ctx.exclusive.gradient)
        return grad if mask is None else grad * mask, None, None, None, None, None


class _Scaled(torch.autograd.Function):
    """The value with a given scale; each gradient is computed only if needed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor, value: Tensor | None, fmt: ScaledFormat, identity: bool) -> Tensor:
        ctx.fmt, ctx.identity = fmt, identity
        ctx.save_for_backward(x, scale)
        return fmt.forward_with(x, scale) if value is None else value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None, None, None]:
        (grad,), (x, scale) = grads, ctx.saved_tensors
        to_x = to_scale = None
        if ctx.needs_input_grad[0]:
            to_x = grad if ctx.identity else grad * ctx.fmt.inside_with(x, scale)
        if ctx.needs_input_grad[1]:
            to_scale = ctx.fmt.scale_gradient(grad, x, scale).to(scale.dtype)
        return to_x, to_scale, None, None, None


def straight_through(fmt: Format, x: Tensor, identity: bool = False, exclusive: Exclusive = NOT_EXCLUSIVE) -> Tensor:
    """`fmt` of `x` with its gradient; `identity`: gradient 1 everywhere instead of only inside the range."""
    if torch.is_grad_enabled() and x.requires_grad:
        return _StraightThrough.apply(x, fmt, identity, exclusive)  # type: ignore[no-any-return]
    return fmt.forward(x, overwrite=exclusive.input)


def straight_through_cached(
    fmt: Format,
    x: Tensor,
    value: Tensor,
    gate: Tensor | None,
    mask: Tensor | None = None,
    exclusive: Exclusive = NOT_EXCLUSIVE,
) -> Tensor:
    """`value` and `gate` of an earlier `value_and_gate(fmt, x·mask)`, with the gradient to `x`."""
    return _Reused.apply(x, value, gate, mask, fmt, exclusive)  # type: ignore[no-any-return]


def straight_through_scaled(
    fmt: ScaledFormat,
    x: Tensor,
    scale: Tensor,
    identity: bool = False,
    value: Tensor | None = None,
    exclusive: Exclusive = NOT_EXCLUSIVE,
) -> Tensor:
    """`fmt` of `x` with `scale`, with the gradients of both; `value`: the result, if already computed."""
    if torch.is_grad_enabled() and (x.requires_grad or scale.requires_grad):
        return _Scaled.apply(x, scale, value, fmt, identity)  # type: ignore[no-any-return]
    return fmt.forward_with(x, scale, overwrite=exclusive.input) if value is None else value
