"""A sharded checkpoint of torch.distributed.checkpoint, written by one process: a safetensors file per rank."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner import SavePlan, TensorWriteData, WriteItem, WriteItemType

if TYPE_CHECKING:
    from torch import Tensor

Placements = tuple[str, ...]


class _Parts(DefaultSavePlanner):
    """Gives the part of a tensor that an item of the plan names. Planners of torch read DTensors of a process group."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)
        self._tensors = tensors

    def resolve_data(self, write_item: WriteItem) -> Tensor:
        """The part as a tensor of its own."""
        assert write_item.tensor_data is not None
        chunk = write_item.tensor_data.chunk
        part = self._tensors[write_item.index.fqn].detach()
        for dim, (start, size) in enumerate(zip(chunk.offsets, chunk.sizes, strict=True)):
            part = part.narrow(dim, start, size)
        return part.clone().contiguous()


def write_parts(
    folder: Path, tensors: Mapping[str, Tensor], placements: Mapping[str, Placements], mesh: Sequence[int]
) -> None:
    """Write a checkpoint of `tensors` into `folder`, each with one placement per axis of the mesh.

    Each rank has a file with its parts. What several ranks would write is written once, by the one with the fewest
    bytes. A dimension that an axis does not divide stays whole. Raises OSError.
    """
    writer, planner = HuggingFaceStorageWriter(str(folder), save_distributed=True), _Parts(tensors)
    writer.reset(str(folder))
    writer.set_up_storage_writer(is_coordinator=True)
    ranks = itertools.product(*map(range, mesh))
    plans = [SavePlan([_item(n, t, placements[n], mesh, rank) for n, t in tensors.items()]) for rank in ranks]
    plans, metadata = planner.create_global_plan(plans)
    results: list[Any] = []
    for plan in writer.prepare_global_plan([writer.prepare_local_plan(p) for p in plans]):
        results.append(writer.write_data(plan, planner).wait())
    writer.finish(metadata, results)


def _item(name: str, tensor: Tensor, placement: Placements, mesh: Sequence[int], rank: Sequence[int]) -> WriteItem:
    sizes, offsets = list(tensor.shape), [0] * tensor.dim()
    for text, count, index in zip(placement, mesh, rank, strict=True):
        if text.startswith("S") and sizes[dim := int(text[1:])] % count == 0:
            sizes[dim] //= count
            offsets[dim] += index * sizes[dim]
    start, size = type(tensor.shape)(offsets), type(tensor.shape)(sizes)
    data = TensorWriteData(
        chunk=ChunkStorageMetadata(offsets=start, sizes=size),
        properties=TensorProperties.create_from_tensor(tensor),
        size=tensor.shape,
    )
    return WriteItem(index=MetadataIndex(name, start), type=WriteItemType.SHARD, tensor_data=data)
