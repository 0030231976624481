"""The adapters alone, as a folder that PEFT opens on the source's model."""

from __future__ import annotations

from pathlib import Path

from espalier.model.document.project import Project
from espalier.model.errors import ExportError
from espalier.model.files import filling, make_folder
from espalier.model.graph.adapters import adapted, module_path
from espalier.model.graph.graph import Graph
from espalier.model.store.weights import WeightStore
from espalier.passes.export.mixed_folders import ADAPTER, check_for_adapter
from espalier.passes.lowrank.peft_write import write_peft


def write_adapter(project: Project, store: WeightStore, folder: Path) -> tuple[list[Path], list[str]]:
    """Write the folder; returns its files and notes. Modules trained beside the adapters come along whole.

    Raises ExportError where there are no adapters, or where weights beneath them are not the source's any more.
    """
    graph = project.graph
    if not any(n.adapters for n in graph):
        raise ExportError("The model has no adapters.", "Insert some with LoRA, or export another form.")
    if any(w.key is None for w in graph.weights.values()):
        raise ExportError("The model was opened without weights, so there are none to export.", "Open it with weights.")
    base = base_name(project)
    check_for_adapter(folder)
    make_folder(folder.parent, ExportError)
    with filling(folder, ExportError, (ADAPTER,), whole=True) as part:
        notes = write_peft(graph, store, part, base, changed_tensors(project.base, graph))
    files = sorted(f for f in folder.iterdir() if f.is_file())
    return files, [*notes, *_notes(graph, base, project.source.spec)]


def base_name(project: Project) -> str | None:
    """The source as transformers names it; None for a model that it cannot load by a name."""
    spec = project.source.spec
    if spec.startswith("hf:"):
        return spec.removeprefix("hf:")
    return spec if (Path(spec) / "config.json").is_file() else None


def changed_tensors(base: Graph, graph: Graph) -> dict[str, str]:
    """Name in the file → weight of all tensors of the modules whose values are no longer `base`'s."""
    scales = {c.scale for n in graph for c in n.precision.values() if c.scale}
    own = {name for _, held in adapted(graph) for name in (held.a, held.b)}
    changed = {k for k, w in graph.weights.items() if k not in base.weights or base.weights[k].key != w.key}
    found: dict[str, str] = {}
    for node in graph:
        if not changed & set(node.weights.values()) - scales - own:
            continue
        path = module_path(node, graph)
        if node.adapters or node.call != "call_module" or set(node.weights.values()) - base.weights.keys():
            raise ExportError(
                f"The weights of {path} are not those of the source any more, and an adapter alone would miss that.",
                "Export a safetensors folder: it holds the model as it is and its adapters.",
                node.id,
            )
        found |= {f"{path}.{port}": name for port, name in node.weights.items()}
    return found


def _notes(graph: Graph, base: str | None, spec: str) -> list[str]:
    notes: list[str] = []
    if base is None:
        notes.append(
            f"PEFT cannot load {spec} by name: make the model first, then PeftModel.from_pretrained(model, …)."
        )
    if any(n.precision or n.sparsity for n in graph):
        notes.append("Formats and masks are not part of an adapter; on the source's model it gives other results.")
    return notes
