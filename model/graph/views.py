"""How a port's tensor lies for a format: one row an output, the contraction along the last axis.

Formats with blocks or scales by row (`Format.rowwise`) see this view; others don't care.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from espalier.model.graph.graph import Node

MATMULS = ("matmul", "bmm", "mm", "addmm", "baddbmm")
_CHANNELS_SECOND = ("batch_norm", "group_norm", "instance_norm", "pixel_shuffle", "interpolate")


@dataclass(frozen=True, slots=True)
class View:
    """Axes in the order `order`, then all but the first flattened where `flat`.

    `groups`: the first axis in the tensor is of so many groups, and rows go through all of one before the next: a
    transposed convolution's weight [inputs, outputs of a group, …]. `dense`: what comes back lies in memory as if
    nothing had been turned, since code that follows may count on it (`x.view(len(x), -1)` after a convolution).
    """

    order: tuple[int, ...]
    flat: bool = False
    dense: bool = False
    groups: int = 1

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the view of a tensor of `shape`."""
        first, *rest = self._turned(shape)
        first, *rest = (first * rest[0], *rest[1:]) if self.groups > 1 else (first, *rest)
        return (first, math.prod(rest)) if self.flat else (first, *rest)

    def of(self, x: Any) -> Any:
        """The view of a torch tensor."""
        if self.groups > 1:
            shape = tuple(x.shape)
            return x.reshape(self._apart(shape)).permute(self._axes).reshape(self.shape(shape))
        return x.permute(self.order).flatten(1) if self.flat else x.permute(self.order)

    def back(self, y: Any, shape: tuple[int, ...]) -> Any:
        """A tensor in the view → in the port's own shape `shape`."""
        found = y.reshape(self._turned(shape)).permute(self._inverse)
        found = found.reshape(shape) if self.groups > 1 else found
        return found.contiguous() if self.dense else found

    def of_array(self, x: NDArray[Any]) -> NDArray[Any]:
        """The view of an array."""
        return x.reshape(self._apart(x.shape)).transpose(self._axes).reshape(self.shape(x.shape))

    def array_back(self, y: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        """An array in the view → in the port's own shape `shape`."""
        return y.reshape(self._turned(shape)).transpose(self._inverse).reshape(shape)

    @property
    def _axes(self) -> tuple[int, ...]:
        """The order of the axes of `_apart`."""
        return (0, *(i + 1 for i in self.order)) if self.groups > 1 else self.order

    @property
    def _inverse(self) -> tuple[int, ...]:
        return tuple(self._axes.index(i) for i in range(len(self._axes)))

    def _apart(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A tensor's shape with its groups as an axis."""
        return (self.groups, shape[0] // self.groups, *shape[1:]) if self.groups > 1 else shape

    def _turned(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        apart = self._apart(shape)
        return tuple(apart[i] for i in self._axes)


def view_at(node: Node, port: str) -> View | None:
    """The view of a port of `node`; None where the tensor lies right already."""
    rank = len(node.ports[port].shape)
    if node.op == "einsum" and node.args:
        return _einsum_view(str(node.args[0]), port, rank)
    if node.attrs.get("class") == "Conv1D" and port == "weight":
        return View((1, 0))
    return view_of(node.op, port, rank, _groups(node) if port == "weight" else 1)


def _groups(node: Node) -> int:
    """The groups of channels of a transposed convolution; 1 of all else, whose weights hold them in their rows."""
    if not node.op.startswith("conv_transpose"):
        return 1
    if node.call == "call_module":
        found = node.attrs.get("groups", 1)
    else:
        found = node.args[6] if len(node.args) > 6 else node.kwargs.get("groups", 1)
    return found if isinstance(found, int) else 1


def view_of(op: str, port: str, rank: int, groups: int = 1) -> View | None:
    """The view of a port of `rank` axes of an op; None where the tensor lies right already."""
    axes = tuple(range(rank))
    if op.startswith("conv") and op[-1] == "d" and op[-2:-1].isdigit():
        spatial = int(op[-2])
        if port == "weight" and rank == spatial + 2:
            return View((1, 0, *axes[2:]) if "transpose" in op else axes, flat=True, groups=groups)
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
