"""Axis rules of data movement: views, permutations, expansions, concatenations, slices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from espalier.model.errors import GraphError
from espalier.model.graph.graph import Node, Ref
from espalier.model.graph.node import Arg
from espalier.passes.structure.axes import Axis, Dims, Shape, new, pieces, row, size, unify, viewed
from espalier.passes.structure.flow import Cut, Flow, argument, option, reason, rule, unknown
from espalier.passes.structure.sizes import ONE, Size, size_of


@rule("placeholder")
def placeholder(flow: Flow, node: Node) -> Shape:
    """Inputs of the model are fixed."""
    return flow.fresh(node.ports["data_out"], node, "it is an input of the model") if node.out else ()


@rule("get_attr")
def get_attr(flow: Flow, node: Node) -> Shape:
    """A stored tensor."""
    return flow.named(node.weights["value"])


@rule("contiguous", "clone", "kv_cache", "to", "dropout", "alias", "detach", "identity", "lift_fresh_copy",
      "zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like", "tril", "triu")  # fmt: skip
def same(flow: Flow, node: Node) -> Shape:
    """Results with the input's shape."""
    return flow.first(node)


@rule("arange", "new_empty", "scalar_tensor")
def made(flow: Flow, node: Node) -> list[Shape]:
    """Tensors of literal sizes."""
    return flow.outs(node, "it is created in a fixed size")


@rule("zeros", "ones", "full", "new_zeros", "new_ones", "new_full")
def filled(flow: Flow, node: Node) -> list[Shape]:
    """Constant tensors, which can have any size."""
    if node.out is None or len(node.out.shape) != len(_literal(node)):
        return flow.outs(node, "it is created in a fixed size")
    shape = tuple(new(size_of(d)) for d in node.out.shape)
    position = int(node.op.startswith("new_"))
    flow.rewrites[node.id] = lambda cut, n: _resized(cut, n, shape, position, "size")
    return [shape]


def _literal(node: Node) -> tuple[Arg, ...]:
    given = argument(node, int(node.op.startswith("new_")), "size")
    return given if isinstance(given, tuple) else ()


# -- views


@rule("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze")
def view(flow: Flow, node: Node) -> Shape:
    """The same elements in the same order."""
    assert node.out is not None
    sizes = [size_of(d) for d in node.out.shape]
    shape = viewed(flow.first(node), sizes, reason(node, "it views the axis in another grouping"))
    position = 2 if node.op == "unflatten" else 1
    if node.op in ("view", "reshape", "unflatten"):
        axis = option(node, "dim", 1, 0) if node.op == "unflatten" else 0
        start = axis % len(flow.first(node)) if node.op == "unflatten" else 0
        name = "unflattened_size" if node.op == "unflatten" else "size"
        flow.rewrites[node.id] = lambda cut, n: _resized(cut, n, shape[start:], position, name)
    return shape


def _resized(cut: Cut, node: Node, shape: Sequence[Dims], position: int, name: str) -> Node:
    """A node with new literal sizes; a changed computed size becomes −1."""
    if node.call == "call_module":
        sizes = tuple(node.attrs[name])  # type: ignore[arg-type]
        return replace(node, attrs={**node.attrs, name: _sizes(cut, node, sizes, shape)})
    given: Any = argument(node, position, name)
    if not isinstance(given, tuple):
        raise GraphError(f"{node.id} has sizes that are not listed.", "Do not prune its axes.", node.id)
    return with_argument(node, position, name, _sizes(cut, node, given, shape))


def _sizes(cut: Cut, node: Node, given: tuple[Arg, ...], shape: Sequence[Dims]) -> tuple[Arg, ...]:
    sizes: list[Arg] = []
    for arg, dims in zip(given, shape, strict=False):
        now = cut.size(dims)
        if now == size(dims) or arg == -1:
            sizes.append(arg)
        else:
            sizes.append(now.count if not now.free else -1)
    if sum(a == -1 for a in sizes if not isinstance(a, Ref)) > 1:
        raise GraphError(f"{node.id} computes two of its sizes, and both would change.",
                         "Do not prune its axes.", node.id)  # fmt: skip
    return tuple(sizes)


def with_argument(node: Node, position: int, name: str, value: Arg) -> Node:
    """A function with another argument."""
    if position < len(node.args):
        return replace(node, args=(*node.args[:position], value, *node.args[position + 1 :]))
    return replace(node, kwargs={**node.kwargs, name: value})


# -- order


def _turned(shape: Shape, *moves: tuple[int, int]) -> Shape:
    dims = list(shape)
    for a, b in moves:
        dims[a], dims[b] = dims[b], dims[a]
    return tuple(dims)


@rule("transpose", "swapaxes", "swapdims")
def transpose(flow: Flow, node: Node) -> Shape:
    """Two dimensions swapped."""
    return _turned(flow.first(node), (int(argument(node, 1, "dim0")), int(argument(node, 2, "dim1"))))


@rule("t", "numpy_T")
def turned(flow: Flow, node: Node) -> Shape:
    """All dimensions in reverse."""
    return flow.first(node)[::-1]


@rule("permute")
def permute(flow: Flow, node: Node) -> Shape:
    """Dimensions in a given order."""
    shape = flow.first(node)
    return tuple(shape[int(i)] for i in argument(node, 1, "dims"))


@rule("movedim")
def movedim(flow: Flow, node: Node) -> list[Shape] | Shape:
    """One dimension moved."""
    source, target = argument(node, 1, "source"), argument(node, 2, "destination")
    if not (isinstance(source, int) and isinstance(target, int)):
        return unknown(flow, node)
    dims = list(flow.first(node))
    dims.insert(target % len(dims), dims.pop(source % len(dims)))
    return tuple(dims)


@rule("roll", "flip")
def rolled(flow: Flow, node: Node) -> Shape:
    """Elements moved along some dimensions."""
    shape, position = flow.first(node), 2 if node.op == "roll" else 1
    axes: Any = argument(node, position, "dims")
    for i in axes if isinstance(axes, tuple) else range(len(shape)):
        flow.hold(shape[i], node, f"{node.op} moves elements along it")
    return shape


# -- repetition


@rule("expand", "expand_as")
def expand(flow: Flow, node: Node) -> Shape:
    """Dimensions of size 1 repeated: a new axis with equal values."""
    assert node.out is not None
    shape, sizes = flow.first(node), [size_of(d) for d in node.out.shape]
    padded = ((),) * (len(sizes) - len(shape)) + shape
    result = tuple(dims or new(s) for dims, s in zip(padded, sizes, strict=True))
    if node.op == "expand":
        flow.rewrites[node.id] = lambda cut, n: _expanded(cut, n, result)
    else:
        for dims, other in zip(result, flow.of(node.args[1]) or result, strict=True):
            unify(dims, other, reason(node, "it is expanded"))
    return result


def _expanded(cut: Cut, node: Node, shape: Shape) -> Node:
    given: Any = argument(node, 1, "size")
    changed = [cut.size(d) != size(d) for d in shape]
    if any(c and isinstance(a, Ref) for a, c in zip(given, changed, strict=True)):
        raise GraphError(f"{node.id} expands to a computed size.", "Do not prune its axes.", node.id)
    now = (cut.count(d) if c and a != -1 else a for a, d, c in zip(given, shape, changed, strict=True))
    return with_argument(node, 1, "size", tuple(now))


@rule("repeat_interleave")
def repeat_interleave(flow: Flow, node: Node) -> list[Shape] | Shape:
    """Each element of a dimension repeated."""
    times, axis = argument(node, 1, "repeats"), argument(node, 2, "dim")
    if not (isinstance(times, int) and isinstance(axis, int)):
        return unknown(flow, node)
    dims, more = list(flow.first(node)), new(Size(times))
    dims[axis] = (*dims[axis], *more)
    flow.rewrites[node.id] = lambda cut, n: with_argument(n, 1, "repeats", cut.count(more))
    return tuple(dims)


@rule("repeat")
def repeat(flow: Flow, node: Node) -> list[Shape] | Shape:
    """Dimensions tiled."""
    times: Any = argument(node, 1, "repeats")
    if not isinstance(times, tuple) or not all(isinstance(n, int) for n in times):
        return _repeated_by_ref(flow, node, times)
    shape = flow.first(node)
    shape = ((),) * (len(times) - len(shape)) + shape
    more = [new(Size(n)) for n in times]
    flow.rewrites[node.id] = lambda cut, n: with_argument(n, 1, "repeats", tuple(cut.count(m) for m in more))
    return tuple((*m, *d) for m, d in zip(more, shape, strict=True))


def _repeated_by_ref(flow: Flow, node: Node, times: Any) -> list[Shape] | Shape:
    """Partly computed repeats: dimensions with a repeat other than 1 are fixed."""
    if not isinstance(times, tuple) or node.out is None:
        return unknown(flow, node)
    shape = flow.first(node)
    shape = ((),) * (len(times) - len(shape)) + shape
    fresh = flow.fresh(node.out, node, "it is repeated a computed number of times")
    for n, dims in zip(times, shape, strict=True):
        if n != 1:
            flow.hold(dims, node, "it is repeated")
    return tuple(d if n == 1 else f for n, d, f in zip(times, shape, fresh, strict=True))


# -- concatenation and slicing


@rule("cat")
def cat(flow: Flow, node: Node) -> list[Shape] | Shape:
    """Concatenation along one dimension."""
    shapes = [flow.of(a) for a in node.args[0]]  # type: ignore[union-attr]
    axis = option(node, "dim", 1, 0)
    given = [s for s in shapes if s]
    if len(given) != len(shapes) or not isinstance(axis, int) or node.out is None:
        return unknown(flow, node)
    axis %= len(given[0])
    for other in given[1:]:
        for i, dims in enumerate(other):
            if i != axis:
                unify(given[0][i], dims, reason(node, "tensors are concatenated"))
    parts = [s[axis] for s in given if size(s[axis]).count or size(s[axis]).free]  # without empty tensors
    free = size_of(node.out.shape[axis]).free or any(size(p).free for p in parts)
    if free:
        for p in parts:
            flow.hold(p, node, "it is concatenated with a dimension of dynamic size")
    fresh = flow.fresh(node.out, node, "it has a dynamic size")[axis]
    joined = fresh if free else row([p or (Axis(ONE),) for p in parts])
    return tuple(joined if i == axis else d for i, d in enumerate(given[0]))


@rule("stack")
def stack(flow: Flow, node: Node) -> list[Shape] | Shape:
    """Stacking along a new, fixed dimension."""
    shapes = [flow.of(a) for a in node.args[0]]  # type: ignore[union-attr]
    given = [s for s in shapes if s is not None]
    if len(given) != len(shapes) or not given:
        return unknown(flow, node)
    for other in given[1:]:
        for mine, dims in zip(given[0], other, strict=True):
            unify(mine, dims, reason(node, "tensors are stacked"))
    axis = int(option(node, "dim", 1, 0)) % (len(given[0]) + 1)
    stacked = new(Size(len(given)), reason(node, "it counts stacked tensors"))
    return (*given[0][:axis], stacked, *given[0][axis:])


def _cut(flow: Flow, node: Node, axis: int, cuts: Sequence[int]) -> list[Shape] | None:
    """A tensor split along an axis at some indices; None if impossible."""
    shape = flow.first(node)
    parts = pieces(shape[axis], cuts, reason(node, "it is split"))
    if parts is None:
        return None
    return [tuple(p if i == axis else d for i, d in enumerate(shape)) for p in parts]


@rule("split", "split_with_sizes", "chunk")
def split(flow: Flow, node: Node) -> list[Shape]:
    """Pieces along a dimension; rewritten to explicit sizes."""
    shape, axis = flow.first(node), argument(node, 2, "dim") or 0
    axis %= max(len(shape), 1)
    metas = [node.ports.get("data_out" if not i else f"data_out_{i}") for i in range(node.outputs or 1)]
    sizes = [m.shape[axis] if m else None for m in metas]
    counts = [s for s in sizes if isinstance(s, int)]
    if len(counts) != len(sizes):
        return unknown(flow, node)
    parts = _cut(flow, node, axis, [int(n) for n in np.cumsum(counts)])
    if parts is None or len(parts) != len(counts):
        return unknown(flow, node)
    flow.rewrites[node.id] = lambda cut, n: _split_anew(n, axis, [cut.count(s[axis]) for s in parts])
    return parts


def _split_anew(node: Node, axis: int, sizes: list[int]) -> Node:
    return replace(node, op="split_with_sizes", target="aten.split_with_sizes.default",
                   args=(node.args[0], tuple(sizes), axis), kwargs={})  # fmt: skip


@rule("slice", "narrow")
def slice_(flow: Flow, node: Node) -> list[Shape] | Shape:
    """A slice of a dimension."""
    shape, axis = flow.first(node), argument(node, 1, "dim") or 0
    axis %= max(len(shape), 1)
    full = size(shape[axis])
    if node.out is None:
        return unknown(flow, node)
    if size_of(node.out.shape[axis]) == full and full != ONE:
        return shape if _from_zero(node) else unknown(flow, node)
    start, stop = _ends(node, full.count)
    if full.free or start is None or stop is None or start >= stop:
        flow.hold(shape[axis], node, "it is sliced")
        fresh = flow.fresh(node.out, node, "it is a slice of computed size")[axis]
        return tuple(fresh if i == axis else d for i, d in enumerate(shape))
    parts = _cut(flow, node, axis, [start, stop])
    if parts is None:
        return unknown(flow, node)
    before = [s[axis] for s in parts[: 1 if start else 0]]
    result = parts[len(before)]
    flow.rewrites[node.id] = lambda cut, n: _sliced(n, sum(map(cut.count, before)), cut.count(result[axis]))
    return result


def _from_zero(node: Node) -> bool:
    return node.op == "narrow" or option(node, "step", 4, 1) in (1, None)


def _ends(node: Node, whole: int) -> tuple[int | None, int | None]:
    """Start and stop of a slice with literal bounds; (None, None) otherwise."""
    start, stop = argument(node, 2, "start"), argument(node, 3, "end")
    if node.op == "narrow":
        plain = isinstance(start, int) and isinstance(stop, int)
        return (start % whole, start % whole + stop) if plain else (None, None)
    if option(node, "step", 4, 1) != 1:
        return None, None
    start, stop = 0 if start is None else start, whole if stop is None else stop
    if not (isinstance(start, int) and isinstance(stop, int)):
        return None, None
    return slice(start, stop).indices(whole)[:2]


def _sliced(node: Node, start: int, count: int) -> Node:
    node = with_argument(node, 2, "start", start)
    return with_argument(node, 3, "length" if node.op == "narrow" else "end",
                         count if node.op == "narrow" else start + count)  # fmt: skip


@rule("select")
def select(flow: Flow, node: Node) -> Shape:
    """One element of a dimension."""
    shape, axis = flow.first(node), int(argument(node, 1, "dim"))
    axis %= len(shape)
    flow.hold(shape[axis], node, "it is indexed")
    return (*shape[:axis], *shape[axis + 1 :])


@rule("unbind")
def unbind(flow: Flow, node: Node) -> list[Shape]:
    """All elements of a dimension as separate tensors."""
    shape, axis = flow.first(node), int(argument(node, 1, "dim") or 0)
    axis %= len(shape)
    flow.hold(shape[axis], node, "it is unbound")
    return [(*shape[:axis], *shape[axis + 1 :])] * (node.outputs or 1)


@rule("index")
def index(flow: Flow, node: Node) -> list[Shape] | Shape:
    """Indexing by one tensor."""
    indices: Any = node.args[1]
    given = [i for i, a in enumerate(indices) if a is not None] if isinstance(indices, tuple) else []
    numbers = flow.of(indices[given[0]]) if len(given) == 1 else None
    if numbers is None:
        return unknown(flow, node)
    shape, at = flow.first(node), given[0]
    flow.hold(shape[at], node, "it is indexed")
    return (*shape[:at], *numbers, *shape[at + 1 :])


@rule("index_select")
def index_select(flow: Flow, node: Node) -> Shape:
    """Indexing of one dimension."""
    assert node.out is not None
    shape, axis = flow.first(node), int(argument(node, 1, "dim"))
    flow.hold(shape[axis], node, "it is indexed")
    fresh = flow.fresh(node.out, node, "it is a result of indexing")[axis]
    return tuple(fresh if i == axis % len(shape) else d for i, d in enumerate(shape))


# -- images


@rule("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d",
      "adaptive_avg_pool2d", "adaptive_max_pool1d", "adaptive_max_pool2d", "interpolate")  # fmt: skip
def pooled(flow: Flow, node: Node) -> list[Shape]:
    """Windows over the last dimensions; other dimensions are unchanged."""
    shape = flow.first(node)
    last = int(node.op[-2]) if node.op[-1] == "d" else len(shape) - 2
    for dims in shape[len(shape) - last :]:
        flow.hold(dims, node, "it is a spatial dimension")
    every = flow.outs(node, "it is a spatial dimension")
    return [(*shape[: len(shape) - last], *fresh[len(shape) - last :]) for fresh in every]


@rule("pad")
def pad(flow: Flow, node: Node) -> list[Shape] | Shape:
    """Padding of the last dimensions; dimensions without padding are unchanged."""
    amounts: Any = argument(node, 1, "pad")
    if not isinstance(amounts, tuple) or node.out is None:
        return unknown(flow, node)
    shape, fresh = flow.first(node), flow.fresh(node.out, node, "it is padded")
    dims = list(shape)
    for i in range(len(amounts) // 2):
        if amounts[2 * i] != 0 or amounts[2 * i + 1] != 0:
            flow.hold(shape[-1 - i], node, "it is padded")
            dims[-1 - i] = fresh[-1 - i]
    return tuple(dims)


@rule("pixel_shuffle")
def pixel_shuffle(flow: Flow, node: Node) -> list[Shape] | Shape:
    """Channels become pixels: groups of r² channels are units."""
    factor = option(node, "upscale_factor", 1)
    shape = flow.first(node)
    if not isinstance(factor, int) or len(shape) < 3 or node.out is None:
        return unknown(flow, node)
    why = reason(node, "its channels become pixels")
    channels, inside = new(size_of(node.out.shape[-3])), new(Size(factor * factor), why)
    unify(shape[-3], (*channels, *inside), why)
    return (*shape[:-3], channels, *flow.fresh(node.out, node, "it is a spatial dimension")[-2:])
