"""The netlist under construction: instances and their wires, and what is put between two of them."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from espalier.model.graph.graph import Node
from espalier.verilog.design.address_loops import as_loops
from espalier.verilog.design.netlist import Wire
from espalier.verilog.design.signal import Signal, rows_and_size
from espalier.verilog.design.template import Template
from espalier.verilog.lowering.conversion import conversion
from espalier.verilog.lowering.widths import changes
from espalier.verilog.numbers.fixed import Fixed, Rounding
from espalier.verilog.templates.gather import Gather
from espalier.verilog.templates.reorder import Reorder
from espalier.verilog.templates.resize import Resize


class Builder:
    """Instances in the order in which they were added, and the wires that each reads."""

    def __init__(self) -> None:
        self.instances: list[Template] = []
        self.wires: dict[str, tuple[Wire, ...]] = {}

    def add(self, template: Template, inputs: tuple[Wire, ...]) -> Wire:
        """Add an instance, with a valid Verilog name; returns the wire of its first output."""
        if not (template.name.isascii() and template.name.isidentifier()):
            template = replace(template, name=self.free("n" + re.sub(r"\W", "_", template.name, flags=re.ASCII)))
        self.instances.append(template)
        self.wires[template.name] = inputs
        return Wire(template.name)

    def free(self, base: str) -> str:
        """An unused instance name."""
        names = {i.name for i in self.instances}
        return next(n for k in range(len(names) + 1) if (n := f"{base}_{k}" if k else base) not in names)

    def resize(self, node: Node, signal: Signal, par: int, tokens: int = 1) -> Signal:
        """The same stream with another number of elements or rows per beat."""
        wire = signal.wire
        for source, target, order in changes(signal.stream, par, tokens):
            kind = Resize if order is None else partial(Reorder, beats=order)
            name = self.free(f"{node.id}_resize")
            wire = self.add(kind(name=name, node=node.id, inputs=(source,), outputs=(target,)), (wire,))
        return replace(signal, wire=wire, stream=replace(signal.stream, par=par, tokens=tokens))

    def cast(self, node: Node, signal: Signal, fixed: Fixed, rounding: Rounding) -> Signal:
        """A signal in another format."""
        cast = conversion(self.free(f"{node.id}_cast"), node.id, signal.stream, fixed, rounding, signal.shape)
        return replace(signal, wire=self.add(cast, (signal.wire,)), stream=cast.outputs[0])


def reordered(builder: Builder, node: Node, signal: Signal, index: np.ndarray, size: int) -> Signal:
    """The signal with its elements in the order `index`, in rows of `size`; without hardware if they already are."""
    if (signal.index == index).all():
        return resize_rows(builder, node, signal, size)
    return gather_positions(builder, node, signal, signal.places[index], signal.shape, index, size)


def gather_positions(builder: Builder, node: Node, signal: Signal, positions: np.ndarray, shape: tuple[int, ...],
             index: np.ndarray, size: int, pad: int = 0) -> Signal:  # fmt: skip
    """A tensor of `shape` whose stream, in rows of `size`, holds the elements at `positions`; −1: the code `pad`.

    A beat has as many elements as stay together. Addresses come from nested loops if possible, else from a table.
    """
    stream = signal.stream
    widths = (
        p for p in range(stream.par, 0, -1) if stream.par % p == 0 and size % p == 0 and _beats_contiguous(positions, p)
    )
    par = next(widths)
    signal = builder.resize(node, signal, par, 1)
    beats = np.where(positions[::par] < 0, -1, positions[::par] // par)
    out = replace(signal.stream, rows=positions.size // size, size=size)
    loops = (beats >= 0).all() and as_loops(beats) is not None
    name = builder.free(f"{node.id}_{'reorder' if loops else 'gather'}")
    common: dict[str, Any] = {"name": name, "node": node.id, "inputs": (signal.stream,), "outputs": (out,),
                            "beats": beats, "shape": shape}  # fmt: skip
    instance = Reorder(**common, part=signal.stream.beats) if loops else Gather(**common, pad=pad)
    return Signal(builder.add(instance, (signal.wire,)), out, shape, index)


def _beats_contiguous(positions: np.ndarray, par: int) -> bool:
    """Whether beats of `par` elements stay together."""
    groups = positions.reshape(-1, par)
    contiguous = (groups[:, :1] % par == 0) & (groups == groups[:, :1] + np.arange(par))
    return bool((contiguous | (groups < 0)).all() and ((groups < 0).all(1) | (groups >= 0).all(1)).all())


def expanded(builder: Builder, node: Node, signal: Signal) -> Signal:
    """The signal with repeated elements, if it has any, as elements of the stream."""
    if signal.repeated is None:
        return signal
    size = rows_and_size(signal.shape)[1]
    return gather_positions(builder, node, signal, signal.places, signal.shape, np.arange(signal.places.size), size)


def resize_rows(builder: Builder, node: Node, signal: Signal, size: int) -> Signal:
    """The same elements as rows of `size`, one row per beat."""
    stream = signal.stream
    if stream.size == size and stream.tokens == 1:
        return signal
    par = stream.par if size % stream.par == 0 else int(np.gcd(stream.par, size))
    signal = builder.resize(node, signal, par, 1)
    return replace(signal, stream=replace(signal.stream, rows=stream.elements // size, size=size))
