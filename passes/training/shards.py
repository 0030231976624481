"""Tensors of a checkpoint that several ranks have written: safetensors files of torch.distributed.checkpoint."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint import state_dict_loader
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader

SHARD = "#shard"  # the key of a mapping that stands for such a tensor
Location = tuple[Any, ...]  # keys that lead to a value
Raw = dict[str, Any]


def parted(value: Any, apart: Callable[[Tensor], bool], parts: dict[str, Tensor], path: Location = ()) -> Any:
    """Nested values; tensors for which `apart` is true go to `parts`, and a mapping with their name replaces them."""
    match value:
        case Tensor() if apart(value):
            name = "/".join(map(str, path))
            parts[name] = value
            return {SHARD: name}
        case Mapping():
            return {k: parted(v, apart, parts, (*path, k)) for k, v in value.items()}
        case _:
            return value


def names(value: Any, path: Location = ()) -> dict[str, Location]:
    """Name of each tensor that is written apart → where it belongs."""
    match value:
        case {"#shard": name}:
            return {name: path}
        case Mapping():
            return {n: p for k, v in value.items() for n, p in names(v, (*path, k)).items()}
        case _:
            return {}


def merged(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    """The reverse of `parted`; raises KeyError for a missing tensor."""
    match value:
        case {"#shard": name}:
            return tensors[name]
        case Mapping():
            return {k: merged(v, tensors) for k, v in value.items()}
        case _:
            return value


def load_whole(folder: Path) -> dict[str, Tensor]:
    """Each tensor of a folder, whole, in one process."""
    return load_into(folder, lambda name, size, dtype: torch.empty(size, dtype=dtype))


def load_into(folder: Path, empty: Callable[[str, torch.Size, torch.dtype], Tensor]) -> dict[str, Tensor]:
    """The tensors of a folder in what `empty` returns for (name, size, dtype): of a DTensor this rank's part."""
    reader = HuggingFaceStorageReader(str(folder))
    entries: dict[str, Any] = dict(reader.read_metadata().state_dict_metadata)
    tensors = {n: empty(n, e.size, e.properties.dtype) for n, e in entries.items()}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled")  # it says so where that is asked for
        state_dict_loader.load(dict(tensors), storage_reader=reader, no_dist=True)
    return tensors
