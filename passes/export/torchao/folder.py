"""Writes the folder: transformers' own file with weights replaced by the parts of torchao's tensors, and their kinds.

The layout is that of torchao.prototype.safetensors (0.18): parts by name, and what joins them in the file's metadata.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.model.errors import ExportError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ports import choice
from espalier.model.sources.torchao import package
from espalier.model.store.weights import WeightStore
from espalier.passes.export.settings import Settings
from espalier.passes.export.smaller_config import kept_layers, renumbered
from espalier.passes.export.targets.torchao import Scheme, rounding, scheme_of
from espalier.passes.export.torchao.configs import config_by_module
from espalier.passes.export.torchao.tensors import tensor_of
from espalier.passes.export.transformers_folder import (
    Folder,
    Unread,
    check_results,
    coded_row,
    compare_model,
    float_row,
    loaded,
    masked_weight,
    module_nodes,
    owners,
    write_coded,
)

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.model.document.project import Project

TARGET = "torchao"
OLDEST = (0, 18)  # version whose layout is written
FILE = "model.safetensors"
PLAIN = json.dumps({"_type": "Tensor"})


def check_package() -> None:
    """Raise ExportError where torchao is not installed, or too old."""
    install = "Install it: pip install 'espalier[torchao]'."
    if importlib.util.find_spec("torchao") is None:
        raise ExportError("The export needs the package torchao, which is not installed.", install)
    found = version("torchao")
    if tuple(int(part) for part in found.split(".")[:2]) < OLDEST:
        raise ExportError(f"The export needs torchao {'.'.join(map(str, OLDEST))}, and {found} is installed.", install)


def write_folder(project: Project, store: WeightStore, folder: Path, settings: Settings) -> Folder:
    """Write the folder, and run it by transformers. Raises ExportError before anything is written."""
    check_package()
    coded = any(scheme_of(node, project.graph) for node in project.graph)
    return write_coded(TARGET, project, store, folder, settings, _read_back, coded, rounded_otherwise(project.graph))


def _read_back(project: Project, store: WeightStore, model: Any, part: Path, inexact: bool) -> Folder:
    """Write the folder with the names that transformers reads; `inexact`: inputs are rounded by another rule."""
    modules, why = list(_modules(project, model)), ""
    for original in (True, False):
        try:
            made = _write(project.graph, store, model, modules, part, original)
            again = loaded(part)
            _check_weights(again, modules)
            made.compared = compare_model(again, project.graph, store)
            check_results(made.compared, inexact=inexact)
            return made
        except Unread as error:
            why = why or str(error)
    raise ExportError(f"transformers does not open the folder ({why[:160]}), so it is not written.",
                      "Leave a head that is tied to an embedding in float, or export it as ONNX.")  # fmt: skip


def _write(graph: Graph, store: WeightStore, model: Any, modules: list[Module], part: Path, original: bool) -> Folder:
    """`original`: with the names of tensors that the class saves, which may differ from its own."""
    from safetensors.torch import load_file, save_file
    from transformers.utils import logging

    logging.disable_progress_bar()
    model.save_pretrained(part, max_shard_size="1TB", save_original_format=original)
    flatten = package("prototype.safetensors.safetensors_support").flatten_tensor_state_dict
    held, rows, joined = load_file(part / FILE), list[dict[str, Any]](), dict[str, str]()
    coded: dict[str, Tensor] = {}
    for module in modules:
        name = next((f"{path}.weight" for path in module.paths if f"{path}.weight" in held), None)
        if name is None:
            raise Unread(f"it stores {module.paths[0]}.weight under another name")
        del held[name]
        parts, kinds = flatten({name: _tensor(module, graph, store)})
        coded |= parts
        joined[name] = kinds[name]
        rows.append(coded_row(name.removesuffix(".weight"), module.node, module.scheme.tensor, parts))
    rows += [float_row(name, value) for name, value in held.items()]
    joined |= {name: PLAIN for name in held if "." in name}  # torchao's reader splits names at their last dot
    save_file(held | coded, part / FILE, {"format": "pt", **joined, "tensor_names": json.dumps(list(joined))})
    _write_config(part / "config.json", {path: m.scheme for m in modules for path in m.paths})
    return Folder([], [], rows)


def _tensor(module: Module, graph: Graph, store: WeightStore) -> Tensor:
    chosen = choice(module.node, "weight")
    assert chosen is not None
    seen, scale = masked_weight(module.node, graph, store)
    try:
        return tensor_of(chosen.format, seen, scale, module.scheme, module.value)
    except ExportError as error:
        raise ExportError(f"{module.node.id} weight: {error.message}", error.hint, module.node.id) from error


def _write_config(path: Path, schemes: dict[str, Scheme]) -> None:
    """Add to a `config.json` what torchao's quantiser would be told."""
    config = json.loads(path.read_text(encoding="utf-8"))
    told = package("core.config").config_to_dict(config_by_module(schemes))
    config["quantization_config"] = {
        "quant_method": TARGET, "quant_type": {"default": told},
        "modules_to_not_convert": None, "include_input_output_embeddings": True, "untie_embedding_weights": False,
    }  # fmt: skip
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _check_weights(model: Any, modules: list[Module]) -> None:
    """Raise Unread where a loaded weight is no tensor of torchao with the values of the format."""
    import torch

    kind = package("utils").TorchAOBaseTensor
    for module in modules:
        for path in module.paths:
            weight = model.get_submodule(path).weight
            if not isinstance(weight, kind):
                raise Unread(f"it reads {path}.weight as float")
            if not torch.equal(weight.dequantize(), module.value):
                raise Unread(f"it reads other values of {path}.weight")


# -- modules


@dataclass(frozen=True, slots=True)
class Module:
    """The weight of a module of transformers that becomes a tensor of torchao, and the node that computes with it.

    `paths`: all modules that have it; `value`: as it takes part in the arithmetic.
    """

    paths: tuple[str, ...]
    node: Node
    scheme: Scheme
    value: Any


def schemes(project: Project) -> dict[str, Scheme]:
    """Path → scheme of the modules whose weights become tensors of torchao."""
    kept = kept_layers(project.base, project.graph)
    found = ((node, scheme_of(node, project.graph)) for node in project.graph)
    return {renumbered(node.target, kept): scheme for node, scheme in found if scheme}


def _modules(project: Project, model: Any) -> Iterator[Module]:
    """One for each weight: a tensor rounds the inputs of all Linear modules that share it, and none of an Embedding."""
    nodes, seen = module_nodes(project, model, scheme_of, TARGET), set[int]()
    shared = owners(model)
    for path, node in nodes.items():
        weight = model.get_submodule(path).weight
        if id(weight) in seen:
            continue
        seen.add(id(weight))
        paths = shared[id(weight)]
        users = [p for p in paths if type(model.get_submodule(p)).__name__ == "Linear"]
        found = {p: scheme_of(nodes[p], project.graph) if p in nodes else None for p in users or (path,)}
        scheme = next(iter(found.values())) or scheme_of(node, project.graph)
        assert scheme is not None
        if any((s.inputs if s else None) != scheme.inputs for s in found.values()):
            raise ExportError(f"{' and '.join(found)} have one weight, and their inputs different formats.",
                              "Choose the same formats for their inputs.", node.id)  # fmt: skip
        yield Module(tuple(paths), node, scheme, weight.detach())


def rounded_otherwise(graph: Graph) -> list[str]:
    """What torchao rounds otherwise, with the number of modules."""
    found: dict[tuple[str, str], int] = {}
    for node in graph:
        scheme, chosen = scheme_of(node, graph), node.precision.get("data_in")
        if scheme and scheme.inputs and chosen:
            key = chosen.format.label, rounding(chosen.format)
            found[key] = found.get(key, 0) + 1
    return [f"torchao rounds the inputs of {n} modules ({label}) by another rule: {text}."
            for (label, text), n in found.items()]  # fmt: skip
