"""How a port's tensor lies for a format: one row an output, the contraction along the last axis.

Formats with blocks or scales by row (`Format.rowwise`) see this view; others don't care.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from model.graph import Node

MATMULS = ("matmul", "bmm", "mm", "addmm", "baddbmm")
_CHANNELS_SECOND = ("batch_norm", "group_norm", "instance_norm", "pixel_shuffle", "interpolate")


@dataclass(frozen=True, slots=True)
class View:
    """Axes in the order `order`, then all but the first flattened where `flat`.

    `dense`: what comes back lies in memory as if nothing had been turned, since code that follows may count on it
    (`x.view(len(x), -1)` after a convolution).
    """

    order: tuple[int, ...]
    flat: bool = False
    dense: bool = False

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the view of a tensor of `shape`."""
        turned = tuple(shape[i] for i in self.order)
        return (turned[0], math.prod(turned[1:])) if self.flat else turned

    def of(self, x: Any) -> Any:
        """The view of a torch tensor."""
        return x.permute(self.order).flatten(1) if self.flat else x.permute(self.order)

    def back(self, y: Any, shape: tuple[int, ...]) -> Any:
        """A tensor in the view → in the port's own shape `shape`."""
        turned = tuple(shape[i] for i in self.order)
        inverse = tuple(self.order.index(i) for i in range(len(self.order)))
        found = y.reshape(turned).permute(inverse)
        return found.contiguous() if self.dense else found


def view_at(node: Node, port: str) -> View | None:
    """The view of a port of `node`; None where the tensor lies right already."""
    rank = len(node.ports[port].shape)
    if node.op == "einsum" and node.args:
        return _einsum_view(str(node.args[0]), port, rank)
    if node.attrs.get("class") == "Conv1D" and port == "weight":
        return View((1, 0))
    return view_of(node.op, port, rank)


def view_of(op: str, port: str, rank: int) -> View | None:
    """The view of a port of `rank` axes of an op; None where the tensor lies right already."""
    axes = tuple(range(rank))
    if op.startswith("conv") and op[-1] == "d" and op[-2:-1].isdigit():
        spatial = int(op[-2])
        if port == "weight" and rank == spatial + 2:
            return View((1, 0, *axes[2:]) if "transpose" in op else axes, flat=True)
        return _channels_last(rank, rank - spatial - 1) if port.startswith("data") else None
    if op in _CHANNELS_SECOND or "_pool" in op:
        return _channels_last(rank, 1) if port.startswith("data") and rank > 2 else None
    if op in MATMULS and port == "weight" and rank >= 2:
        return View((*axes[:-2], rank - 1, rank - 2))
    return None


def _channels_last(rank: int, channel: int) -> View | None:
    axes = tuple(range(rank))
    return View((*axes[:channel], *axes[channel + 1 :], channel), dense=True) if channel >= 0 else None


def _einsum_view(equation: str, port: str, rank: int) -> View | None:
    """An operand of two with the indices that the other has and the result has not as the last ones."""
    inputs, _, result = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if len(terms) != 2 or port not in ("data_in", "weight") or not result or "." in equation:
        return None
    own, other = terms if port == "data_in" else reversed(terms)
    if len(own) != rank:
        return None
    order = tuple(sorted(range(rank), key=lambda i: own[i] in other and own[i] not in result))
    return None if order == tuple(range(rank)) else View(order)
