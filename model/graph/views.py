"""Views of tensors for formats: one row per output, with the contraction along the last axis.

Formats with blocks or scales by row (`Format.rowwise`) are applied to this view.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from espalier.model.graph.ops import GROUPED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from espalier.model.graph.graph import Node

MATMULS = ("matmul", "bmm", "mm", "addmm", "baddbmm")
_CHANNELS_SECOND = ("batch_norm", "group_norm", "instance_norm", "pixel_shuffle", "interpolate")


SCALES = "scales"  # attribute of a kv_cache node: what a row of its format is, one of CACHED


@dataclass(frozen=True, slots=True)
class View:
    """Axes in the order `order`, then all but the first flattened if `flat`, or the last `joined` ones.

    `groups`: number of groups along the tensor's first axis, for a transposed convolution's weight [inputs, outputs per
    group, …]; rows are ordered by group. `dense`: `back` returns a contiguous tensor, on which following code may rely
    (`x.view(len(x), -1)` after a convolution).
    """

    order: tuple[int, ...]
    flat: bool = False
    dense: bool = False
    groups: int = 1
    joined: int = 1

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the view of a tensor of `shape`."""
        if self.joined > 1:
            turned = self._permuted(shape)
            return (*turned[: -self.joined], math.prod(turned[-self.joined :]))
        first, *rest = self._permuted(shape)
        first, *rest = (first * rest[0], *rest[1:]) if self.groups > 1 else (first, *rest)
        return (first, math.prod(rest)) if self.flat else (first, *rest)

    def of(self, x: Any) -> Any:
        """The view of a torch tensor."""
        if self.groups > 1:
            shape = tuple(x.shape)
            return x.reshape(self._grouped(shape)).permute(self._axes).reshape(self.shape(shape))
        turned = x.permute(self.order)
        return turned.flatten(1) if self.flat else turned.flatten(-self.joined) if self.joined > 1 else turned

    def back(self, y: Any, shape: tuple[int, ...]) -> Any:
        """The inverse of `of`, in the port's `shape`."""
        x = y.reshape(self._permuted(shape)).permute(self._inverse)
        x = x.reshape(shape) if self.groups > 1 else x
        return x.contiguous() if self.dense else x

    def of_array(self, x: NDArray[Any]) -> NDArray[Any]:
        """The view of an array."""
        return x.reshape(self._grouped(x.shape)).transpose(self._axes).reshape(self.shape(x.shape))

    def array_back(self, y: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        """The inverse of `of_array`, in the port's `shape`."""
        return y.reshape(self._permuted(shape)).transpose(self._inverse).reshape(shape)

    @property
    def _axes(self) -> tuple[int, ...]:
        """The order of the axes of `_grouped`."""
        return (0, *(i + 1 for i in self.order)) if self.groups > 1 else self.order

    @property
    def _inverse(self) -> tuple[int, ...]:
        return tuple(self._axes.index(i) for i in range(len(self._axes)))

    def _grouped(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A tensor's shape with its groups as an axis."""
        return (self.groups, shape[0] // self.groups, *shape[1:]) if self.groups > 1 else shape

    def _permuted(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        grouped = self._grouped(shape)
        return tuple(grouped[i] for i in self._axes)


# Rows of keys or values [batch, heads, tokens, size]: a head of a token; a token; a head or a channel of all tokens.
CACHED: dict[str, View | None] = {
    "head": None,
    "token": View((0, 2, 1, 3), joined=2),
    "static_head": View((1, 0, 2, 3), joined=3),
    "channel": View((1, 3, 0, 2), joined=2),
}
STATIC = ("static_head", "channel")  # whose rows hold values of later tokens, so that their scales have to be given


def view_at(node: Node, port: str) -> View | None:
    """The view of a port of `node`; None if the tensor needs none."""
    rank = len(node.ports[port].shape)
    if node.op == "einsum" and node.args:
        return _einsum_view(str(node.args[0]), port, rank)
    if node.attrs.get("class") == "Conv1D" and port == "weight":
        return View((1, 0))
    if node.op == "kv_cache":
        return CACHED.get(str(node.attrs.get(SCALES))) if rank == 4 else None
    return view_of(node.op, port, rank, _groups(node) if port == "weight" else 1)


def _groups(node: Node) -> int:
    """The groups of a transposed convolution; 1 for other ops, whose weights have groups in their rows."""
    if not node.op.startswith("conv_transpose"):
        return 1
    if node.call == "call_module":
        groups = node.attrs.get("groups", 1)
    else:
        groups = node.args[6] if len(node.args) > 6 else node.kwargs.get("groups", 1)
    return groups if isinstance(groups, int) else 1


def view_of(op: str, port: str, rank: int, groups: int = 1) -> View | None:
    """The view of a port of an op, of `rank` axes; None if the tensor needs none."""
    axes = tuple(range(rank))
    if op.startswith("conv") and op[-1] == "d" and op[-2:-1].isdigit():
        spatial = int(op[-2])
        if port == "weight" and rank == spatial + 2:
            return View((1, 0, *axes[2:]) if "transpose" in op else axes, flat=True, groups=groups)
        return _channels_last(rank, rank - spatial - 1) if port.startswith("data") else None
    if op in _CHANNELS_SECOND or "_pool" in op:
        return _channels_last(rank, 1) if port.startswith("data") and rank > 2 else None
    if (op in MATMULS or op in GROUPED) and port == "weight" and rank >= 2:
        return View((*axes[:-2], rank - 1, rank - 2))
    return None


def _channels_last(rank: int, channel: int) -> View | None:
    axes = tuple(range(rank))
    return View((*axes[:channel], *axes[channel + 1 :], channel), dense=True) if channel >= 0 else None


def _einsum_view(equation: str, port: str, rank: int) -> View | None:
    """The view of one of two operands with the contracted indices last."""
    inputs, _, result = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if len(terms) != 2 or port not in ("data_in", "weight") or not result or "." in equation:
        return None
    term, other = terms if port == "data_in" else reversed(terms)
    if len(term) != rank:
        return None
    order = tuple(sorted(range(rank), key=lambda i: term[i] in other and term[i] not in result))
    return None if order == tuple(range(rank)) else View(order)
