"""Reads torch.export files (.pt2) without running their code; torch.export.load unpickles and evaluates.

Every member comes through one reader of zip files, so that what was checked is what is used. Tensors are raw bytes;
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
from espalier.model.sources.pt2.rules import Json, checked, results_of

if TYPE_CHECKING:
    from torch import Tensor
    from torch.export import ExportedProgram

MOST_EXPANDED = 1 << 28  # bytes of a tensor that repeats a smaller one
LARGEST_TEXT = 1 << 30  # bytes of the program; a 70B Llama's has some megabytes


class Unsafe(ValueError):
    """The file could run code; `args[0]` describes it, as the end of a sentence."""


def read_program(path: Path) -> ExportedProgram:
    """The program in a .pt2 file, with its example inputs.

    Raises Unsafe where the file holds pickled objects or compiled code, ValueError and what zipfile and torch raise
    where it is damaged.
    """
    with opened_zip(path) as (archive, _):
        members = _Members(archive, path.stat().st_size)
        program = _program(members)
        tensors = _tensors(members, "weights", "weight_")
        constants = _tensors(members, "constants", "tensor_")
        inputs = _inputs(members)
    return _made(program, tensors, constants, inputs)


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
    return checked(members.json("models/model.json"))


def _tensors(members: _Members, folder: str, prefix: str) -> dict[str, Tensor]:
    """Name → tensor of the weights or the constants; tensors of one payload share their memory."""
    config = members.json(f"data/{folder}/model_{folder}_config.json")["config"]
    raw: dict[str, bytearray] = {}
    found: dict[str, Tensor] = {}
    for name, entry in cast("dict[str, Json]", config).items():
        place = entry["path_name"]
        if entry["use_pickle"] or not str(place).startswith(prefix):
            raise Unsafe("its weights are pickled" if folder == "weights" else "it holds pickled objects")
        if place not in raw:
            raw[place] = bytearray(members.read(f"data/{folder}/{place}"))
        found[name] = _tensor(raw[place], entry)
    return found


def _tensor(raw: bytearray, entry: Json) -> Tensor:
    """A view of the payload's bytes. Raises RuntimeError if it exceeds them."""
    import torch
    from torch._export.serde.serialize import deserialize_scalar_type

    meta = entry["tensor_meta"]
    dtype = deserialize_scalar_type(meta["dtype"])
    sizes, strides = ([_whole(n) for n in meta[k]] for k in ("sizes", "strides"))
    if not raw:
        if 0 not in sizes:
            raise ValueError("a tensor of it is missing")
        value = torch.empty(sizes, dtype=dtype)
    else:
        flat = torch.frombuffer(raw, dtype=dtype)
        value = torch.as_strided(flat, sizes, strides, _whole(meta["storage_offset"]))
    if value.numel() * value.element_size() > max(len(raw), MOST_EXPANDED):  # strides of 0 repeat what is there
        raise ValueError("a tensor is far larger than its stored data")
    learns = bool(meta.get("requires_grad"))
    return torch.nn.Parameter(value, requires_grad=learns) if entry["is_param"] else value


def _whole(value: Mapping[str, Any]) -> int:
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
        found = torch.load(io.BytesIO(raw), weights_only=True)
    except pickle.UnpicklingError as error:
        raise Unsafe("its example inputs cannot be read as plain tensors") from error
    if not found:  # torch writes an empty dict where there are none
        return None
    args, kwargs = found
    return tuple(args), dict(kwargs)


def _made(
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

    for home in results_of(program):  # torch reads no structure of an unknown class
        importlib.import_module(home)
    told = _dict_to_dataclass(schema.ExportedProgram, program)
    return ExportedProgramDeserializer({}).deserialize(told, tensors, constants, inputs)
