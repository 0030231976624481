"""Reads a folder back whose model is no model of transformers, on each of its ranks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.model.borders import read_json, reading
from espalier.model.document.graph_json import graph_from_json
from espalier.model.errors import ExportError
from espalier.model.leftovers import scratch
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build
from espalier.passes.distributed.distribute import distribute
from espalier.passes.distributed.interpreter import ShardedModel
from espalier.passes.export.loading import MASK
from espalier.passes.running.example import batch_sizes, example_inputs

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed.device_mesh import DeviceMesh

GRAPH, CHECKPOINT = "graph.json", "checkpoint"


def load_sharded(folder: Path, mesh: DeviceMesh) -> ShardedModel:
    """The model with this rank's parts. It takes whole inputs and gives whole results. Raises ExportError.

    Each rank reads whole tensors first and keeps its parts.
    """
    import torch
    from torch.distributed.checkpoint import state_dict_loader
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader

    from espalier.model.torch.tensors import to_numpy

    with reading(folder, ExportError, "holds no sharded model", "Write it again by shard --emit."):
        graph = graph_from_json(read_json(folder / GRAPH))
        reader = HuggingFaceStorageReader(str(folder / CHECKPOINT))
        entries: dict[str, Any] = dict(reader.read_metadata().state_dict_metadata)
        tensors: dict[str, Any] = {n: torch.empty(e.size, dtype=e.properties.dtype) for n, e in entries.items()}
        state_dict_loader.load(tensors, storage_reader=reader, no_dist=True)
    with scratch() as place:
        store = WeightStore(place)
        held = {name: store.hold(to_numpy(value)) for name, value in tensors.items()}
        missing = [n for n in graph.weights if n not in held] + [n for n in held if n.startswith(MASK)
                                                                and held[n] != n.removeprefix(MASK)]  # fmt: skip
        if missing:
            raise ExportError(f"{folder} is damaged: {missing[0]} is missing.", "Write it again by shard --emit.")
        module: Any = build(graph, store)
        distribute(module, graph, mesh)
    return ShardedModel(module.to(mesh.device_type), graph, mesh)


def example_of(folder: Path, batch: int, seed: int = 0) -> dict[str, Tensor]:
    """Valid random inputs of the model, equal for equal seeds. Raises ExportError."""
    with reading(folder, ExportError, "holds no sharded model", "Write it again by shard --emit."):
        graph = graph_from_json(json.loads((folder / GRAPH).read_text(encoding="utf-8")))
    return example_inputs(graph, batch_sizes(graph, batch), seed)
