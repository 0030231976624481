"""The straight-through estimator: the one place that gives a number format its gradient (Bengio et al. 2013).

The gradient of x is that of the value where `Format.inside(x)`, and 0 elsewhere; or the identity everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from espalier.model.formats.base import Format, fast_for
from espalier.model.formats.scaled import ScaledFormat


@dataclass(frozen=True, slots=True)
class Own:
    """What nobody but a format sees, so that it may write there: its input, in runs without gradients and in those
    with, and the gradient of its result."""

    input: bool = False
    trained: bool = False
    gradient: bool = False


NOTHING = Own()


def gated(fmt: Format, x: Tensor) -> tuple[Tensor, Tensor | None]:
    """The value of `x` and what its gradient needs: a fast version's gate, or the bool tensor `inside`."""
    fast = fast_for(fmt, x)
    return fast.masked(fmt, x) if fast else (fmt.define(x), fmt.inside(x))


def _passed(fmt: Format, grad: Tensor, gate: Tensor | None, alone: bool) -> Tensor:
    if gate is None:
        return grad
    fast = fast_for(fmt, grad)
    return fast.gradient(grad, gate, alone) if fast else grad * gate


class _StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, fmt: Format, identity: bool, own: Own) -> Tensor:
        ctx.fmt, ctx.own = fmt, own
        fast = fast_for(fmt, x) if own.trained and not x._is_view() else None
        if fast and (found := fast.over(fmt, x, None, not identity)):
            ctx.mark_dirty(x)
            value, gate = x, found[1]
        else:
            value, gate = (fmt.forward(x), None) if identity else gated(fmt, x)
        ctx.save_for_backward(gate)
        return value

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        return _passed(ctx.fmt, grads[0], ctx.saved_tensors[0], ctx.own.gradient), None, None, None


class _Reused(torch.autograd.Function):
    """The value and gate of an unchanged parameter once more, without computing them."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, value: Tensor, gate: Tensor | None, mask: Tensor | None, fmt: Format, own: Own
    ) -> Tensor:
        ctx.fmt, ctx.own = fmt, own
        ctx.save_for_backward(gate, mask)
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None, None, None]:
        gate, mask = ctx.saved_tensors
        passed = _passed(ctx.fmt, grads[0], gate, ctx.own.gradient)
        return passed if mask is None else passed * mask, None, None, None, None, None


class _Scaled(torch.autograd.Function):
    """The value under a given scale; both gradients are computed when they are asked for."""

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


def straight_through(fmt: Format, x: Tensor, identity: bool = False, own: Own = NOTHING) -> Tensor:
    """`fmt` of `x` with its gradient; `identity`: 1 everywhere instead of inside the range only."""
    if torch.is_grad_enabled() and x.requires_grad:
        return _StraightThrough.apply(x, fmt, identity, own)  # type: ignore[no-any-return]
    return fmt.forward(x, spare=own.input)


def reused(
    fmt: Format, x: Tensor, value: Tensor, gate: Tensor | None, mask: Tensor | None = None, own: Own = NOTHING
) -> Tensor:
    """`value`, kept from an earlier `gated(fmt, x·mask)`, with its gradient to `x`."""
    return _Reused.apply(x, value, gate, mask, fmt, own)  # type: ignore[no-any-return]


def scaled(
    fmt: ScaledFormat,
    x: Tensor,
    scale: Tensor,
    identity: bool = False,
    value: Tensor | None = None,
    own: Own = NOTHING,
) -> Tensor:
    """`fmt` of `x` under `scale`, with the gradients of both; `value`: the result, where it is known already."""
    if torch.is_grad_enabled() and (x.requires_grad or scale.requires_grad):
        return _Scaled.apply(x, scale, value, fmt, identity)  # type: ignore[no-any-return]
    return fmt.forward_with(x, scale, spare=own.input) if value is None else value
