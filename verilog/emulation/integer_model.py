"""The whole model in hardware arithmetic as a torch module: the host part in float, then the integer model."""

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
from espalier.model.torch.build import build
from espalier.model.torch.leaf_builder import Callables
from espalier.verilog.design.host_part import MASKED, ancestor_graph, zero_inputs
from espalier.verilog.design.netlist import Boundary, Design, Wire
from espalier.verilog.numbers.fixed import Codes


class Host(nn.Module):
    """The host part as a module: the model's inputs → the codes at the design's inputs."""

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
        padded = self.padded(inputs)
        others = [n.target for n in self.part.placeholders if n.target not in self.shapes]
        values = self.module(**padded, **zero_inputs(self.part, others, {**self.design.symbols, "batch": frames}))
        results = list(values) if isinstance(values, tuple | list) else [values]
        return tuple(_codes(b, v, frames) for b, v in zip(self.design.inputs, results, strict=True))

    def padded(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Inputs zero-padded at the end to the design's sizes."""
        return {name: self._padded(name, value) for name, value in inputs.items()}

    def _padded(self, name: str, value: Tensor) -> Tensor:
        """An input zero-padded at the end to the design's sizes; raises EmitError if it is longer."""
        pads: list[int] = []
        for axis, dim in reversed(list(enumerate(self.shapes.get(name, ())))):
            want = evaluate(dim, self.design.symbols) if isinstance(dim, str) and axis else value.shape[axis]
            if value.shape[axis] > want:
                text = f"{name} has {value.shape[axis]} along {dim}; the design takes {want}."
                raise EmitError(text, f"Emit with sizes {dim}={value.shape[axis]}, or truncate the data.")
            pads += [0, want - value.shape[axis]]
        return nn.functional.pad(value, pads) if any(pads) else value


def host_part(graph: Graph, design: Design) -> Graph:
    """The subgraph that computes the design's inputs."""
    return ancestor_graph(graph, (Ref(b.node, b.output) for b in design.inputs))


def _codes(boundary: Boundary, values: Tensor, frames: int) -> Codes:
    flat = values.detach().to(torch.float64).numpy()
    if boundary.axis and flat.ndim > boundary.axis and flat.shape[boundary.axis] == frames:
        flat = np.moveaxis(flat, boundary.axis, 0)
    shape = boundary.shape
    unbatched = flat.shape[:1] != (frames,) or flat.shape == shape  # no batch axis
    full = (
        np.broadcast_to(flat, (frames, *(shape if flat.size == int(np.prod(shape)) else flat.shape[1:])))
        if unbatched
        else flat
    )
    if full[0].size != int(np.prod(shape)):
        actual, expected = ("×".join(map(str, s)) for s in (full.shape[1:], shape))
        text = f"{boundary.node} is {actual} here; the design takes {expected}."
        raise EmitError(text, "Emit for these sizes, or pad the inputs.", boundary.node)
    placed = full.reshape(frames, -1)[:, boundary.index]
    if boundary.mask:
        placed = _mask_bits(boundary, placed)
    codes = boundary.stream.fixed.encode(placed, boundary.rounding)
    return codes.reshape(frames, boundary.stream.rows, boundary.stream.size)


def _mask_bits(boundary: Boundary, values: np.ndarray) -> np.ndarray:
    """1 where an additive mask is at most MASKED, 0 where it is 0; raises EmitError for other values."""
    low = values <= MASKED
    if (values[~low] != 0).any():
        text = f"{boundary.node} adds {float(values[~low].min()):g} to scores, which is not a mask value."
        raise EmitError(text, "Use masks of 0 and -inf (or below -10 000).", boundary.node)
    return low.astype(np.float64)


def tensors(design: Design, outputs: tuple[Codes, ...]) -> list[Tensor]:
    """Codes at the design's outputs → their tensors, with frames along the model's batch axis."""
    results = []
    for boundary, codes in zip(design.outputs, outputs, strict=True):
        flat = np.empty((len(codes), codes[0].size), np.float64)
        flat[:, boundary.index] = boundary.stream.fixed.values(codes).reshape(len(codes), -1)
        result = torch.from_numpy(flat.reshape(len(codes), *boundary.shape))
        results.append(result.movedim(0, boundary.axis).squeeze(boundary.axis + 1) if boundary.axis else result)
    return results


class IntegerModel(nn.Module):
    """The whole model with the hardware's arithmetic; its results are bit-exact."""

    def __init__(self, graph: Graph, store: WeightStore, design: Design, callables: Callables | None = None) -> None:
        super().__init__()
        self.host, self.design, self.graph = Host(graph, store, design, callables), design, graph

    def forward(self, **inputs: Tensor) -> Any:
        """Results in the model's output structure."""
        codes = self.host(**inputs)
        wires = self.design.run(*codes)
        return structured(self.graph, tensors(self.design, self._ends(wires)))

    def _ends(self, wires: Mapping[Wire, Codes]) -> tuple[Codes, ...]:
        """Codes at the outputs, in the rows of their boundaries."""
        ends = zip(self.design.outputs, self.design.ends, strict=True)
        return tuple(b.stream.reads(self.design.stream(w), wires[w]) for b, w in ends)


def structured(graph: Graph, results: list[Tensor]) -> Any:
    """The results in the graph's output structure: a tensor, a tuple or a dict."""
    if graph.structure == "dict":
        by_name: Mapping[str, Tensor] = dict(zip(graph.output_names, results, strict=False))
        return dict(by_name)
    return results[0] if graph.structure == "tensor" else tuple(results)
