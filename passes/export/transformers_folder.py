"""What folders with codes have in common that transformers opens: its model, its modules, and the comparison."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.model.errors import ExportError, first_line
from espalier.model.files import filling, make_folder
from espalier.model.formats.base import Array
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ports import choice
from espalier.model.store.weights import WeightStore
from espalier.passes.export.checkpoint import copy_tokenizer, model_of, stale_form
from espalier.passes.export.compare import Compared, compare
from espalier.passes.export.effective_weights import effective_weights
from espalier.passes.export.mixed_folders import MODEL, check_for_model, check_layout
from espalier.passes.export.pruned_sizes import stale_code
from espalier.passes.export.settings import Settings
from espalier.passes.export.smaller_config import kept_layers, renumbered
from espalier.passes.export.targets import checked
from espalier.passes.verify import tensors

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.model.document.project import Project

WEIGHTS = "model.safetensors"  # the first of the files


@dataclass(slots=True)
class Folder:
    """What was written: the files, notes, a row for each weight, and how results of transformers compare."""

    files: list[Path]
    notes: list[str]
    tensors: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    compared: Compared | None = None


class Unread(Exception):
    """transformers does not open what was written: why."""


def transformers_model(project: Project, store: WeightStore, part: Path) -> tuple[Any, tuple[str, ...]]:
    """transformers' own model with the weights as they compute, and notes; raises ExportError."""
    model, why, notes = model_of(project, dict(effective_weights(project.graph, store)), store, part)
    if model is None:
        reason = f": {why}" if why else ", as it is none of its classes"
        raise ExportError(f"transformers has no model like this{reason}.",
                          "Export it as safetensors.")  # fmt: skip
    if not type(model).__module__.startswith("transformers."):
        raise ExportError(f"{type(model).__name__} is not a class of transformers, which is to open the folder.",
                          "Export it as safetensors or packed.")  # fmt: skip
    return model, notes


ReadBack = Callable[["Project", WeightStore, Any, Path, bool], Folder]


def write_coded(
    target: str, project: Project, store: WeightStore, folder: Path, settings: Settings, read_back: ReadBack,
    coded: bool, rounded: list[str],
) -> Folder:  # fmt: skip
    """Write a folder by `read_back`, which also runs it. Raises ExportError before anything is written.

    `coded`: whether a weight has codes. `rounded`: notes of inputs that are rounded by another rule.
    """
    left = checked(target, project.graph, leave_float=settings.leave_float)
    if not coded:
        if left:
            raise ExportError(f"{target} can hold no weight of this model. {left[0]}", "Choose another format.")
        raise ExportError("No weight has a format, so there is nothing to compress.", "Quantise the model first.")
    check_for_model(folder)
    make_folder(folder.parent, ExportError)
    settings.progress(0, 3, "reading the source")
    with filling(folder, ExportError, (MODEL,), _stale, whole=True) as part:
        model, notes = transformers_model(project, store, part)
        settings.progress(1, 3, "writing and running it in transformers")
        made = read_back(project, store, model, part, bool(left or rounded))
        copy_tokenizer(project, part)
        names = sorted((f.name for f in part.iterdir()), key=lambda name: (name != WEIGHTS, name))
        made.files = [folder / name for name in names]
    made.notes = [*notes, *made.notes, *left, *rounded, *compared_notes(made)]
    return made


def _stale(new: Path, old: Path) -> list[str]:
    """What earlier exports left that does not go with the new folder; raises ExportError."""
    check_layout(new, old)
    return [*stale_form(old), *stale_code(old)]


def module_nodes(
    project: Project, model: Any, scheme_of: Callable[[Node, Graph], object], reader: str
) -> dict[str, Node]:
    """Path → node of each Linear or Embedding whose weight has a scheme.

    Raises ExportError for a module of another class, or one that is called with different formats.
    """
    import torch

    kept, nodes = kept_layers(project.base, project.graph), dict[str, Node]()
    for node in project.graph:
        if scheme_of(node, project.graph):
            path = renumbered(node.target, kept)
            if nodes.setdefault(path, node).precision != node.precision:
                raise ExportError(f"{path} is called with different formats, and a folder has one for a module.",
                                  "Choose the same formats for all calls of a module.", node.id)  # fmt: skip
    for path, node in nodes.items():
        module = model.get_submodule(path)
        if type(module) not in (torch.nn.Linear, torch.nn.Embedding):
            raise ExportError(f"{path} is a {type(module).__name__}, which {reader} does not read.",
                              "Leave it in float.", node.id)  # fmt: skip
    return nodes


def owners(model: Any) -> dict[int, list[str]]:
    """Identity of each weight → paths of the modules that hold it."""
    found: dict[int, list[str]] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        weight = module._parameters.get("weight")
        if weight is not None:
            found.setdefault(id(weight), []).append(path)
    return found


def masked_weight(node: Node, graph: Graph, store: WeightStore) -> tuple[Array, Array | None]:
    """The weight [rows, columns] that a node's format rounds, float32, and the scale that it is given, if any."""
    import torch

    from espalier.model.torch.leaf_builder import effective
    from espalier.model.torch.tensors import to_torch

    chosen = choice(node, "weight")
    assert chosen is not None
    weight = to_torch(store.get(graph.weights[node.weights["weight"]].key or "")).clone()
    with torch.no_grad():
        seen = effective(replace(node, precision={}), "weight", graph, store)(weight).float().numpy()
    return seen, None if chosen.scale is None else store.get(graph.weights[chosen.scale].key or "").float32()


def coded_row(path: str, node: Node, stored: str, parts: dict[str, Tensor]) -> dict[str, Any]:
    """A row of the report: what a weight became."""
    chosen = choice(node, "weight")
    return {"tensor": f"{path}.weight", "format": str(chosen.format) if chosen else "",
            "label": chosen.format.label if chosen else "", "stored": stored,
            "bytes": sum(t.numel() * t.element_size() for t in parts.values())}  # fmt: skip


def float_row(name: str, value: Tensor) -> dict[str, Any]:
    """A row of the report: a tensor that stays float."""
    return {"tensor": name, "format": "", "label": "", "stored": str(value.dtype).removeprefix("torch."),
            "bytes": value.numel() * value.element_size()}  # fmt: skip


# -- the comparison


def model_class(folder: Path) -> Any:
    """The class of transformers that the configuration of a folder names."""
    import transformers

    return getattr(transformers, json.loads((folder / "config.json").read_text(encoding="utf-8"))["architectures"][0])


def load(folder: Path) -> Any:
    """The model of a folder as transformers reads it, in the class that its configuration names."""
    from espalier.model.sources.huggingface import quiet

    with quiet(), contextlib.redirect_stderr(io.StringIO()):
        return model_class(folder).from_pretrained(folder, trust_remote_code=False).eval()


def loaded(folder: Path) -> Any:
    """As `load`; raises Unread where transformers does not open the folder."""
    try:
        return load(folder)
    except (RuntimeError, ValueError, TypeError, KeyError, AttributeError, AssertionError, OSError) as error:
        raise Unread(first_line(error)) from error


def results_of(model: Any, graph: Graph, values: dict[str, Tensor]) -> list[Tensor]:
    """The results of a model of transformers for a batch, in the graph's order."""
    import torch

    with torch.no_grad(), contextlib.redirect_stderr(io.StringIO()):  # its first run draws bars
        results = model(**values)
    return tensors([results[name] for name in graph.output_names if results.get(name) is not None])


def compare_model(model: Any, graph: Graph, store: WeightStore) -> Compared | None:
    """A loaded model beside the graph's module; None where the model runs at no size."""
    return compare(graph, store, lambda values: results_of(model, graph, values), "transformers")


def check_results(found: Compared | None, *, inexact: bool) -> None:
    """Raise Unread where results differ by more than rounding of floats, or nothing ran.

    `inexact`: inputs are rounded by another rule.
    """
    if found is None or (found.difference is not None and (inexact or found.difference <= found.allowed)):
        return
    raise Unread(found.notes[0].rstrip("."))


def compared_notes(made: Folder) -> list[str]:
    """What the comparison says."""
    found = made.compared
    return list(found.notes) if found else ["The model runs at no size, so the folder was not compared."]
