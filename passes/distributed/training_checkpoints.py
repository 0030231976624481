"""Checkpoints that all ranks write together, each its parts; a training resumes from them on any mesh."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.tensor import DTensor, distribute_tensor

from espalier.model.errors import FileError
from espalier.model.files import replacing_folder
from espalier.passes.base import Context
from espalier.passes.training.checkpoint import TRAINER, Checkpoints, Raw, Tensors, complete, read_state, write
from espalier.passes.training.checkpoint_folders import SHARDS
from espalier.passes.training.shards import Location, load_into, merged, names, parted


class RankCheckpoints(Checkpoints):
    """Checkpoints of DTensors. The parent has locked the folder; None: there are no checkpoints.

    `parameters`: weight names in the order of the optimiser's parameters.
    """

    def __init__(
        self, folder: Path | None, device: str, context: Context, tensors: Tensors, every: int, data: str
    ) -> None:
        self.usable, self.device = folder is not None, device
        self.parameters: list[str] = []
        super().__init__(folder or Path(), context, tensors, every, data)

    def name_parameters(self, trainer: Any) -> None:
        """Note the names of the optimiser's parameters, in its order."""
        known = {id(t): n for n, t in reversed(self.tensors().items())}
        groups: Any = trainer.create_optimizer().param_groups
        self.parameters = [known[id(p)] for group in groups for p in group["params"]]

    def _acquire(self) -> bool:
        return self.usable

    def end(self, finished: bool) -> None:
        """The folder belongs to the parent."""

    def clear_others(self, new: Path | None = None) -> None:
        """Delete all checkpoints but one."""
        dist.barrier()
        if dist.get_rank() == 0:
            super().clear_others(new)
        dist.barrier()

    def get(self, folder: Path) -> Raw:
        """A checkpoint's content with this rank's parts; raises an exception on all ranks or on none."""
        content, fault = Raw(), None
        try:
            content = self._read(folder)
        except Exception as error:  # noqa: BLE001  # any defect; the others must know of it
            fault = error
        if self._one(fault is not None):
            raise ValueError("a rank could not read its part") from fault
        return content

    def _read(self, folder: Path) -> Raw:
        content = complete(read_state(folder))
        found = names(content)
        if found:
            tensors = load_into(folder / SHARDS, lambda name, size, dtype: self._empty(found[name], size, dtype))
            content = merged(content, tensors)
        return self._distributed(content)

    def _like(self, path: Location) -> Tensor | None:
        """The trained tensor that a value of a checkpoint belongs to."""
        trained = self.tensors()
        match path:
            case ("weights", name) | ("parts", "watch", "kept", name):
                return trained.get(name)
            case ("optimiser", "state", int() as index, _):
                return trained[self.parameters[index]]
            case _:
                return None

    def _empty(self, path: Location, size: torch.Size, dtype: torch.dtype) -> Tensor:
        like = self._like(path)
        if isinstance(like, DTensor) and like.shape == size:
            return torch.empty_like(like.detach(), dtype=dtype)
        return torch.empty(size, dtype=dtype)

    def _distributed(self, value: Any, path: Location = ()) -> Any:
        """Tensors that belong to a trained one, in its placements."""
        if isinstance(value, Mapping):
            return {k: self._distributed(v, (*path, k)) for k, v in value.items()}
        if isinstance(value, Tensor) and not isinstance(value, DTensor):
            like = self._like(path)
            if isinstance(like, DTensor) and like.shape == value.shape:
                whole = value.to(like.device)
                return distribute_tensor(whole, like.device_mesh, like.placements, src_data_rank=None)
        return value

    def _due(self, state: Any, control: Any) -> bool:
        return self._agreed(super()._due(state, control))

    def _agreed(self, value: bool) -> bool:
        """What rank 0 says: clocks of ranks differ."""
        flag = torch.tensor(int(value), device=self.device)
        dist.broadcast(flag, 0)
        return bool(flag)

    def _one(self, value: bool) -> bool:
        """Whether it is true on any rank."""
        flag = torch.tensor(int(value), device=self.device)
        dist.all_reduce(flag, dist.ReduceOp.MAX)
        return bool(flag)

    def put(self, new: Path, content: Raw, state: Any) -> None:
        """Write a checkpoint as a whole; raises FileError, on all ranks or on none."""
        fault: FileError | None = None
        try:
            write_together(new, content, state)
        except FileError as error:
            fault = error
        if self._one(fault is not None):
            raise fault or FileError("another rank could not write its part.", "Free space on its disk.")


def write_together(new: Path, content: Raw, state: Any = None) -> None:
    """Write a folder by all ranks: DTensors in parts, all else by rank 0. Raises FileError."""
    parts: dict[str, Tensor] = {}
    plain = parted(content, lambda t: isinstance(t, DTensor), parts)
    if dist.get_rank():
        where: list[Any] = [None]
        dist.broadcast_object_list(where, 0)
        if where[0]:
            _save(Path(where[0]), parts)
        return
    sent = False
    try:
        with replacing_folder(new) as folder:
            dist.broadcast_object_list([str(folder)], 0)
            sent = True
            _save(folder, parts)
            write(folder, plain)
            if state is not None:
                state.save_to_json(str(folder / TRAINER))
    finally:
        if not sent:
            dist.broadcast_object_list([None], 0)


def _save(folder: Path, parts: dict[str, Tensor]) -> None:
    """Write the parts; raises FileError where any rank cannot."""
    from torch.distributed.checkpoint.api import CheckpointException

    try:
        save(dict(parts), storage_writer=HuggingFaceStorageWriter(str(folder / SHARDS), save_distributed=True))
    except CheckpointException as error:
        cause = next(iter(error.failures.values()))[0]
        raise FileError(f"{folder.parent} cannot be written ({cause}).", "Free space on its disk.") from error
