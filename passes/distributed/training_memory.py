"""The memory of a sharded training, before it starts: of a rank, and of all processes on this machine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import BITS
from espalier.model.memory import free
from espalier.passes.distributed.distribute import stored_placements
from espalier.passes.distributed.run import COPIES, mesh_of, weight_bytes
from espalier.passes.sharding.collectives import Placements, shards
from espalier.passes.sharding.kept import kept_bytes
from espalier.passes.sharding.options import batch_symbols
from espalier.passes.sharding.planned import amount

if TYPE_CHECKING:
    from espalier.passes.training.options import FinetuneOptions
    from espalier.passes.training.prepare import Prepared

TRAINER = (
    530 << 20
)  # bytes of a rank with Python, torch and the Trainer; measured: 495 MiB with a small model on Linux,
# 530 with what glibc does not return after a large one was split
KERNELS = 110 << 20  # of the compiler of fast formats, measured likewise
FILES = 2  # copies of its tensors that the writer of a safetensors file makes


@dataclass(frozen=True, slots=True)
class RankMemory:
    """Bytes of a rank. `loading`: the whole weights while they are split; `activations`: kept for the backward pass of
    a batch; `kept`: the best weights so far; `writing`: copies of a checkpoint; `process`: Python and its libraries."""

    weights: int
    gradients: int
    optimiser: int
    activations: int
    kept: int
    samples: int
    teacher: int
    loading: int
    writing: int
    process: int

    @property
    def peak(self) -> int:
        """The most at one time: while weights are split, in a step, or while a checkpoint is written."""
        always = self.process + self.samples + self.weights
        state = self.gradients + self.optimiser + self.kept + self.teacher
        return always + max(self.loading, state + max(self.activations, self.writing))

    def to_json(self) -> dict[str, int]:
        """Its parts and the peak."""
        return asdict(self) | {"peak_bytes": self.peak}


def predicted(
    graph: Graph, base: Graph | None, ready: Prepared, options: FinetuneOptions, device: str = "cpu"
) -> RankMemory:
    """The memory of each rank of a training of a sharded graph, with `base` as the teacher; on a GPU, of that GPU."""
    mesh, texts = mesh_of(graph).shape, stored_placements(graph)
    trained = {n for n, t in ready.trained().items() if t.requires_grad}
    weights = gradients = optimiser = 0
    for name, weight in graph.weights.items():
        at = texts.get(name, ("R",) * len(mesh))
        size = weight.elements * BITS.get(weight.dtype, 32) // 8 // shards(at, mesh)
        weights += size
        if name in trained:
            gradients += size
            optimiser += _state(weight.shape, at, mesh, options) * BITS.get(weight.dtype, 32) // 8
    kept = weights if ready.check_on is not None and options.keep != "last" else 0
    formats = any(n.precision for g in (graph, base) if g is not None for n in g)
    splits = [s.tensors for s in (ready.train_on, ready.check_on) if s is not None]
    return RankMemory(
        weights, gradients, optimiser, kept_bytes(graph, _sizes(graph, splits[0], options.batch_size)),
        kept,
        sum(t.nbytes for tensors in splits for t in tensors.values()),
        weight_bytes(base) if base is not None else 0, weight_bytes(graph),
        FILES * (weights + optimiser + kept), (TRAINER + KERNELS * formats) * (device == "cpu"),
    )  # fmt: skip


def _state(shape: tuple[int, ...], at: Placements, mesh: tuple[int, ...], options: FinetuneOptions) -> int:
    """Elements of the optimiser's state of a weight on a rank."""
    elements = math.prod(shape) // shards(at, mesh)
    if options.optimiser == "adamw":
        return 2 * elements
    if options.optimiser == "sgd":
        return elements if options.momentum else 0
    return math.prod(shape[:-1]) + math.prod((*shape[:-2], *shape[-1:])) if len(shape) > 1 else elements


def _sizes(graph: Graph, tensors: Mapping[str, Any], batch_size: int) -> dict[str, int]:
    """The sizes of the graph's symbols in a batch of these samples."""
    found: dict[str, int] = {}
    for node in graph.placeholders:
        value = tensors.get(node.target)
        if value is not None and node.out is not None:
            found |= {d: n for d, n in zip(node.out.shape, value.shape, strict=False) if isinstance(d, str)}
    return {k: v for k, v in found.items() if k in graph.symbols} | dict.fromkeys(batch_symbols(graph), batch_size)


def check_memory(need: RankMemory, graph: Graph) -> None:
    """Raise PassError for a training for which this machine has too little memory."""
    ranks = mesh_of(graph).devices
    total, present = ranks * need.peak + COPIES * weight_bytes(graph), free()
    if total > present:
        text = (f"A training by {ranks} processes needs about {amount(total)}, {amount(need.peak)} of each; "
                f"{amount(present)} are free.")  # fmt: skip
        raise PassError(text, "Lower batch_size with more accumulation, use adafactor, or close other programs.")
