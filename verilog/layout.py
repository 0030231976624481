"""How images travel: a row of the stream is a pixel, and holds its channels; the host sends them so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from model.errors import EmitError
from model.graph import Node, Ref, out_port
from verilog.lower import Lowering
from verilog.signal import Signal
from verilog.templates.reorder import Reorder


def argument(node: Node, name: str, position: int, default: Any = None) -> Any:
    """An option of an op: a module's attribute, or a function's argument by name or place."""
    if name in node.attrs:
        return node.attrs[name]
    if name in node.kwargs:
        return node.kwargs[name]
    return node.args[position] if len(node.args) > position and node.call == "call_function" else default


def by_pixel(shape: tuple[int, ...]) -> np.ndarray:
    """Which element of a [channels, …] tensor travels where when each pixel brings its channels."""
    channels = shape[0]
    return np.arange(int(np.prod(shape))).reshape(channels, -1).T.reshape(-1)


def pixels(low: Lowering, node: Node, ref: Ref, par: int | None = None) -> tuple[Signal, np.ndarray]:
    """A [channels, …] operand as a stream of pixels, `par` channels a beat, and the channels in their order."""
    if ref.node in low.host:
        shape = low.shape(low.graph.nodes[ref.node], out_port(ref.output))
        signal = low.from_host(node, ref, "data_in", par or 1, index=by_pixel(shape).reshape(-1, shape[0]))
    else:
        signal = low.operand(node, ref, "data_in")
    channels = signal.shape[0]
    found = order(signal, channels)
    if found is None:
        signal = reordered(low, node, signal, by_pixel(signal.shape), channels)
        found = np.arange(channels)
    signal = cut(low, node, signal, channels)
    return low.resize(node, signal, signal.stream.par if par is None else par), found


def rows_of(low: Lowering, node: Node, ref: Ref, par: int, tokens: int = 1) -> Signal:
    """An operand as rows of its last axis, where need be cut so from the same beats, such as an image's pixels."""
    if ref.node in low.host:
        return low.operand(node, ref, "data_in", par, tokens)
    signal = low.operand(node, ref, "data_in")
    size = signal.shape[-1] if signal.shape else 1
    if signal.stream.size != size:
        signal = cut(low, node, signal, size)
    return low.resize(node, signal, par, tokens)


def reordered(low: Lowering, node: Node, signal: Signal, index: np.ndarray, size: int) -> Signal:
    """The signal with its elements in the order `index`, one a beat, in rows of `size`; as it is where it is so."""
    if (signal.index == index).all():
        return cut(low, node, signal, size)
    signal = low.resize(node, signal, 1, 1)
    place = np.empty(signal.index.size, np.int64)
    place[signal.index] = np.arange(signal.index.size)
    out = replace(signal.stream, rows=index.size // size, size=size)
    made = Reorder(name=low.free(f"{node.id}_reorder"), node=node.id, inputs=(signal.stream,), outputs=(out,),
                   beats=place[index], shape=signal.shape)  # fmt: skip
    return Signal(low.add(made, (signal.wire,)), out, signal.shape, index)


def order(signal: Signal, channels: int) -> np.ndarray | None:
    """The channels in the order in which every pixel brings them; None where a signal does not come pixel by pixel."""
    count = signal.index.size // channels
    places = signal.index.reshape(count, channels)
    found = places[0] // count
    return found if (places == found * count + np.arange(count)[:, None]).all() else None


def cut(low: Lowering, node: Node, signal: Signal, size: int) -> Signal:
    """The same beats as rows of `size` elements, one row at a time."""
    now = signal.stream
    if now.size == size and now.tokens == 1:
        return signal
    par = now.par if size % now.par == 0 else int(np.gcd(now.par, size))
    signal = low.resize(node, signal, par, 1)
    return replace(signal, stream=replace(signal.stream, rows=now.elements // size, size=size))


def refused(node: Node, what: str, hint: str) -> EmitError:
    """The error for an option of an op that hardware does not have."""
    return EmitError(f"{node.id} ({node.op}) has {what}, for which there is no hardware.", hint, node.id)
