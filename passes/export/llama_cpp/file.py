"""Writes a GGUF file with the codes of the formats, and runs it by transformers' own reader of GGUF."""

from __future__ import annotations

import contextlib
import importlib.util
import io
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from espalier.model.errors import ExportError, first_line
from espalier.model.files import check_target, filling, make_folder
from espalier.model.formats.base import Array
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ports import choice
from espalier.model.graph.views import view_at
from espalier.model.store.weights import WeightStore
from espalier.passes.export.checkpoint import model_of
from espalier.passes.export.compare import Compared, compare
from espalier.passes.export.effective_weights import effective_weights
from espalier.passes.export.llama_cpp.architectures import Architecture, architecture_of, check_type, scaling
from espalier.passes.export.llama_cpp.blocks import blocks_of
from espalier.passes.export.llama_cpp.vocabulary import Vocabulary, vocabulary_of
from espalier.passes.export.settings import Settings
from espalier.passes.export.smaller_config import kept_layers, renumbered
from espalier.passes.export.targets import checked
from espalier.passes.export.targets.gguf import weight_type
from espalier.passes.export.tied_weights import weights_alone
from espalier.passes.verify import tensors

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.model.document.project import Project

TARGET = "gguf"
FLOATS = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
FILE_TYPES = {"F32": 0, "F16": 1, "BF16": 32, "Q4_0": 2, "Q5_0": 8, "Q8_0": 7, "MXFP4": 38}  # llama_ftype


@dataclass(slots=True)
class File:
    """What was written: the file, notes, a row for each tensor, and how results of transformers compare."""

    path: Path
    notes: list[str]
    tensors: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    compared: Compared | None = None


def write_gguf(project: Project, store: WeightStore, path: Path, settings: Settings) -> File:
    """Write the file. Raises ExportError before anything is written."""
    if importlib.util.find_spec("gguf") is None:
        raise ExportError("The export needs the package gguf, which is not installed.",
                          "Install it: pip install 'espalier[gguf]'.")  # fmt: skip
    path = path if path.suffix == ".gguf" else path.with_name(f"{path.name}.gguf")
    check_type((project.source.limits.architecture or None) if project.source.limits else None)
    left = checked(TARGET, project.graph, leave_float=settings.leave_float)
    make_folder(path.parent, ExportError)
    check_target(path, ExportError)
    settings.progress(0, 3, "reading the source")
    with filling(path.parent, ExportError) as part:
        model, why, notes = model_of(project, dict(effective_weights(project.graph, store)), store, part)
        if model is None:
            raise ExportError(
                f"transformers has no model like this{f': {why}' if why else ', as it is none of its classes'}.",
                "Export it as packed.",
            )
        architecture = architecture_of(model.config)
        vocabulary = vocabulary_of(project, model.config, ids_only=settings.gguf.ids_only)
        made = File(path, [*notes, *vocabulary.notes])
        settings.progress(1, 3, "packing weights")
        stored = list(_stored(project, model, architecture, store))
        _write(part / path.name, stored, model.config, (architecture, vocabulary), project)
        settings.progress(2, 3, "running it in transformers")
        again, told = _again(project.graph, store, model, part / path.name)
        made.notes += told
        made.compared = _compared(project.graph, store, again)
    made.tensors = [s.row() for s in stored]
    made.notes += left
    made.notes += made.compared.notes if made.compared else ["The model runs at no size, so the file was not compared."]
    return made


# -- tensors


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor of the file: its names there and in transformers, its type and data (bytes for blocks)."""

    name: str
    parameter: str
    label: str
    kind: str
    data: Array

    def row(self) -> dict[str, Any]:
        """A row of the report."""
        return {"tensor": self.parameter, "name": self.name, "label": self.label, "stored": self.kind,
                "bytes": int(self.data.nbytes)}  # fmt: skip


def _stored(project: Project, model: Any, architecture: Architecture, store: WeightStore) -> Iterator[Stored]:
    import gguf

    nodes, owners = _nodes(project), _paths(model)
    number = next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == architecture.name)
    names: Any = gguf.get_tensor_name_map(number, model.config.num_hidden_layers)
    for parameter, value in model.named_parameters():
        name = names.get_name(parameter, try_suffixes=(".weight", ".bias"))
        if name is None:
            raise ExportError(f"GGUF has no name for {parameter} in the architecture {architecture.name}.",
                              "Export it as compressed-tensors or packed.")  # fmt: skip
        node = next((nodes[p] for p in owners.get(id(value), ()) if p in nodes), None)
        if node is None:
            yield _float(name, parameter, value.detach(), model.config, architecture)
        else:
            yield _coded(name, parameter, value.detach(), node, project.graph, store, (model.config, architecture))
    for name, data in architecture.tensors(model.config).items():
        yield Stored(name, "rope_parameters", "", "F32", data)


def _nodes(project: Project) -> dict[str, Node]:
    """Path of each module whose weight is stored as codes → its node."""
    graph, kept = project.graph, kept_layers(project.base, project.graph)
    found: dict[str, Node] = {}
    for node in graph:
        if isinstance(weight_type(node, graph), str):
            path = renumbered(node.target, kept)
            if found.setdefault(path, node).precision.get("weight") != node.precision.get("weight"):
                raise ExportError(f"{path} is called with different formats, and a file has one for a module.",
                                  "Choose the same formats for all calls of a module.", node.id)  # fmt: skip
    return found


def _paths(model: Any) -> dict[int, list[str]]:
    """Identity of each weight → paths of the modules that hold it."""
    found: dict[int, list[str]] = {}
    for path, value in model.named_parameters(remove_duplicate=False):
        if path.endswith(".weight"):
            found.setdefault(id(value), []).append(path.removesuffix(".weight"))
    return found


def _float(name: str, parameter: str, value: Tensor, config: Any, architecture: Architecture) -> Stored:
    """A tensor in its own type; vectors in float32, as llama.cpp wants them."""
    import gguf

    kind = FLOATS.get(str(value.dtype).removeprefix("torch."), "")
    if not kind:
        raise ExportError(f"{parameter} is {str(value.dtype).removeprefix('torch.')}, which GGUF does not hold.",
                          "Convert the model to float32 before it is opened.")  # fmt: skip
    kind = "F32" if value.ndim < 2 else kind
    array = architecture.rows(_turned(value, parameter, config).float().numpy(), config, name)
    data: Array = gguf.quants.quantize(array, gguf.GGMLQuantizationType[kind])
    return Stored(name, parameter, "", kind, data)


def _turned(value: Tensor, parameter: str, config: Any) -> Tensor:
    """[outputs, inputs] of GPT-2's Conv1D, whose weights are [inputs, outputs]."""
    turns = config.model_type == "gpt2" and value.ndim == 2 and ".h." in parameter
    return value.T.contiguous() if turns else value


def _coded(
    name: str, parameter: str, value: Tensor, node: Node, graph: Graph, store: WeightStore,
    target: tuple[Any, Architecture],
) -> Stored:  # fmt: skip
    import gguf
    import torch

    from espalier.model.torch.leaf_builder import effective
    from espalier.model.torch.tensors import to_torch

    (config, architecture), chosen, kind = target, choice(node, "weight"), weight_type(node, graph)
    assert chosen is not None and isinstance(kind, str)
    weight = to_torch(store.get(graph.weights[node.weights["weight"]].key or "")).clone()
    with torch.no_grad():
        seen = effective(replace(node, precision={}), "weight", graph, store)(weight).float().numpy()
    view = view_at(node, "weight")
    seen, want = (np.ascontiguousarray(a if view is None else view.of_array(a)) for a in (seen, value.float().numpy()))
    scale = None if chosen.scale is None else store.get(graph.weights[chosen.scale].key or "").float32()
    try:
        data = blocks_of(chosen.format, seen, scale, kind)
    except ExportError as error:
        raise ExportError(f"{node.id} weight: {error.message}", error.hint, node.id) from error
    read: Array = gguf.quants.dequantize(data, gguf.GGMLQuantizationType[kind])
    if not np.array_equal(torch.from_numpy(read).to(value.dtype).float().numpy(), want):
        raise ExportError(f"{node.id} weight: {chosen.format.label} is not the same in {kind}.",
                          "Leave it in float.", node.id)  # fmt: skip
    return Stored(name, parameter, chosen.format.label, kind, architecture.rows(data, config, name))


# -- the file


def _write(
    path: Path, stored: list[Stored], config: Any, says: tuple[Architecture, Vocabulary], project: Project
) -> None:
    """Write tensors and metadata."""
    import gguf

    architecture, vocabulary = says
    kinds: dict[str, int] = {}
    for tensor in stored:
        kinds[tensor.kind] = kinds.get(tensor.kind, 0) + tensor.data.nbytes
    writer: Any = gguf.GGUFWriter(path, architecture.name)
    writer.add_name(project.source.name)
    writer.add_file_type(FILE_TYPES[max(kinds, key=lambda k: kinds[k])])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    for key, value in architecture.describe(config).items():
        add = {float: writer.add_float32, int: writer.add_uint32, str: writer.add_string}[type(value)]
        add(f"{architecture.name}.{key}", value)
    vocabulary.write(writer)
    for tensor in stored:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=gguf.GGMLQuantizationType[tensor.kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# -- the proof


def load(path: Path, kind: Any, dtype: Any = None, config: Any = None) -> Any:
    """The model of a file as transformers reads it, in the class `kind`, its tensors decoded to `dtype`.

    `config`: in place of what the file says.
    """
    from espalier.model.sources.huggingface import quiet

    given = {} if config is None else {"config": config}
    whole = str(path.resolve())  # transformers takes a file of that name in the working folder first
    with quiet(), contextlib.redirect_stderr(io.StringIO()):
        return kind.from_pretrained(path.parent, gguf_file=whole, dtype=dtype, **given).eval()


CONFIGURED = "transformers computes the same only with config=… of the source; from the file alone: "
FAILURES = (RuntimeError, ValueError, TypeError, KeyError, AttributeError, NotImplementedError, OSError)


def _again(graph: Graph, store: WeightStore, model: Any, path: Path) -> tuple[Any, list[str]]:
    """The model read back, and a note where transformers needs its configuration besides.

    Raises ExportError where it does not compute what the weights compute.
    """
    scaled = scaling(model.config)
    why, alone = f"it reads no rotary embeddings of type {scaled}", weights_alone(graph)
    # Short inputs may not show that transformers computes others.
    for config in (model.config,) if scaled else (None, model.config):
        try:
            again = load(path, type(model), model.dtype, config)
        except FAILURES as error:
            why = _unread(error)
            continue
        found = _compared(alone, store, again)
        if found is None or (found.difference is not None and found.difference <= found.allowed):
            return again, [] if config is None else [f"{CONFIGURED}{why}."]
        why = found.notes[-1].rstrip(".")
    raise ExportError(f"transformers does not read the same model from the file ({why}), so it is not written.",
                      "Export it as compressed-tensors or packed.")  # fmt: skip


def _unread(error: BaseException) -> str:
    """Why transformers did not load the file; its own text on sizes speaks of a report that it has printed."""
    if "ignore_mismatched_sizes" in str(error):
        return "it expects weights of other sizes, and does not load it"
    return f"it does not load it ({type(error).__name__}: {first_line(error).rstrip('.')})"


def _compared(graph: Graph, store: WeightStore, again: Any) -> Compared | None:
    import torch

    def run(values: dict[str, Tensor]) -> list[Tensor]:
        with torch.no_grad():
            results = again(**values)
        return tensors([results[name] for name in graph.output_names if results.get(name) is not None])

    return compare(graph, store, run, "transformers")
