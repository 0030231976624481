"""Rotates the residual stream of a transformer by a random Hadamard matrix, which spreads outliers over channels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Weight
from espalier.model.graph.ports import weight_at
from espalier.model.store.weights import WeightStore
from espalier.passes.base import Context, Report, Row, transform
from espalier.passes.recovery.layers import Layer
from espalier.passes.recovery.residual import NORMS, Stream, Unrotatable, stream_of

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class RotateOptions:
    """None: the seed of the step draws the signs."""


@transform("rotate", "Rotate the residual stream", RotateOptions)
def rotate(graph: Graph, options: RotateOptions, context: Context) -> tuple[Graph, Report]:
    """Replace the residual stream x by xQ, Q a randomised Hadamard matrix, in the weights; results stay the same.

    Gains of RMSNorms go into the Linears that read them and become 1. Then the embedding becomes EQ, Linears that read
    the stream WQ, and Linears that add to it QᵀW with bias Qᵀb (QuaRot, Ashkboos et al. 2024, arXiv:2404.00456, section
    4, stage 1a). Outliers of single channels are spread over all, so that weights and activations round with less
    error. Run it before quantising with scales. An output layer that shares the embedding gets a weight of its own.
    Rotations inside of attention and MLP, which need operations at run time, are not inserted.
    """
    from espalier.passes.recovery.channel_scales import difference_on
    from espalier.passes.recovery.hadamard import random_rotation
    from espalier.passes.running.example import example_inputs

    stream = _stream(graph)
    q, kind = random_rotation(stream.size, context.seed)
    work = _Rotation(graph, stream, q, context.store)
    for i, name in enumerate(steps := [*stream.readers, *stream.writers]):
        context.progress(i, len(steps), f"rotating {name}")
        work.read(name) if i < len(stream.readers) else work.write(name)
    work.finish()
    rows: tuple[Row, ...] = tuple(
        {"node": i, "peak_before": _peak(graph, i, context.store), "peak": _peak(work.graph, i, context.store)}
        for i in dict.fromkeys(steps)
    )
    summary: Row = {"channels": stream.size, "matrix": kind, "readers": len(stream.readers),
                    "writers": len(stream.writers), "gains": len(stream.gains), "untied": work.untied,
                    "float_difference": difference_on(graph, work.graph, example_inputs(graph), context)}  # fmt: skip
    return work.graph, Report("rotate", rows, summary)


def _stream(graph: Graph) -> Stream:
    if graph.runs == "module":
        raise PassError("This model was recorded from a run, so its residual stream is unknown.",
                        "Open a model that torch.export can capture.")  # fmt: skip
    if any(w.key is None for w in graph.weights.values()):
        raise PassError("The model was opened without weights, so there is nothing to rotate.", "Open it with weights.")
    try:
        return stream_of(graph)
    except Unrotatable as error:
        raise PassError(f"The residual stream cannot be rotated: {error}.", NORMS, error.node.id) from error


class _Rotation:
    """Changes weights one by one, in float64, stored in their own types. `untied`: output layers with a copy."""

    def __init__(self, graph: Graph, stream: Stream, q: Tensor, store: WeightStore) -> None:
        self.graph, self.stream, self.q, self.store = graph, stream, q, store
        self.untied = 0

    def read(self, node: str) -> None:
        """W → W·diag(gains)·Q."""
        self._own(node)
        layer, matrix, like = self._matrix(node)
        for name in self.stream.readers[node]:
            matrix = matrix * self._get(name).double()
        self._set(layer, matrix @ self.q, like)

    def write(self, node: str) -> None:
        """W → QᵀW, b → Qᵀb."""
        layer, matrix, like = self._matrix(node)
        self._set(layer, self.q.T @ matrix, like)
        bias = weight_at(self.graph.nodes[node], "bias", self.graph)
        if bias is not None:
            held = self._get(bias)
            self._hold(bias, (held.double() @ self.q).to(held.dtype))

    def finish(self) -> None:
        """The embedding, and gains of 1."""
        name = self.stream.embedding
        held = self._get(name)
        self._hold(name, (held.double() @ self.q).to(held.dtype))
        for gain in self.stream.gains:
            self._hold(gain, self._get(gain) * 0 + 1)

    def _own(self, node: str) -> None:
        """Give a reader that shares the embedding's tensor one of its own."""
        old = self.graph.nodes[node]
        shared = weight_at(old, "weight", self.graph)
        if shared != self.stream.embedding or "weight" not in old.weights:
            return
        wish = f"{old.target}.weight"
        name = wish if wish not in self.graph.weights else f"{wish}_rotated"
        weight = self.graph.weights[self.stream.embedding]
        self.graph = self.graph.replace(replace(old, weights={**old.weights, "weight": name}))
        self.graph = self.graph.with_weights({name: replace(weight)})
        self.untied += 1

    def _matrix(self, node: str) -> tuple[Layer, Tensor, Tensor]:
        from espalier.passes.recovery.layers import matrix_of

        found = self.graph.nodes[node]
        layer = Layer(weight_at(found, "weight", self.graph) or "", (found,))
        like = self._get(layer.name)
        return layer, matrix_of(layer, like.double()).double(), like

    def _set(self, layer: Layer, matrix: Tensor, like: Tensor) -> None:
        from espalier.passes.recovery.layers import weight_of

        self._hold(layer.name, weight_of(layer, matrix, like))

    def _get(self, name: str) -> Tensor:
        from espalier.model.torch.tensors import to_torch

        return to_torch(self.store.get(self.graph.weights[name].key or ""))

    def _hold(self, name: str, value: Tensor) -> None:
        from espalier.model.torch.tensors import to_numpy

        weight: Weight = self.graph.weights[name]
        self.graph = self.graph.with_weights({name: replace(weight, key=self.store.hold(to_numpy(value.contiguous())))})


def _peak(graph: Graph, node: str, store: WeightStore) -> float | None:
    """The largest magnitude of a weight over its root mean square."""
    from espalier.model.torch.tensors import to_torch

    found: Node = graph.nodes[node]
    name = weight_at(found, "weight", graph)
    value = to_torch(store.get(graph.weights[name].key or "")).float() if name else None
    rms = float(value.square().mean().sqrt()) if value is not None else 0.0
    return float(value.abs().max()) / rms if value is not None and rms else None
