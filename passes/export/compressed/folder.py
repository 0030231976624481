"""Writes the folder: transformers' own file with weights replaced by codes and scales, and the schemes beside them."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.model.errors import ExportError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ports import choice
from espalier.model.store.weights import WeightStore
from espalier.passes.export.compare import Compared
from espalier.passes.export.compressed.caches import UNROUNDED, cache_tensors, round_caches
from espalier.passes.export.compressed.codes import tensors_of
from espalier.passes.export.compressed.inputs import input_tensors, narrowed
from espalier.passes.export.settings import Settings
from espalier.passes.export.targets.compressed_tensors import Scheme, rounding, scheme_of
from espalier.passes.export.targets.compressed_tensors_args import Args
from espalier.passes.export.targets.kv_cache import cache_scheme
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

TARGET = "compressed-tensors"


def write_folder(project: Project, store: WeightStore, folder: Path, settings: Settings) -> Folder:
    """Write the folder, and run it by transformers. Raises ExportError before anything is written."""
    if importlib.util.find_spec("compressed_tensors") is None:
        raise ExportError("The export needs the package compressed-tensors, which is not installed.",
                          "Install it: pip install 'espalier[hf]'.")  # fmt: skip
    graph = project.graph
    coded = cache_scheme(graph) is not None or any(scheme_of(node, graph) for node in graph)
    return write_coded(TARGET, project, store, folder, settings, _read_back, coded, rounded_otherwise(graph))


def _read_back(project: Project, store: WeightStore, model: Any, part: Path, inexact: bool) -> Folder:
    """Write the folder in the first way that transformers opens; `inexact`: inputs are rounded by another rule.

    Some classes need names of tensors that they do not save by themselves, or weights that are not packed.
    """
    why = ""
    for whole in (False, True):
        modules = list(_modules(project, model, whole))
        for original in (True, False):
            try:
                made = _write(project, store, model, modules, part, original)
                made.compared = _compared(project.graph, store, part)
                check_results(made.compared, inexact=inexact)
            except Unread as error:
                why = why or str(error)
                continue
            if whole:
                made.notes.append(f"Each code takes 8 bits: packed, transformers does not open the folder ({why}).")
            return made
    raise ExportError(f"transformers does not open the folder ({why}), so it is not written.",
                      "Export it as packed or ONNX.")  # fmt: skip


def _write(
    project: Project, store: WeightStore, model: Any, modules: list[Module], part: Path, original: bool
) -> Folder:
    """`original`: with the names of tensors that the class saves, which may differ from its own."""
    from safetensors.torch import load_file, save_file
    from transformers.utils import logging

    logging.disable_progress_bar()
    model.save_pretrained(part, max_shard_size="1TB", save_original_format=original)
    path = part / "model.safetensors"
    held, rows, mine = load_file(path), list[dict[str, Any]](), set[str]()
    for module in modules:
        own = f"{module.path}.weight"
        tied = own not in held and module.tied
        if own not in held and not tied:
            raise Unread(f"it stores {own} under another name")
        held.pop(own, None)
        parts = coded(module, project.graph, store)
        named = {f"{module.path}.{k}": v for k, v in parts.items() if not (tied and k == "weight")}
        held |= named
        mine |= set(named)
        rows.append(coded_row(module.path, module.node, module.scheme.format, named))
    held |= cache_tensors(project, store, model.dtype)
    rows += [float_row(name, value) for name, value in held.items() if name not in mine]
    save_file(held, path, {"format": "pt"})
    write_config(part / "config.json", [(m.path, m.scheme) for m in modules], model, cache_scheme(project.graph))
    change = max((narrowed(m.node, m.scheme, project.graph, store, m.value.dtype) for m in modules), default=0.0)
    # Within rounding of the model's own float32, it is none of the type.
    notes = [f"Static scales of inputs lie in the model's type and differ by up to {change:.2g} of themselves."]
    return Folder([], notes if change > 1e-7 else [], rows)


# -- modules


@dataclass(frozen=True, slots=True)
class Module:
    """A module of transformers whose weight is compressed, and the node that computes with it.

    `tied`: other modules have the same parameter.
    """

    path: str
    node: Node
    scheme: Scheme
    value: Any
    tied: bool


def _modules(project: Project, model: Any, whole: bool) -> Iterator[Module]:
    """The modules to compress: those of the nodes, and all that share a parameter with one.

    `whole`: in whole bytes.
    """
    graph, nodes = project.graph, module_nodes(project, model, scheme_of, TARGET)
    shared_paths = owners(model)
    for path, node in nodes.items():
        module = model.get_submodule(path)
        paths = shared_paths[id(module.weight)]
        shared = len(paths) > 1
        for owner in paths if shared else (path,):
            if owner != path and owner in nodes:
                continue
            scheme = scheme_of(nodes.get(owner, node), graph, shared=shared or whole)
            assert scheme is not None
            yield Module(owner, node, scheme, module.weight.detach(), shared)


def coded(module: Module, graph: Graph, store: WeightStore) -> dict[str, Tensor]:
    """Name after the module's → tensor: the codes and scales of its weight and the scale of its input."""
    node, chosen = module.node, choice(module.node, "weight")
    assert chosen is not None
    seen, scale = masked_weight(node, graph, store)
    try:
        parts = tensors_of(chosen.format, seen, scale, module.scheme, module.value)
    except ExportError as error:
        raise ExportError(f"{node.id} weight: {error.message}", error.hint, node.id) from error
    return parts | input_tensors(node, module.scheme, graph, store, module.value.dtype)


# -- the configuration


def write_config(path: Path, modules: list[tuple[str, Scheme]], model: Any, caches: Args | None = None) -> None:
    """Add the schemes of modules and of caches to the `config.json` of a `model` of transformers."""
    import torch

    targets: dict[Scheme, list[str]] = {}
    for name, scheme in modules:
        targets.setdefault(scheme, []).append(name)
    formats = {scheme.format for scheme in targets}
    compressed = {name for name, _ in modules}
    others = [p for p, m in model.named_modules() if isinstance(m, torch.nn.Linear) and p not in compressed]
    config = json.loads(path.read_text(encoding="utf-8"))
    config["quantization_config"] = {
        "quant_method": TARGET, "format": _format(formats),
        "quantization_status": "compressed", "ignore": others,
        "config_groups": {f"group_{i}": s.to_json(paths) for i, (s, paths) in enumerate(targets.items())},
        **({"kv_cache_scheme": caches.to_json()} if caches else {}),
    }  # fmt: skip
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _format(formats: set[str]) -> str:
    """The compression format of a folder; dense where the cache alone has a scheme."""
    return "dense" if not formats else formats.pop() if len(formats) == 1 else "mixed-precision"


# -- the proof


def _compared(graph: Graph, store: WeightStore, folder: Path) -> Compared | None:
    model = loaded(folder)
    unrounded = round_caches(model, folder)
    found = compare_model(model, graph, store)
    return replace(found, notes=(*found.notes, UNROUNDED)) if found and unrounded else found


def rounded_otherwise(graph: Graph) -> list[str]:
    """What compressed-tensors rounds otherwise, with the number of modules."""
    found: dict[tuple[str, str], int] = {}
    for node in graph:
        scheme, chosen = scheme_of(node, graph), node.precision.get("data_in")
        if not (scheme and scheme.inputs and chosen):
            continue
        port = node.ports["data_in"]
        text = rounding(chosen.format, chosen.scale, len(port.shape), port.dtype)
        if text:
            found[chosen.format.label, text] = found.get((chosen.format.label, text), 0) + 1
    return [f"compressed-tensors rounds the inputs of {n} modules ({label}) by another rule: {text}."
            for (label, text), n in found.items()]  # fmt: skip
