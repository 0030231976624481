"""Orders of elements in streams: images as pixels of all channels, rows, reordering and gathering.

A row of an image's stream is a pixel with its channels; the host sends images in this order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from espalier.model.errors import EmitError
from espalier.model.graph.graph import Node, Ref, out_port
from espalier.verilog.design.signal import Signal
from espalier.verilog.lowering.builder import reordered, resize_rows
from espalier.verilog.lowering.lower import Lowering

BATCH_AXIS = "an operation along the batch axis"  # for `unsupported`


def argument(node: Node, name: str, position: int, default: Any = None) -> Any:
    """An option of an op: a module's attribute, or a function's argument by name or position."""
    if name in node.attrs:
        return node.attrs[name]
    if name in node.kwargs:
        return node.kwargs[name]
    return node.args[position] if len(node.args) > position and node.call == "call_function" else default


def by_pixel(shape: tuple[int, ...]) -> np.ndarray:
    """Element indices of a [channels, …] tensor in pixel order, all channels of a pixel together."""
    channels = shape[0]
    return np.arange(int(np.prod(shape))).reshape(channels, -1).T.reshape(-1)


def pixels(
    low: Lowering, node: Node, ref: Ref, par: int | None = None, shape: tuple[int, ...] = ()
) -> tuple[Signal, np.ndarray]:
    """A [channels, …] operand as a stream of pixels, `par` channels per beat, and the order of the channels.

    `shape`: the shape to read it as, if not its own.
    """
    if ref.node in low.host:
        shape = shape or low.shape(low.graph.nodes[ref.node], out_port(ref.output))
        signal = low.from_host(node, ref, "data_in", par or 1, index=by_pixel(shape).reshape(-1, shape[0]))
    else:
        signal = low.operand(node, ref, "data_in")
    signal = signal.viewed(np.arange(math.prod(shape)).reshape(shape)) if shape else signal
    channels = signal.shape[0]
    channel_order = order(signal, channels)
    if channel_order is None:
        signal = reordered(low, node, signal, by_pixel(signal.shape), channels)
        channel_order = np.arange(channels)
    signal = resize_rows(low, node, signal, channels)
    return low.resize(node, signal, signal.stream.par if par is None else par), channel_order


def rows_of(low: Lowering, node: Node, ref: Ref, par: int, tokens: int = 1) -> Signal:
    """An operand as rows of its last axis; streams with other rows, such as pixels, are divided anew or reordered."""
    if ref.node in low.host:
        return low.operand(node, ref, "data_in", par, tokens)
    signal = low.operand(node, ref, "data_in")
    size = signal.shape[-1] if signal.shape else 1
    if signal.stream.size != size:
        signal = resize_rows(low, node, signal, size)
    if signal.repeated is None and not _in_rows(signal, size):  # such as a product along tokens
        signal = reordered(low, node, signal, np.arange(signal.index.size), size)
    return low.resize(node, signal, par, tokens)


def _in_rows(signal: Signal, size: int) -> bool:
    """Whether the elements of each row are contiguous, in the same order in all rows."""
    places = signal.index.reshape(-1, size)
    rows = places // size
    return bool((places % size == places[0] % size).all() and (rows == rows[:, :1]).all())


def order(signal: Signal, channels: int) -> np.ndarray | None:
    """The order of the channels in every pixel; None if the signal is not in pixel order."""
    count = signal.index.size // channels
    places = signal.index.reshape(count, channels)
    first = places[0] // count
    return first if (places == first * count + np.arange(count)[:, None]).all() else None


def unsupported(node: Node, what: str, hint: str) -> EmitError:
    """The error for an option of an op that the hardware does not support."""
    return EmitError(f"{node.id} ({node.op}) has {what}, which the hardware does not support.", hint, node.id)
