"""The model as hardware computes it: the host part in float, then integers; it runs where a built module does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from espalier.model.errors import EmitError
from espalier.model.graph.graph import Graph, Ref
from espalier.model.store.weights import WeightStore
from espalier.model.symbols import evaluate
from espalier.model.torch.build import Callables, build
from espalier.verilog.design.host_part import ENOUGH, blank, feeding
from espalier.verilog.design.netlist import Boundary, Design, Wire
from espalier.verilog.numbers.fixed import Codes


class Host(nn.Module):
    """What stays on the host: the model's inputs → the codes at the design's inputs."""

    def __init__(self, graph: Graph, store: WeightStore, design: Design, callables: Callables | None = None) -> None:
        super().__init__()
        self.design = design
        self.shapes = {n.target: n.ports["data_out"].shape for n in graph.placeholders if n.out}

        self.part = host_part(graph, design)
        self.module = build(self.part, store, callables)

    @torch.no_grad()
    def forward(self, **inputs: Tensor) -> tuple[Codes, ...]:
        """Codes [frames, rows, size] of each input of the design."""
        frames = len(next(iter(inputs.values())))
        given = self.padded(inputs)
        rest = [n.target for n in self.part.placeholders if n.target not in self.shapes]
        values = self.module(**given, **blank(self.part, rest, {**self.design.symbols, "batch": frames}))
        found = list(values) if isinstance(values, tuple | list) else [values]
        return tuple(_codes(b, v, frames) for b, v in zip(self.design.inputs, found, strict=True))

    def padded(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Inputs made as long as the design takes them, by zeros behind."""
        return {name: self._padded(name, value) for name, value in inputs.items()}

    def _padded(self, name: str, value: Tensor) -> Tensor:
        """An input made as long as the design takes it, by zeros behind."""
        pads: list[int] = []
        for axis, dim in reversed(list(enumerate(self.shapes.get(name, ())))):
            want = evaluate(dim, self.design.symbols) if isinstance(dim, str) and axis else value.shape[axis]
            if value.shape[axis] > want:
                text = f"{name} has {value.shape[axis]} along {dim}; the design takes {want}."
                raise EmitError(text, f"Emit it with sizes {dim}={value.shape[axis]}, or cut the data.")
            pads += [0, want - value.shape[axis]]
        return nn.functional.pad(value, pads) if any(pads) else value


def host_part(graph: Graph, design: Design) -> Graph:
    """The graph of the nodes that feed the design, with those as its outputs."""
    return feeding(graph, (Ref(b.node, b.output) for b in design.inputs))


def _codes(boundary: Boundary, values: Tensor, frames: int) -> Codes:
    flat = values.detach().to(torch.float64).numpy()
    if boundary.axis and flat.ndim > boundary.axis and flat.shape[boundary.axis] == frames:
        flat = np.moveaxis(flat, boundary.axis, 0)
    shape = boundary.shape
    alone = flat.shape[:1] != (frames,) or flat.shape == shape  # the same for all frames
    full = (
        np.broadcast_to(flat, (frames, *(shape if flat.size == int(np.prod(shape)) else flat.shape[1:])))
        if alone
        else flat
    )
    if full[0].size != int(np.prod(shape)):
        came, takes = ("×".join(map(str, s)) for s in (full.shape[1:], shape))
        text = f"{boundary.node} is {came} here; the design takes {takes}."
        raise EmitError(text, "Emit it for these sizes, or pad the inputs.", boundary.node)
    placed = full.reshape(frames, -1)[:, boundary.index]
    if boundary.mask:
        placed = _blocked(boundary, placed)
    codes = boundary.stream.fixed.encode(placed, boundary.rounding)
    return codes.reshape(frames, boundary.stream.rows, boundary.stream.size)


def _blocked(boundary: Boundary, values: np.ndarray) -> np.ndarray:
    """1 where a mask that is added lets nothing through, 0 where it changes nothing."""
    low = values <= ENOUGH
    if (values[~low] != 0).any():
        text = f"{boundary.node} adds {float(values[~low].min()):g} to scores, which is neither 0 nor a mask."
        raise EmitError(text, "Use masks of 0 and -inf (or below -10 000).", boundary.node)
    return low.astype(np.float64)


def tensors(design: Design, outputs: tuple[Codes, ...]) -> list[Tensor]:
    """Codes at the design's outputs → the tensors that they stand for, frames where the model has its samples."""
    found = []
    for boundary, codes in zip(design.outputs, outputs, strict=True):
        flat = np.empty((len(codes), codes[0].size), np.float64)
        flat[:, boundary.index] = boundary.stream.fixed.values(codes).reshape(len(codes), -1)
        made = torch.from_numpy(flat.reshape(len(codes), *boundary.shape))
        found.append(made.movedim(0, boundary.axis).squeeze(boundary.axis + 1) if boundary.axis else made)
    return found


class Exact(nn.Module):
    """The whole model in exact arithmetic: what it gives is what the hardware gives."""

    def __init__(self, graph: Graph, store: WeightStore, design: Design, callables: Callables | None = None) -> None:
        super().__init__()
        self.host, self.design, self.graph = Host(graph, store, design, callables), design, graph

    def forward(self, **inputs: Tensor) -> Any:
        """The model's results, in its own structure."""
        codes = self.host(**inputs)
        wires = self.design.run(*codes)
        return structured(self.graph, tensors(self.design, self._ends(wires)))

    def _ends(self, wires: Mapping[Wire, Codes]) -> tuple[Codes, ...]:
        """The codes at the outputs, as their boundaries read them."""
        ends = zip(self.design.outputs, self.design.ends, strict=True)
        return tuple(b.stream.reads(self.design.stream(w), wires[w]) for b, w in ends)


def structured(graph: Graph, found: list[Tensor]) -> Any:
    """The results as the graph's own module returns them."""
    if graph.structure == "dict":
        named: Mapping[str, Tensor] = dict(zip(graph.output_names, found, strict=False))
        return dict(named)
    return found[0] if graph.structure == "tensor" else tuple(found)
