"""Orders of elements in streams: images as pixels of all channels, rows, reordering and gathering.

A row of an image's stream is a pixel with its channels; the host sends images in this order.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from espalier.model.errors import EmitError
from espalier.model.graph.graph import Node, Ref, out_port
from espalier.verilog.design.address_loops import as_loops
from espalier.verilog.design.signal import Signal, rows_and_size
from espalier.verilog.lowering.lower import Lowering
from espalier.verilog.templates.gather import Gather
from espalier.verilog.templates.reorder import Reorder

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
    signal = cut(low, node, signal, channels)
    return low.resize(node, signal, signal.stream.par if par is None else par), channel_order


def rows_of(low: Lowering, node: Node, ref: Ref, par: int, tokens: int = 1) -> Signal:
    """An operand as rows of its last axis; streams with other rows, such as pixels, are divided anew or reordered."""
    if ref.node in low.host:
        return low.operand(node, ref, "data_in", par, tokens)
    signal = low.operand(node, ref, "data_in")
    size = signal.shape[-1] if signal.shape else 1
    if signal.stream.size != size:
        signal = cut(low, node, signal, size)
    if signal.repeated is None and not _in_rows(signal, size):  # such as a product along tokens
        signal = reordered(low, node, signal, np.arange(signal.index.size), size)
    return low.resize(node, signal, par, tokens)


def _in_rows(signal: Signal, size: int) -> bool:
    """Whether the elements of each row are contiguous, in the same order in all rows."""
    places = signal.index.reshape(-1, size)
    rows = places // size
    return bool((places % size == places[0] % size).all() and (rows == rows[:, :1]).all())


def reordered(low: Lowering, node: Node, signal: Signal, index: np.ndarray, size: int) -> Signal:
    """The signal with its elements in the order `index`, in rows of `size`; without hardware if they already are."""
    if (signal.index == index).all():
        return cut(low, node, signal, size)
    return gathered(low, node, signal, signal.places[index], signal.shape, index, size)


def gathered(low: Lowering, node: Node, signal: Signal, places: np.ndarray, shape: tuple[int, ...],
             index: np.ndarray, size: int, pad: int = 0) -> Signal:  # fmt: skip
    """A tensor of `shape` whose stream, in rows of `size`, holds the elements at `places`; −1: the code `pad`.

    A beat has as many elements as stay together. Addresses come from nested loops if possible, else from a table.
    """
    now = signal.stream
    fits = (p for p in range(now.par, 0, -1) if now.par % p == 0 and size % p == 0 and _together(places, p))
    par = next(fits)
    signal = low.resize(node, signal, par, 1)
    beats = np.where(places[::par] < 0, -1, places[::par] // par)
    out = replace(signal.stream, rows=places.size // size, size=size)
    loops = (beats >= 0).all() and as_loops(beats) is not None
    name = low.free(f"{node.id}_{'reorder' if loops else 'gather'}")
    rest: dict[str, Any] = {"name": name, "node": node.id, "inputs": (signal.stream,), "outputs": (out,),
                            "beats": beats, "shape": shape}  # fmt: skip
    instance = Reorder(**rest, part=signal.stream.beats) if loops else Gather(**rest, pad=pad)
    return Signal(low.add(instance, (signal.wire,)), out, shape, index)


def _together(places: np.ndarray, par: int) -> bool:
    """Whether beats of `par` elements stay together."""
    groups = places.reshape(-1, par)
    whole = (groups[:, :1] % par == 0) & (groups == groups[:, :1] + np.arange(par))
    return bool((whole | (groups < 0)).all() and ((groups < 0).all(1) | (groups >= 0).all(1)).all())


def expanded(low: Lowering, node: Node, signal: Signal) -> Signal:
    """The signal with repeated elements, if it has any, as elements of the stream."""
    if signal.repeated is None:
        return signal
    size = rows_and_size(signal.shape)[1]
    return gathered(low, node, signal, signal.places, signal.shape, np.arange(signal.places.size), size)


def order(signal: Signal, channels: int) -> np.ndarray | None:
    """The order of the channels in every pixel; None if the signal is not in pixel order."""
    count = signal.index.size // channels
    places = signal.index.reshape(count, channels)
    first = places[0] // count
    return first if (places == first * count + np.arange(count)[:, None]).all() else None


def cut(low: Lowering, node: Node, signal: Signal, size: int) -> Signal:
    """The same elements as rows of `size`, one row per beat."""
    now = signal.stream
    if now.size == size and now.tokens == 1:
        return signal
    par = now.par if size % now.par == 0 else int(np.gcd(now.par, size))
    signal = low.resize(node, signal, par, 1)
    return replace(signal, stream=replace(signal.stream, rows=now.elements // size, size=size))


def unsupported(node: Node, what: str, hint: str) -> EmitError:
    """The error for an option of an op that the hardware does not support."""
    return EmitError(f"{node.id} ({node.op}) has {what}, which the hardware does not support.", hint, node.id)
