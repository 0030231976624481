"""Axis rules of arithmetic operations: elementwise, contractions, norms, reductions, attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from espalier.model.graph.graph import Node, Ref
from espalier.model.graph.node import Arg
from espalier.passes.structure.axes import Dims, Shape, fix, new, pieces, size, unify
from espalier.passes.structure.flow import Cut, Flow, argument, option, reason, rule, unknown
from espalier.passes.structure.rules_shape import with_argument
from espalier.passes.structure.sizes import Size

GROUPS = 6  # position of the argument `groups` of F.conv2d and F.conv_transpose2d

_ELEMENTWISE = (
    "relu", "gelu", "silu", "tanh", "sigmoid", "leaky_relu", "elu", "hardtanh", "hardswish", "hardsigmoid", "softplus",
    "relu6", "mish", "selu", "celu", "logsigmoid", "sub", "rsub", "mul", "div", "neg", "exp", "expm1", "log",
    "log1p", "sqrt", "rsqrt", "pow", "abs", "sign", "clamp", "clamp_min", "clamp_max", "erf", "sin", "cos", "square",
    "reciprocal", "maximum", "minimum", "round", "floor", "ceil", "floor_divide", "remainder", "fmod", "where",
    "masked_fill", "eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isneginf", "logical_not", "logical_and",
    "logical_or", "logical_xor", "bitwise_not", "bitwise_and", "bitwise_or", "__and__", "__or__", "fill", "addcmul",
    "nan_to_num", "lerp", "softsign", "log_sigmoid", "type_as", "add", "atan2", "tan", "asin", "acos", "sgn",
    "heaviside",
)  # fmt: skip


@rule(*_ELEMENTWISE)
def elementwise(flow: Flow, node: Node) -> Shape:
    """Broadcast operands."""
    shapes = [flow.shapes[r] for r in node.inputs if r in flow.shapes]
    result = broadcast(node, shapes)
    flowing = [r for r in dict.fromkeys(node.inputs) if r in flow.shapes and not flow.stored.get(r)]
    if node.op == "add" and len(flowing) > 1:
        flow.mark("added", [a for dims in result for a in dims], node)
    return result


def broadcast(node: Node, shapes: Sequence[Shape]) -> Shape:
    """The shape of broadcast operands; dimensions larger than 1 are unified."""
    result: list[Dims] = []
    for i in range(-max(map(len, shapes), default=0), 0):
        common: Dims = ()
        for shape in shapes:
            dims = shape[i] if len(shape) >= -i else ()
            if common and dims:
                unify(common, dims, reason(node, "it combines axes of different structure"))
            common = common or dims
        result.append(common)
    return tuple(result)


@rule("prelu")
def prelu(flow: Flow, node: Node) -> Shape:
    """A slope for each channel, or one for all."""
    shape, slope = flow.first(node), flow.weight(node, "weight", 1)
    if slope and slope[0] and len(shape) > 1:
        unify(shape[1], slope[0], reason(node, "its slopes"))
        if node.call == "call_module":
            flow.rewrites[node.id] = lambda cut, n: with_attrs(n, num_parameters=cut.count(slope[0]))
    return shape


@rule("glu")
def glu(flow: Flow, node: Node) -> list[Shape] | Shape:
    """One half of a dimension gates the other."""
    shape, axis = flow.first(node), int(option(node, "dim", 1, -1))
    halves = pieces(shape[axis], [size(shape[axis]).count // 2], reason(node, "one half gates the other"))
    if halves is None or len(halves) != 2:
        return unknown(flow, node)
    unify(halves[0], halves[1], reason(node, "one half gates the other"))
    return tuple(halves[0] if i == axis % len(shape) else d for i, d in enumerate(shape))


def with_attrs(node: Node, **values: Arg) -> Node:
    """A module with other values of its existing arguments."""
    return replace(node, attrs={**node.attrs, **{k: v for k, v in values.items() if k in node.attrs}})


# -- contractions


@rule("linear")
def linear(flow: Flow, node: Node) -> list[Shape] | Shape:
    """[…, in] by a weight [out, in] (of transformers' Conv1D: [in, out])."""
    shape, weight, bias = flow.first(node), flow.weight(node, "weight", 1), flow.weight(node, "bias", 2)
    if weight is None or len(weight) != 2:
        return unknown(flow, node)
    turned = node.attrs.get("class") == "Conv1D"
    outs, ins = weight[::-1] if turned else weight
    unify(shape[-1], ins, reason(node, "its inputs"))
    if bias:
        unify(bias[0], outs, reason(node, "its bias"))
    _maskable(flow, node, 1, ins)
    if node.call == "call_module":
        names = ("nx", "nf") if turned else ("in_features", "out_features")
        flow.rewrites[node.id] = lambda cut, n: with_attrs(n, **{names[0]: cut.count(ins), names[1]: cut.count(outs)})
    return (*shape[:-1], outs)


def _maskable(flow: Flow, node: Node, position: int, dims: Dims) -> None:
    """Fix the inputs of a computed weight, which cannot be masked."""
    ref = node.args[position] if node.call != "call_module" and position < len(node.args) else None
    if isinstance(ref, Ref) and flow.graph.nodes[ref.node].call != "get_attr":
        flow.hold(dims, node, "its weight is computed and cannot be masked")


@rule(*(f"conv{d}d" for d in (1, 2, 3)), *(f"conv_transpose{d}d" for d in (1, 2, 3)))
def conv(flow: Flow, node: Node) -> list[Shape] | Shape:
    """Channels by a weight [out, in per group, …] (transposed: [in, out per group, …])."""
    shape, weight, bias = flow.first(node), flow.weight(node, "weight", 1), flow.weight(node, "bias", 2)
    spatial, turned = int(node.op[-2]), "transpose" in node.op
    groups = option(node, "groups", GROUPS, 1)
    if weight is None or not isinstance(groups, int) or node.out is None:
        return unknown(flow, node)
    why, channel = reason(node, "its groups of channels"), len(shape) - spatial - 1
    apart = new(Size(groups))
    full, part = weight[0], weight[1]  # channels of the layer, of one group
    inside = new(Size(size(full).count // groups))
    unify(full, (*apart, *inside), why)
    ins, outs = ((*apart, *inside), (*apart, *part)) if turned else ((*apart, *part), (*apart, *inside))
    unify(shape[channel], ins, why)
    if bias:
        unify(bias[0], outs, reason(node, "its bias"))
    _maskable(flow, node, 1, ins)
    for dims in shape[channel + 1 :]:
        flow.hold(dims, node, "it is a spatial dimension")
    flow.mark("conv", (*ins, *outs), node)
    flow.rewrites[node.id] = lambda cut, n: _conv_anew(cut, n, ins, outs, apart)
    sides = flow.fresh(node.out, node, "it is a spatial dimension")[channel + 1 :]
    return (*shape[:channel], outs, *sides)


def _conv_anew(cut: Cut, node: Node, ins: Dims, outs: Dims, apart: Dims) -> Node:
    if node.call == "call_module":
        return with_attrs(node, in_channels=cut.count(ins), out_channels=cut.count(outs), groups=cut.count(apart))
    return with_argument(node, GROUPS, "groups", cut.count(apart)) if apart else node


@rule("matmul", "bmm", "mm")
def matmul(flow: Flow, node: Node) -> list[Shape] | Shape:
    """[…, a, k] by […, k, b]."""
    one, other = flow.of(node.args[0]), flow.of(node.args[1])
    if one is None or other is None or min(len(one), len(other)) < 2:
        return unknown(flow, node)
    return _product(flow, node, one, other)


@rule("addmm", "baddbmm")
def addmm(flow: Flow, node: Node) -> list[Shape] | Shape:
    """bias + [a, k] by [k, b]."""
    bias, one, other = (flow.of(a) for a in node.args[:3])
    if one is None or other is None or bias is None:
        return unknown(flow, node)
    return broadcast(node, [_product(flow, node, one, other, 1), bias])


def _product(flow: Flow, node: Node, one: Shape, other: Shape, first: int = 0) -> Shape:
    batch = broadcast(node, [one[:-2], other[:-2]])
    unify(one[-1], other[-2], reason(node, "it is summed over"))
    stored = [flow.stored.get(r, False) for r in (node.args[first], node.args[first + 1]) if isinstance(r, Ref)]
    if not any(stored):
        flow.hold(one[-1], node, "two results are multiplied along it")
        flow.mark("heads", [a for dims in batch for a in dims], node)
        flow.mark("inside", (*one[-1], *other[-1]), node)
    else:
        _maskable(flow, node, first + 1, one[-1])
    return (*batch, one[-2], other[-1])


@rule("einsum")
def einsum(flow: Flow, node: Node) -> list[Shape] | Shape:
    """Equal letters denote equal axes."""
    inputs, arrow, result = str(node.args[0]).replace(" ", "").partition("->")
    given: Any = node.args[1]
    shapes = [flow.of(a) for a in given] if isinstance(given, tuple) else []
    terms = inputs.split(",")
    if not arrow or "." in inputs or len(terms) != len(shapes) or any(s is None for s in shapes):
        return unknown(flow, node)
    axes: dict[str, Dims] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for letter, dims in zip(term, shape or (), strict=False):
            unify(axes.setdefault(letter, dims), dims, reason(node, f"its index {letter}"))
    stored = any(flow.stored.get(a, False) for a in given if isinstance(a, Ref))
    for letter, dims in axes.items():
        if letter not in result and not (stored and all(letter in t for t in terms)):
            flow.hold(dims, node, "it is summed over")
    return tuple(axes[letter] for letter in result)


@rule("scaled_dot_product_attention")
def attention(flow: Flow, node: Node) -> list[Shape] | Shape:
    """Queries, keys, values […, heads, positions, head size]: heads are units, elements of a head are fixed."""
    query, key, value = (flow.of(a) for a in node.args[:3])
    if query is None or key is None or value is None or min(map(len, (query, key, value))) < 3:
        return unknown(flow, node)
    _grouped(node, query, key, value)
    batch = broadcast(node, [query[:-2], key[:-2], value[:-2]])
    unify(query[-1], key[-1], reason(node, "queries are multiplied by keys"))
    unify(key[-2], value[-2], reason(node, "its positions"))
    for dims in (query[-1], value[-1]):
        flow.mark("inside", dims, node)
        flow.hold(dims, node, "it lies inside an attention head")
    for dims in (query[-2], key[-2]):
        flow.hold(dims, node, "it counts positions")
    mask = flow.of(argument(node, 3, "attn_mask"))
    if mask:
        broadcast(node, [(*batch, query[-2], key[-2]), mask])
    flow.mark("heads", query[-3], node)
    return (*batch, query[-2], value[-1])


def _grouped(node: Node, query: Shape, key: Shape, value: Shape) -> None:
    """Grouped-query attention: groups of queries share a key and a value."""
    if not option(node, "enable_gqa", 7, False):
        return
    for shared in (key, value):
        more = size(query[-3]).over(size(shared[-3]))
        if more is None:
            fix((*query[-3], *shared[-3]), reason(node, "its heads do not divide"))
        else:
            unify(query[-3], (*shared[-3], *new(more)), reason(node, "its heads share keys"))


@rule("embedding")
def embedding(flow: Flow, node: Node) -> list[Shape] | Shape:
    """Rows of a table by index."""
    module = node.call == "call_module"
    table, positions = flow.weight(node, "weight", 0), flow.of(node.args[0 if module else 1])
    if table is None or positions is None or len(table) != 2:
        return unknown(flow, node)
    rows, width = table
    flow.hold(rows, node, "its rows are indexed")
    flow.mark("table", width, node)
    if module:
        flow.rewrites[node.id] = lambda cut, n: with_attrs(n, embedding_dim=cut.count(width))
    return (*positions, width)


# -- norms


@rule("batch_norm", "instance_norm")
def batch_norm(flow: Flow, node: Node) -> Shape:
    """Statistics of each channel."""
    shape = flow.first(node)
    channels = shape[1] if len(shape) > 1 else ()
    for position, port in ((1, "weight"), (2, "bias"), (3, "running_mean"), (4, "running_var")):
        own = flow.weight(node, port, position)
        if own:
            unify(channels, own[0], reason(node, f"its {port}"))
    if node.call == "call_module":
        flow.rewrites[node.id] = lambda cut, n: with_attrs(n, num_features=cut.count(channels))
    return shape


@rule("group_norm")
def group_norm(flow: Flow, node: Node) -> list[Shape] | Shape:
    """Statistics of groups of channels: whole groups can be removed; removing channels of a group changes them."""
    shape, groups = flow.first(node), option(node, "num_groups", 1)
    if not isinstance(groups, int) or len(shape) < 2:
        return unknown(flow, node)
    apart, inside = new(Size(groups)), new(Size(size(shape[1]).count // groups))
    unify(shape[1], (*apart, *inside), reason(node, "its groups"))
    for position, port in ((2, "weight"), (3, "bias")):
        own = flow.weight(node, port, position)
        if own:
            unify(shape[1], own[0], reason(node, f"its {port}"))
    flow.mark("normed", inside, node)
    flow.rewrites[node.id] = lambda cut, n: _group_norm_anew(cut, n, shape[1], apart)
    return shape


def _group_norm_anew(cut: Cut, node: Node, channels: Dims, apart: Dims) -> Node:
    if node.call == "call_module":
        return with_attrs(node, num_groups=cut.count(apart), num_channels=cut.count(channels))
    return with_argument(node, 1, "num_groups", cut.count(apart)) if apart else node


@rule("layer_norm", "rms_norm")
def layer_norm(flow: Flow, node: Node) -> Shape:
    """Common statistics of the last dimensions, which change when a channel is removed."""
    shape, given = flow.first(node), option(node, "normalized_shape", 1, ())
    normal = given if isinstance(given, tuple) else (given,)
    last = shape[len(shape) - len(normal) :]
    for position, port in ((2, "weight"), (3, "bias")):
        for dims, own in zip(last, flow.weight(node, port, position) or (), strict=False):
            unify(dims, own, reason(node, f"its {port}"))
    flow.mark("normed", [a for dims in last for a in dims], node)
    flow.rewrites[node.id] = lambda cut, n: _layer_norm_anew(n, tuple(cut.count(d) for d in last))
    return shape


def _layer_norm_anew(node: Node, normal: tuple[int, ...]) -> Node:
    if node.call == "call_module":
        return with_attrs(node, normalized_shape=normal)
    return with_argument(node, 1, "normalized_shape", normal)


# -- reductions


@rule("softmax", "log_softmax", "cumsum")
def along(flow: Flow, node: Node) -> Shape:
    """Operations over all elements of a dimension."""
    shape, axis = flow.first(node), option(node, "dim", 1, -1)
    if isinstance(axis, int) and shape:
        flow.hold(shape[axis], node, f"{node.op} runs along it")
    return shape


@rule("mean", "sum", "amax", "amin", "norm", "var", "std", "prod")
def reduced(flow: Flow, node: Node) -> list[Shape] | Shape:
    """Reduced dimensions; a mean is marked as a norm's statistics, which change when a channel is removed."""
    shape, axes = flow.first(node), option(node, "dim", 2 if node.op == "norm" else 1)
    axes = (axes,) if isinstance(axes, int) else axes
    if node.out is None or (node.out.shape and not isinstance(axes, tuple)):
        return unknown(flow, node)
    gone = {int(a) % len(shape) for a in axes} if isinstance(axes, tuple) and axes else set(range(len(shape)))
    for i in gone:
        if node.op == "mean":
            flow.mark("normed", shape[i], node)
        else:
            flow.hold(shape[i], node, "it is reduced along it")
    if len(node.out.shape) == len(shape):
        return tuple(() if i in gone else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in gone)
