"""Rules of operations that move values: views, permutations, expansions, concatenations, cuts."""

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

_END = 1 << 62


@rule("placeholder")
def placeholder(flow: Flow, node: Node) -> Shape:
    """Inputs of the model keep their sizes."""
    return flow.fresh(node.ports["data_out"], node, "it comes in through an input") if node.out else ()


@rule("get_attr")
def get_attr(flow: Flow, node: Node) -> Shape:
    """A stored tensor."""
    return flow.named(node.weights["value"])


@rule("contiguous", "clone", "to", "dropout", "alias", "detach", "identity", "lift_fresh_copy", "zeros_like",
      "ones_like", "full_like", "empty_like", "rand_like", "randn_like", "tril", "triu")  # fmt: skip
def same(flow: Flow, node: Node) -> Shape:
    """Results of the same dimensions."""
    return flow.first(node)


@rule("arange", "new_empty", "scalar_tensor")
def made(flow: Flow, node: Node) -> list[Shape]:
    """Made of literal sizes."""
    return flow.outs(node, "it is made in a fixed size")


@rule("zeros", "ones", "full", "new_zeros", "new_ones", "new_full")
def filled(flow: Flow, node: Node) -> list[Shape]:
    """One value everywhere, so that any sizes will do."""
    if node.out is None or len(node.out.shape) != len(_literal(node)):
        return flow.outs(node, "it is made in a fixed size")
    found = tuple(new(size_of(d)) for d in node.out.shape)
    place = int(node.op.startswith("new_"))
    flow.rewrites[node.id] = lambda cut, n: _resized(cut, n, found, place, "size")
    return [found]


def _literal(node: Node) -> tuple[Arg, ...]:
    given = argument(node, int(node.op.startswith("new_")), "size")
    return given if isinstance(given, tuple) else ()


# -- views


@rule("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze")
def view(flow: Flow, node: Node) -> Shape:
    """The same elements in the same order."""
    assert node.out is not None
    sizes = [size_of(d) for d in node.out.shape]
    found = viewed(flow.first(node), sizes, reason(node, "it views the axis in another grouping"))
    place = 2 if node.op == "unflatten" else 1
    if node.op in ("view", "reshape", "unflatten"):
        axis = option(node, "dim", 1, 0) if node.op == "unflatten" else 0
        start = axis % len(flow.first(node)) if node.op == "unflatten" else 0
        name = "unflattened_size" if node.op == "unflatten" else "size"
        flow.rewrites[node.id] = lambda cut, n: _resized(cut, n, found[start:], place, name)
    return found


def _resized(cut: Cut, node: Node, shape: Sequence[Dims], place: int, name: str) -> Node:
    """A node with new literal sizes; a size that was computed is left to torch where it changes."""
    if node.call == "call_module":
        sizes = tuple(node.attrs[name])  # type: ignore[arg-type]
        return replace(node, attrs={**node.attrs, name: _sizes(cut, node, sizes, shape)})
    given: Any = argument(node, place, name)
    if not isinstance(given, tuple):
        raise GraphError(f"{node.id} has sizes that are not listed.", "Leave its axes as they are.", node.id)
    return with_argument(node, place, name, _sizes(cut, node, given, shape))


def _sizes(cut: Cut, node: Node, given: tuple[Arg, ...], shape: Sequence[Dims]) -> tuple[Arg, ...]:
    found: list[Arg] = []
    for arg, dims in zip(given, shape, strict=False):
        now = cut.size(dims)
        if now == size(dims) or arg == -1:
            found.append(arg)
        else:
            found.append(now.count if not now.free else -1)
    if sum(a == -1 for a in found if not isinstance(a, Ref)) > 1:
        raise GraphError(f"{node.id} computes two of its sizes, and both would change.",
                         "Leave its axes as they are.", node.id)  # fmt: skip
    return tuple(found)


def with_argument(node: Node, position: int, name: str, value: Arg) -> Node:
    """A function with another argument."""
    if position < len(node.args):
        return replace(node, args=(*node.args[:position], value, *node.args[position + 1 :]))
    return replace(node, kwargs={**node.kwargs, name: value})


# -- order


def _turned(shape: Shape, *moves: tuple[int, int]) -> Shape:
    found = list(shape)
    for a, b in moves:
        found[a], found[b] = found[b], found[a]
    return tuple(found)


@rule("transpose", "swapaxes", "swapdims")
def transpose(flow: Flow, node: Node) -> Shape:
    """Two dimensions change places."""
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
    """One dimension at another place."""
    source, target = argument(node, 1, "source"), argument(node, 2, "destination")
    if not (isinstance(source, int) and isinstance(target, int)):
        return unknown(flow, node)
    found = list(flow.first(node))
    found.insert(target % len(found), found.pop(source % len(found)))
    return tuple(found)


@rule("roll", "flip")
def rolled(flow: Flow, node: Node) -> Shape:
    """Values change places along some dimensions, which keep their sizes."""
    shape, place = flow.first(node), 2 if node.op == "roll" else 1
    axes: Any = argument(node, place, "dims")
    for i in axes if isinstance(axes, tuple) else range(len(shape)):
        flow.hold(shape[i], node, "places along it are moved")
    return shape


# -- repetition


@rule("expand", "expand_as")
def expand(flow: Flow, node: Node) -> Shape:
    """Dimensions of size 1 repeated: an axis of its own, over which values are equal."""
    assert node.out is not None
    shape, sizes = flow.first(node), [size_of(d) for d in node.out.shape]
    padded = ((),) * (len(sizes) - len(shape)) + shape
    found = tuple(dims or new(s) for dims, s in zip(padded, sizes, strict=True))
    if node.op == "expand":
        flow.rewrites[node.id] = lambda cut, n: _expanded(cut, n, found)
    else:
        for dims, other in zip(found, flow.of(node.args[1]) or found, strict=True):
            unify(dims, other, reason(node, "it is expanded"))
    return found


def _expanded(cut: Cut, node: Node, shape: Shape) -> Node:
    given: Any = argument(node, 1, "size")
    changed = [cut.size(d) != size(d) for d in shape]
    if any(c and isinstance(a, Ref) for a, c in zip(given, changed, strict=True)):
        raise GraphError(f"{node.id} expands to a computed size.", "Leave its axes as they are.", node.id)
    now = (cut.count(d) if c and a != -1 else a for a, d, c in zip(given, shape, changed, strict=True))
    return with_argument(node, 1, "size", tuple(now))


@rule("repeat_interleave")
def repeat_interleave(flow: Flow, node: Node) -> list[Shape] | Shape:
    """Each element of a dimension several times."""
    times, axis = argument(node, 1, "repeats"), argument(node, 2, "dim")
    if not (isinstance(times, int) and isinstance(axis, int)):
        return unknown(flow, node)
    found, more = list(flow.first(node)), new(Size(times))
    found[axis] = (*found[axis], *more)
    flow.rewrites[node.id] = lambda cut, n: with_argument(n, 1, "repeats", cut.count(more))
    return tuple(found)


@rule("repeat")
def repeat(flow: Flow, node: Node) -> list[Shape] | Shape:
    """Whole dimensions one after another."""
    times: Any = argument(node, 1, "repeats")
    if not isinstance(times, tuple) or not all(isinstance(n, int) for n in times):
        return _repeated_by_ref(flow, node, times)
    shape = flow.first(node)
    shape = ((),) * (len(times) - len(shape)) + shape
    more = [new(Size(n)) for n in times]
    flow.rewrites[node.id] = lambda cut, n: with_argument(n, 1, "repeats", tuple(cut.count(m) for m in more))
    return tuple((*m, *d) for m, d in zip(more, shape, strict=True))


def _repeated_by_ref(flow: Flow, node: Node, times: Any) -> list[Shape] | Shape:
    """Repeats of which some are computed: the dimensions that they concern are held, the others pass."""
    if not isinstance(times, tuple) or node.out is None:
        return unknown(flow, node)
    shape = flow.first(node)
    shape = ((),) * (len(times) - len(shape)) + shape
    fresh = flow.fresh(node.out, node, "it is repeated a computed number of times")
    for n, dims in zip(times, shape, strict=True):
        if n != 1:
            flow.hold(dims, node, "it is repeated")
    return tuple(d if n == 1 else f for n, d, f in zip(times, shape, fresh, strict=True))


# -- putting together and cutting


@rule("cat")
def cat(flow: Flow, node: Node) -> list[Shape] | Shape:
    """Tensors one after another along one dimension."""
    shapes = [flow.of(a) for a in node.args[0]]  # type: ignore[union-attr]
    axis = option(node, "dim", 1, 0)
    given = [s for s in shapes if s]
    if len(given) != len(shapes) or not isinstance(axis, int) or node.out is None:
        return unknown(flow, node)
    axis %= len(given[0])
    for other in given[1:]:
        for i, dims in enumerate(other):
            if i != axis:
                unify(given[0][i], dims, reason(node, "tensors are put together"))
    parts = [s[axis] for s in given if size(s[axis]).count or size(s[axis]).free]  # without those of no element
    free = size_of(node.out.shape[axis]).free or any(size(p).free for p in parts)
    if free:
        for p in parts:
            flow.hold(p, node, "it is put beside a dimension of a free size")
    fresh = flow.fresh(node.out, node, "a dimension of a free size")[axis]
    joined = fresh if free else row([p or (Axis(ONE),) for p in parts])
    return tuple(joined if i == axis else d for i, d in enumerate(given[0]))


@rule("stack")
def stack(flow: Flow, node: Node) -> list[Shape] | Shape:
    """Tensors along a dimension of their own, of a fixed size."""
    shapes = [flow.of(a) for a in node.args[0]]  # type: ignore[union-attr]
    given = [s for s in shapes if s is not None]
    if len(given) != len(shapes) or not given:
        return unknown(flow, node)
    for other in given[1:]:
        for mine, dims in zip(given[0], other, strict=True):
            unify(mine, dims, reason(node, "tensors are stacked"))
    axis = int(option(node, "dim", 1, 0)) % (len(given[0]) + 1)
    made_of = new(Size(len(given)), reason(node, "as many tensors are stacked"))
    return (*given[0][:axis], made_of, *given[0][axis:])


def _cut(flow: Flow, node: Node, axis: int, cuts: Sequence[int]) -> list[Shape] | None:
    """A tensor cut along an axis at some places; None where that cannot be followed."""
    shape = flow.first(node)
    found = pieces(shape[axis], cuts, reason(node, "it is cut in pieces"))
    if found is None:
        return None
    return [tuple(p if i == axis else d for i, d in enumerate(shape)) for p in found]


@rule("split", "split_with_sizes", "chunk")
def split(flow: Flow, node: Node) -> list[Shape]:
    """Pieces along a dimension; of unequal sizes afterwards, the sizes are written out."""
    shape, axis = flow.first(node), argument(node, 2, "dim") or 0
    axis %= max(len(shape), 1)
    metas = [node.ports.get("data_out" if not i else f"data_out_{i}") for i in range(node.outputs or 1)]
    sizes = [m.shape[axis] if m else None for m in metas]
    counts = [s for s in sizes if isinstance(s, int)]
    if len(counts) != len(sizes):
        return unknown(flow, node)
    found = _cut(flow, node, axis, [int(n) for n in np.cumsum(counts)])
    if found is None or len(found) != len(counts):
        return unknown(flow, node)
    flow.rewrites[node.id] = lambda cut, n: _split_anew(n, axis, [cut.count(s[axis]) for s in found])
    return found


def _split_anew(node: Node, axis: int, sizes: list[int]) -> Node:
    return replace(node, op="split_with_sizes", target="aten.split_with_sizes.default",
                   args=(node.args[0], tuple(sizes), axis), kwargs={})  # fmt: skip


@rule("slice", "narrow")
def slice_(flow: Flow, node: Node) -> list[Shape] | Shape:
    """A stretch of a dimension."""
    shape, axis = flow.first(node), argument(node, 1, "dim") or 0
    axis %= max(len(shape), 1)
    whole = size(shape[axis])
    if node.out is None:
        return unknown(flow, node)
    if size_of(node.out.shape[axis]) == whole and whole != ONE:
        return shape if _from_zero(node) else unknown(flow, node)
    start, stop = _ends(node, whole.count)
    if whole.free or start is None or stop is None or start >= stop:
        flow.hold(shape[axis], node, "a stretch of it is taken")
        fresh = flow.fresh(node.out, node, "a stretch of a computed size")[axis]
        return tuple(fresh if i == axis else d for i, d in enumerate(shape))
    found = _cut(flow, node, axis, [start, stop])
    if found is None:
        return unknown(flow, node)
    before = [s[axis] for s in found[: 1 if start else 0]]
    taken = found[len(before)]
    flow.rewrites[node.id] = lambda cut, n: _sliced(n, sum(map(cut.count, before)), cut.count(taken[axis]))
    return taken


def _from_zero(node: Node) -> bool:
    return node.op == "narrow" or option(node, "step", 4, 1) in (1, None)


def _ends(node: Node, whole: int) -> tuple[int | None, int | None]:
    """Where a stretch of literal ends begins and stops."""
    start, stop = argument(node, 2, "start"), argument(node, 3, "end")
    if node.op == "narrow":
        plain = isinstance(start, int) and isinstance(stop, int)
        return (start % whole, start % whole + stop) if plain else (None, None)
    if option(node, "step", 4, 1) != 1:
        return None, None
    start, stop = 0 if start is None else start, whole if stop is None else stop
    if not (isinstance(start, int) and isinstance(stop, int)):
        return None, None
    found = slice(start, stop).indices(whole)
    return found[0], found[1]


def _sliced(node: Node, start: int, count: int) -> Node:
    node = with_argument(node, 2, "start", start)
    return with_argument(node, 3, "length" if node.op == "narrow" else "end",
                         count if node.op == "narrow" else start + count)  # fmt: skip


@rule("select")
def select(flow: Flow, node: Node) -> Shape:
    """One place of a dimension."""
    shape, axis = flow.first(node), int(argument(node, 1, "dim"))
    axis %= len(shape)
    flow.hold(shape[axis], node, "one place of it is taken by number")
    return (*shape[:axis], *shape[axis + 1 :])


@rule("unbind")
def unbind(flow: Flow, node: Node) -> list[Shape]:
    """All places of a dimension as tensors of their own."""
    shape, axis = flow.first(node), int(argument(node, 1, "dim") or 0)
    axis %= len(shape)
    flow.hold(shape[axis], node, "each of its places is a tensor")
    return [(*shape[:axis], *shape[axis + 1 :])] * (node.outputs or 1)


@rule("index")
def index(flow: Flow, node: Node) -> list[Shape] | Shape:
    """Rows of a table by a tensor of numbers."""
    places: Any = node.args[1]
    given = [i for i, a in enumerate(places) if a is not None] if isinstance(places, tuple) else []
    numbers = flow.of(places[given[0]]) if len(given) == 1 else None
    if numbers is None:
        return unknown(flow, node)
    shape, at = flow.first(node), given[0]
    flow.hold(shape[at], node, "its places are taken by number")
    return (*shape[:at], *numbers, *shape[at + 1 :])


@rule("index_select")
def index_select(flow: Flow, node: Node) -> Shape:
    """Places of one dimension by number."""
    assert node.out is not None
    shape, axis = flow.first(node), int(argument(node, 1, "dim"))
    flow.hold(shape[axis], node, "its places are taken by number")
    fresh = flow.fresh(node.out, node, "places taken by number")[axis]
    return tuple(fresh if i == axis % len(shape) else d for i, d in enumerate(shape))


# -- images


@rule("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d",
      "adaptive_avg_pool2d", "adaptive_max_pool1d", "adaptive_max_pool2d", "interpolate")  # fmt: skip
def pooled(flow: Flow, node: Node) -> list[Shape]:
    """Windows over the last dimensions; channels pass."""
    shape = flow.first(node)
    last = int(node.op[-2]) if node.op[-1] == "d" else len(shape) - 2
    for dims in shape[len(shape) - last :]:
        flow.hold(dims, node, "windows slide over it")
    return [(*shape[: len(shape) - last], *fresh[len(shape) - last :]) for fresh in flow.outs(node, "a picture's side")]


@rule("pad")
def pad(flow: Flow, node: Node) -> list[Shape] | Shape:
    """What is added at the ends of the last dimensions; a dimension without additions passes."""
    amounts: Any = argument(node, 1, "pad")
    if not isinstance(amounts, tuple) or node.out is None:
        return unknown(flow, node)
    shape, fresh = flow.first(node), flow.fresh(node.out, node, "values are added at its ends")
    found = list(shape)
    for i in range(len(amounts) // 2):
        if amounts[2 * i] != 0 or amounts[2 * i + 1] != 0:
            flow.hold(shape[-1 - i], node, "values are added at its ends")
            found[-1 - i] = fresh[-1 - i]
    return tuple(found)


@rule("pixel_shuffle")
def pixel_shuffle(flow: Flow, node: Node) -> list[Shape] | Shape:
    """Channels become pixels: groups of r² channels stay whole."""
    factor = option(node, "upscale_factor", 1)
    shape = flow.first(node)
    if not isinstance(factor, int) or len(shape) < 3 or node.out is None:
        return unknown(flow, node)
    why = reason(node, "its channels become pixels")
    channels, inside = new(size_of(node.out.shape[-3])), new(Size(factor * factor), why)
    unify(shape[-3], (*channels, *inside), why)
    return (*shape[:-3], channels, *flow.fresh(node.out, node, "a picture's side")[-2:])
