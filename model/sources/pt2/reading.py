"""Reads torch.export files (.pt2) without running their code; torch.export.load unpickles and evaluates.

Every member is read by one zip reader, so that the checked bytes are the used ones. Tensors are raw bytes;
example inputs are unpickled with weights_only; the program is checked by `rules`.
"""

from __future__ import annotations

import importlib
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from espalier.model.borders import opened_zip, parse_json
from espalier.model.sources.pt2.rules import Json, checked_program, results_of

if TYPE_CHECKING:
    from torch import Tensor
    from torch.export import ExportedProgram

MOST_EXPANDED = 1 << 28  # largest tensor that repeats a smaller one, in bytes
LARGEST_TEXT = 1 << 30  # bytes of the program; that of a 70B Llama has a few megabytes


class Unsafe(ValueError):
    """The file could run code; `args[0]` describes it, as the end of a sentence."""


def read_program(path: Path) -> ExportedProgram:
    """The program in a .pt2 file, with its example inputs.

    Raises Unsafe for files with pickled objects or compiled code, and ValueError or the exceptions of zipfile and torch
    for damaged ones.
    """
    with opened_zip(path) as (archive, _):
        members = _Members(archive, path.stat().st_size)
        program = _program(members)
        tensors = _tensors(members, "weights", "weight_")
        constants = _tensors(members, "constants", "tensor_")
        inputs = _inputs(members)
    return _build_program(program, tensors, constants, inputs)


class _Members:
    """The members of an archive under its one top folder, each stored once and uncompressed, as torch writes them."""

    def __init__(self, archive: zipfile.ZipFile, size: int) -> None:
        self._archive = archive
        infos = [i for i in archive.infolist() if not i.is_dir()]
        tops = {i.filename.partition("/")[0] for i in infos}
        if len(tops) != 1 or len({i.filename for i in infos}) != len(infos):
            raise ValueError("its members lie in more than one folder, or twice")
        if any(i.compress_type != zipfile.ZIP_STORED for i in infos):
            raise ValueError("it is compressed")
        if any(i.file_size > size for i in infos):
            raise ValueError("a member of it is longer than the file")
        self.top = tops.pop()
        self.names = {i.filename.removeprefix(f"{self.top}/"): i.file_size for i in infos}
        for name in self.names:
            _check_member(name)

    def read(self, name: str) -> bytes:
        """The bytes of a member. Raises KeyError if it is missing."""
        return self._archive.read(f"{self.top}/{name}")

    def json(self, name: str) -> Any:
        """A member's JSON."""
        if self.names[name] > LARGEST_TEXT:
            raise ValueError("its program is too large")
        return parse_json(self.read(name))


def _check_member(name: str) -> None:
    if name.startswith(("data/aotinductor/", "data/executorch/", "data/mtia")):
        raise Unsafe("it holds compiled code")
    if name.startswith("data/weights/") and name.endswith((".pt", ".bin", ".pkl")):
        raise Unsafe("its weights are pickled")
    if name.startswith("data/constants/") and not name.endswith(".json") and "/tensor_" not in name:
        raise Unsafe("it holds pickled objects")


def _program(members: _Members) -> Json:
    if members.read("archive_format") != b"pt2":
        raise ValueError("it is another kind of archive")
    if "models/model.json" not in members.names:
        raise ValueError("it holds no program of the name 'model'")
    return checked_program(members.json("models/model.json"))


def _tensors(members: _Members, folder: str, prefix: str) -> dict[str, Tensor]:
    """Name → tensor of the weights or the constants; tensors of one payload share their memory."""
    config = members.json(f"data/{folder}/model_{folder}_config.json")["config"]
    raw: dict[str, bytearray] = {}
    tensors: dict[str, Tensor] = {}
    for name, entry in cast("dict[str, Json]", config).items():
        path = entry["path_name"]
        if entry["use_pickle"] or not str(path).startswith(prefix):
            raise Unsafe("its weights are pickled" if folder == "weights" else "it holds pickled objects")
        if path not in raw:
            raw[path] = bytearray(members.read(f"data/{folder}/{path}"))
        tensors[name] = _tensor(raw[path], entry)
    return tensors


def _tensor(raw: bytearray, entry: Json) -> Tensor:
    """A view of the payload's bytes. Raises RuntimeError if it exceeds them."""
    import torch
    from torch._export.serde.serialize import deserialize_scalar_type

    meta = entry["tensor_meta"]
    dtype = deserialize_scalar_type(meta["dtype"])
    sizes, strides = ([_as_integer(n) for n in meta[k]] for k in ("sizes", "strides"))
    if not raw:
        if 0 not in sizes:
            raise ValueError("a tensor of it is missing")
        value = torch.empty(sizes, dtype=dtype)
    else:
        flat = torch.frombuffer(raw, dtype=dtype)
        value = torch.as_strided(flat, sizes, strides, _as_integer(meta["storage_offset"]))
    if value.numel() * value.element_size() > max(len(raw), MOST_EXPANDED):  # strides of 0 repeat stored data
        raise ValueError("a tensor is far larger than its stored data")
    learns = bool(meta.get("requires_grad"))
    return torch.nn.Parameter(value, requires_grad=learns) if entry["is_param"] else value


def _as_integer(value: Mapping[str, Any]) -> int:
    number = value["as_int"]
    if type(number) is not int or number < 0:
        raise ValueError("a tensor of it has a size that is none")
    return number


def _inputs(members: _Members) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The example inputs; only tensors and plain values."""
    import pickle

    import torch

    raw = members.read("data/sample_inputs/model.pt")
    if not raw:
        return None
    try:
        inputs = torch.load(io.BytesIO(raw), weights_only=True)
    except pickle.UnpicklingError as error:
        raise Unsafe("its example inputs cannot be read as plain tensors") from error
    if not inputs:  # torch writes an empty dict for none
        return None
    args, kwargs = inputs
    return tuple(args), dict(kwargs)


def _build_program(
    program: Json,
    tensors: dict[str, Tensor],
    constants: dict[str, Tensor],
    inputs: tuple[tuple[Any, ...], dict[str, Any]] | None,
) -> ExportedProgram:
    from torch._export.serde import schema
    from torch._export.serde.serialize import (
        ExportedProgramDeserializer,
        _dict_to_dataclass,  # pyright: ignore[reportPrivateUsage]
    )

    for home in results_of(program):  # torch cannot read structures of unknown classes
        importlib.import_module(home)
    exported = _dict_to_dataclass(schema.ExportedProgram, program)
    return ExportedProgramDeserializer({}).deserialize(exported, tensors, constants, inputs)
