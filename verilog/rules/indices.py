"""Indexing ops: transposes and repeats only change a signal's order, slices drop beats, others gather."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from espalier.model.graph.graph import Node, Ref
from espalier.verilog.design.signal import Signal, rows_and_size
from espalier.verilog.lowering.builder import gather_positions
from espalier.verilog.lowering.lower import Lowering, lowers
from espalier.verilog.lowering.signal_order import argument, by_pixel, order, unsupported
from espalier.verilog.templates.reorder import Pick


@lowers("transpose", "permute", "t", "mT", "numpy_T", "movedim", "moveaxis", "swapaxes", "swapdims", "select", "slice",
        "narrow", "expand", "expand_as", "repeat_interleave", "repeat", "tile", "flip", "roll", "rot90", "diagonal",
        "index", "index_select", "unfold", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle")  # fmt: skip
def by_index(low: Lowering, node: Node) -> None:
    """Any indexing op: it is run on element indices."""
    x = low.operand(node, node.inputs[0], "data_in")
    low.publish(node, select_elements(low, node, x, _picked(low, node)))


@lowers("interpolate")
def resized(low: Lowering, node: Node) -> None:
    """Nearest-neighbour interpolation, by gathering."""
    if argument(node, "mode", 99, "nearest") != "nearest" or "linear" in node.target or "cubic" in node.target:
        raise unsupported(node, "another mode than nearest", "Use mode='nearest'.")
    x = low.operand(node, node.inputs[0], "data_in")
    low.publish(node, gather_elements(low, node, x, _picked(low, node)))


def padded_by_gathering(low: Lowering, node: Node) -> None:
    """Padding in any mode, by gathering."""
    sides = [int(n) for n in argument(node, "pad", 1, argument(node, "padding", 1, ()))]
    value, mode = argument(node, "value", 3, 0) or 0, str(argument(node, "mode", 2, "constant"))
    if min(sides, default=0) < 0:
        raise unsupported(node, "negative padding", "Slice instead.")
    x = low.operand(node, node.inputs[0], "data_in")
    code = int(x.fixed.encode(np.asarray(float(value))))
    if mode == "constant" and float(x.fixed.values(np.asarray(code))) != float(value):
        raise unsupported(node, f"padding of {value}, inexact in {x.fixed.label}", "Choose another format.")
    import torch

    sizes = node.ports["data_in"].sizes(low.symbols)
    indices = torch.arange(int(np.prod(sizes)), dtype=torch.float64).reshape(sizes)
    options = {"value": -1.0} if mode == "constant" else {}
    picked = torch.nn.functional.pad(indices, sides, mode=mode, **options).numpy().astype(np.int64)
    low.publish(node, gather_elements(low, node, x, picked.reshape(low.shape(node)), code))


def _picked(low: Lowering, node: Node) -> np.ndarray:
    """The index in one sample of the operand of each element of the result."""
    import torch

    sizes = node.ports["data_in"].sizes(low.symbols)
    indices = torch.arange(int(np.prod(sizes)), dtype=torch.float64).reshape(sizes)
    if node.call == "call_module":
        picked = _module(node)(indices)
    else:
        from espalier.model.torch.targets import function_of

        arguments = [_number(low, node, arg) for arg in node.args[1:]]
        options = {k: _number(low, node, arg) for k, arg in node.kwargs.items()}
        picked = function_of(node.target)(indices, *arguments, **options)
    return picked.numpy().astype(np.int64).reshape(low.shape(node))


def _module(node: Node) -> Any:
    """The torch module of a data-moving node."""
    from torch import nn

    if node.op == "interpolate":
        return nn.Upsample(node.attrs.get("size"), node.attrs.get("scale_factor"))  # type: ignore[arg-type]
    if node.op != "pixel_shuffle":
        raise unsupported(node, "the form of a module", "Write it as a function.")
    return nn.PixelShuffle(node.attrs["upscale_factor"])  # type: ignore[arg-type]


def _number(low: Lowering, node: Node, arg: Any) -> Any:
    """An argument with its references to constants replaced by their values."""
    import torch

    if isinstance(arg, tuple | list):
        return [_number(low, node, a) for a in arg]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(arg, Ref):
        return arg
    value = low.value(arg)
    if value is None:
        raise unsupported(node, f"an argument computed by {arg.node}", "Use constant sizes.")
    integers = torch.from_numpy(np.asarray(value)).to(torch.int64)
    return integers if integers.ndim else int(integers)


def select_elements(low: Lowering, node: Node, x: Signal, picked: np.ndarray) -> Signal:
    """The elements `picked` of a signal: a view if all are used, else by dropping beats or by gathering."""
    used = np.unique(picked)
    if used.size == x.index.size or x.repeated is not None:
        return x.viewed(picked)
    if used.size < picked.size:
        return gather_elements(low, node, x, picked)
    mask = np.isin(x.index, used)
    par = next(p for p in range(x.stream.par, 0, -1) if x.stream.par % p == 0 and _uniform(mask, p))
    beats = mask[::par]
    edges = np.flatnonzero(np.diff(np.concatenate([[0], beats.astype(np.int8), [0]])))
    starts, counts = edges[::2], edges[1::2] - edges[::2]
    period, remainder = divmod(len(beats), len(starts))
    if remainder or (starts != starts[0] + np.arange(len(starts)) * period).any() or (counts != counts[0]).any():
        return gather_elements(low, node, x, picked)
    x = low.resize(node, x, par, 1)
    out = replace(x.stream, rows=len(starts), size=int(counts[0]) * par)
    instance = Pick(name=low.free(node.id), node=node.id, inputs=(x.stream,), outputs=(out,), shape=picked.shape,
                    period=period, start=int(starts[0]), count=int(counts[0]))  # fmt: skip
    positions = np.full(x.index.size, -1)
    positions[picked.reshape(-1)] = np.arange(picked.size)
    return Signal(low.add(instance, (x.wire,)), out, picked.shape, positions[x.index[mask]])


def gather_elements(low: Lowering, node: Node, x: Signal, picked: np.ndarray, pad: int = 0) -> Signal:
    """Any elements of a signal as a new stream (−1: the code `pad`), in pixel order if x is."""
    channels = x.shape[0] if len(x.shape) > 1 else 0
    by_pixels = picked.ndim > 1 and channels > 1 and x.repeated is None and order(x, channels) is not None
    index = by_pixel(picked.shape) if by_pixels else np.arange(picked.size)
    size = picked.shape[0] if by_pixels else rows_and_size(picked.shape)[1]
    flat = picked.reshape(-1)[index]
    positions = np.where(flat < 0, -1, x.places[flat])
    return gather_positions(low, node, x, positions, picked.shape, index, size, pad)


def _uniform(mask: np.ndarray, par: int) -> bool:
    """Whether the mask is constant within each beat of `par` elements."""
    groups = mask.reshape(-1, par)
    return bool((groups == groups[:, :1]).all())
