"""An exported module, rewritten so that XNNPACK recognises its integer products; other stored weights become float.

XNNPACK multiplies integers where the product's result is rounded at once. Rounding to the nearest is monotone and keeps
what is on the grid, so it may move up through operations that only move or clip values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, fx

from espalier.model.errors import ExportError
from espalier.passes.export.executorch.nodes import DECOMPOSED, HIGH, LOW
from espalier.passes.export.targets.executorch import CODES

ATEN: Any = torch.ops.aten
QUANTIZE, DEQUANTIZE = DECOMPOSED.quantize_per_tensor.default, DECOMPOSED.dequantize_per_tensor.default
ROW, CHANNEL, GROUP = (
    DECOMPOSED.dequantize_per_token.default,
    DECOMPOSED.dequantize_per_channel.default,
    DECOMPOSED.dequantize_per_channel_group.default,
)
LINEAR = ATEN.linear.default
PRODUCTS = (LINEAR, ATEN.conv1d.default, ATEN.conv2d.default, ATEN.conv1d.padding, ATEN.conv2d.padding)
RELU, CLIP = (ATEN.relu.default, ATEN.relu_.default), (ATEN.hardtanh.default, ATEN.hardtanh_.default)
MOVES = (
    ATEN.max_pool2d.default, ATEN.view.default, ATEN.reshape.default, ATEN.flatten.using_ints, ATEN.permute.default,
    ATEN.transpose.int, ATEN.squeeze.dim, ATEN.unsqueeze.default,
)  # fmt: skip
METADATA = ATEN._assert_tensor_metadata.default  # pyright: ignore[reportPrivateUsage]  # torch.export's own checks
REQUANTISED = 2.0**-32, 256.0  # limits of XNNPACK for (scale of input · scale of weight) / scale of result
BIAS = 2.0**31


@dataclass(slots=True)
class Products:
    """The paths of layers with stored weights by what computes them: integers, with inputs rounded beforehand or in the
    product; floats with stored codes; floats alone."""

    static: list[str] = field(default_factory=list[str])
    dynamic: list[str] = field(default_factory=list[str])
    codes: list[str] = field(default_factory=list[str])
    floats: list[str] = field(default_factory=list[str])


def rewrite(module: fx.GraphModule) -> Products:
    """Change the module in place. Raises ExportError where an input by row meets no product of integers."""
    graph, found = module.graph, Products()
    for node in [n for n in graph.nodes if n.target == METADATA]:
        graph.erase_node(node)
    for node in reversed(
        [n for n in graph.nodes if n.target == QUANTIZE]
    ):  # from the results: a chain moves as a whole
        _move_up(graph, node)
    for node in [n for n in graph.nodes if n.target in CLIP]:
        _merge(graph, node)
    for node in [n for n in graph.nodes if n.target in PRODUCTS and _stored(n)]:
        _choose(module, node, found)
    for node in [n for n in graph.nodes if n.target == DEQUANTIZE]:
        _separate(graph, node)
    graph.eliminate_dead_code()
    if any(n.target == ROW and any(not _dynamic(u) for u in n.users) for n in graph.nodes):
        raise ExportError("An input with scales of its rows meets no weight in whole numbers.",
                          "Give such layers a weight of scaled_integer(width=8), or calibrate the input.")  # fmt: skip
    graph.lint()
    module.recompile()
    module.delete_all_unused_submodules()
    return found


# -- roundings move up


def _move_up(graph: fx.Graph, quantize: fx.Node) -> None:
    """Round also what a product gives, where only movements lie between them."""
    clip = _arg(quantize)
    first = clip if clip.target in CLIP else quantize
    source = _arg(first)
    moved = False
    reader = first
    while source.target in MOVES and len(source.users) == 1:
        reader, source, moved = source, _arg(source), True
    if not moved or len(source.users) != 1 or not _product_above(source):
        return
    with graph.inserting_before(reader):
        value = _like(graph, first, source) if first is clip else source
        codes = _like(graph, quantize, value)
        back = graph.call_function(DEQUANTIZE, (codes, *quantize.args[1:]))
        back.meta = dict(source.meta)
    reader.replace_input_with(source, back)
    if first is clip:  # what lies on the grid is within its ends
        quantize.replace_input_with(clip, _arg(clip))


def _product_above(node: fx.Node) -> bool:
    """Whether a node is a product with a stored weight, or a clip of one."""
    while node.target in (*RELU, *CLIP) and len(_arg(node).users) == 1:
        node = _arg(node)
    return node.target in PRODUCTS and _stored(node)


def _merge(graph: fx.Graph, clip: fx.Node) -> None:
    """A Relu below a clip as one clip, since XNNPACK fuses one."""
    relu = _arg(clip)
    if relu.target not in RELU or len(relu.users) != 1:
        return
    low, high = _ends(clip)
    with graph.inserting_before(clip):
        one = graph.call_function(CLIP[0], (_arg(relu), max(low, 0.0), max(high, 0.0)))
    one.meta = dict(clip.meta)
    clip.replace_all_uses_with(one)
    graph.erase_node(clip)
    graph.erase_node(relu)


def _ends(clip: fx.Node) -> tuple[float, float]:
    given = [*clip.args[1:], -1.0, 1.0][:2] if len(clip.args) != 2 else [clip.args[1], 1.0]
    return float(cast("float", given[0])), float(cast("float", given[1]))


def _like(graph: fx.Graph, node: fx.Node, source: fx.Node) -> fx.Node:
    made = graph.call_function(cast("Any", node.target), (source, *node.args[1:]), dict(node.kwargs))
    made.meta = dict(source.meta)
    return made


def _separate(graph: fx.Graph, node: fx.Node) -> None:
    """One inverse for each reader: XNNPACK takes it into an integer operator, but not into a float one."""
    for reader in list(node.users)[1:]:
        with graph.inserting_before(reader):
            reader.replace_input_with(node, graph.node_copy(node))


# -- products


def _choose(module: fx.GraphModule, node: fx.Node, found: Products) -> None:
    """What computes a product; one in float loses what XNNPACK would not recognise."""
    path = _path(node)
    if _static(module, node):
        found.static.append(path)
        weight = _weight(node)
        weight.args = (*weight.args[:4], LOW, HIGH, *weight.args[6:])  # 4-bit codes are read with dynamic inputs alone
    elif _dynamic(node):
        found.dynamic.append(path)
    elif node.target == LINEAR and _weight(node).target == CHANNEL:
        found.codes.append(path)
        _add_bias(module.graph, node)
    else:
        found.floats.append(path)
        _in_float(module, node)


def _static(module: fx.GraphModule, node: fx.Node) -> bool:
    data, result = _arg(node), next(iter(node.users)) if len(node.users) == 1 else None
    if result is not None and result.target in (*RELU, *CLIP) and len(result.users) == 1:
        result = next(iter(result.users))
    if data.target != DEQUANTIZE or result is None or result.target != QUANTIZE:
        return False
    weight = _weight(node)
    if weight.target != CHANNEL:
        return False
    scale = _value(module, cast("fx.Node", weight.args[1])) * cast("float", data.args[1])
    ratio = scale / cast("float", result.args[1])
    bias = _bias(node)
    largest = 0.0 if bias is None else float((_value(module, bias) / scale).abs().max())
    return REQUANTISED[0] <= float(ratio.min()) and float(ratio.max()) < REQUANTISED[1] and largest < BIAS


def _dynamic(node: fx.Node) -> bool:
    return node.target == LINEAR and _arg(node).target == ROW and _weight(node).target in (CHANNEL, GROUP)


def _add_bias(graph: fx.Graph, node: fx.Node) -> None:
    """XNNPACK's product of floats with codes, as ExecuTorch writes it, takes no bias."""
    bias = _bias(node)
    if bias is None:
        return
    node.args = node.args[:2]
    with graph.inserting_after(node):
        total = graph.call_function(ATEN.add.Tensor, (node, bias))
    total.meta = dict(node.meta)
    node.replace_all_uses_with(total, delete_user_cb=lambda user: user is not total)


def _in_float(module: fx.GraphModule, node: fx.Node) -> None:
    """The weight's values in place of its codes."""
    weight = _weight(node)
    tensors = [_value(module, a) if isinstance(a, fx.Node) else a for a in weight.args]
    name = f"float_{weight.name}"
    module.register_buffer(name, cast("Any", weight.target)(*tensors))
    with module.graph.inserting_before(node):
        node.replace_input_with(weight, module.graph.get_attr(name))


# -- parts of nodes


def _arg(node: fx.Node) -> fx.Node:
    return cast("fx.Node", node.args[0])


def _weight(node: fx.Node) -> fx.Node:
    return cast("fx.Node", node.args[1])


def _bias(node: fx.Node) -> fx.Node | None:
    return cast("fx.Node | None", node.args[2] if len(node.args) > 2 else None)


def _stored(node: fx.Node) -> bool:
    return isinstance(node.args[1], fx.Node) and node.args[1].target in (CHANNEL, GROUP)


def _path(node: fx.Node) -> str:
    """Of the layer that holds the codes."""
    return str(_arg(_weight(node)).target).removesuffix(CODES).rstrip(".")


def _value(module: fx.GraphModule, node: fx.Node) -> Tensor:
    home, _, name = str(node.target).rpartition(".")
    return cast("Tensor", getattr(module.get_submodule(home), name)).detach()
