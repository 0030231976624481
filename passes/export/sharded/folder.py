"""Writes a folder that runs a sharded model by torchrun, on one machine, by SLURM or by Kubernetes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.model.document.graph_json import graph_to_json
from espalier.model.document.project import APP, Project
from espalier.model.errors import ExportError
from espalier.model.files import explained, make_folder, replacing_folder
from espalier.model.graph.graph import Graph
from espalier.model.graph.ports import weight_at
from espalier.model.store.weights import WeightStore
from espalier.model.torch.tensors import to_numpy, to_torch
from espalier.passes.distributed.run import mesh_of
from espalier.passes.export.checkpoint import bare, copy_tokenizer, model_of
from espalier.passes.export.effective_weights import effective_weights
from espalier.passes.export.loading import MASK
from espalier.passes.export.sharded.loading import CHECKPOINT, GRAPH
from espalier.passes.export.sharded.parts import write_parts
from espalier.passes.export.sharded.plan import TorchPlan, as_json, own_plan, torch_plan
from espalier.passes.export.sharded.scripts import scripts
from espalier.passes.export.smaller_config import kept_layers, renumbered

if TYPE_CHECKING:
    from torch import Tensor

PROGRAMS = Path(__file__).resolve().parents[3] / "resources" / "programs"
PLAN, RUN = "plan.json", "run.py"
FILES = {GRAPH, PLAN, RUN, CHECKPOINT, "launch.sh", "slurm.sh", "kubernetes.yaml", "README.md"}


@dataclass(frozen=True, slots=True)
class Emitted:
    """What was written. `notes`: how it differs from the model and its plan."""

    files: tuple[str, ...]
    bytes: int
    notes: tuple[str, ...]


def check_folder(folder: Path) -> None:
    """Raise ExportError unless the folder is missing, empty, or has only the files of an earlier such export."""
    with explained(folder, ExportError):
        if not folder.exists():
            return
        if not folder.is_dir():
            raise ExportError(f"{folder} is a file.", "Choose a new folder.")
        foreign = sorted(p.name for p in folder.iterdir() if p.name not in FILES)
        own = not any(folder.iterdir()) or _is_own(folder / PLAN)
    if foreign:
        raise ExportError(f"{folder} has other files, such as {foreign[0]}.", "Choose a new or empty folder.")
    if not own:
        raise ExportError(f"{folder} was not written by this command.", "Choose a new or empty folder.")


def _is_own(path: Path) -> bool:
    try:
        return "espalier" in json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return False


def emit_sharded(project: Project, store: WeightStore, folder: Path, facts: Mapping[str, Any]) -> Emitted:
    """Write the folder for a project with a sharded graph. `facts`: of the plan, such as the device that it assumes.

    Values are those that take part in the arithmetic: masked, and on the grid of their format, in their stored type.
    Raises ExportError for a model that the program cannot run, PassError for a graph without shardings.
    """
    folder, graph = folder.expanduser(), project.graph
    check_folder(folder)
    mesh_of(graph)
    _check(graph)
    make_folder(folder.resolve().parent, ExportError)
    with replacing_folder(folder, ExportError) as part:
        (part / CHECKPOINT).mkdir()
        model, why = _model(project, store, part)
        facts = {"espalier": APP, **facts}
        plan, data, notes = _write(model, project, store, part, facts) if model else _write_own(
            project, store, part, facts, why)  # fmt: skip
        (part / PLAN).write_text(json.dumps(data, indent=1), encoding="utf-8")
        (part / RUN).write_text((PROGRAMS / data["program"]).read_text(encoding="utf-8"), encoding="utf-8")
        for name, text in scripts(plan, data, project.source.name, notes).items():
            (part / name).write_text(text, encoding="utf-8")
        for name in ("launch.sh", "slurm.sh"):
            (part / name).chmod((part / name).stat().st_mode | 0o111)
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return Emitted(tuple(map(str, files)), sum(f.stat().st_size for f in files), tuple(notes))


def _check(graph: Graph) -> None:
    if any(n.adapters for n in graph):
        raise ExportError("The model has adapters, which the program would not run.", "Add the step fuse_lora first.")
    if any(n.call == "opaque" for n in graph) or graph.runs == "module":
        raise ExportError("The model runs code of its own, which the program would not have.",
                          "Use a model that torch.export can capture.")  # fmt: skip


def _model(project: Project, store: WeightStore, folder: Path) -> tuple[Any, str]:
    """The model of transformers with the project's values in it, or why there is none."""
    import transformers

    found = model_of(project, dict(effective_weights(project.graph, store)), store, folder)
    if found.model is None:
        return None, found.why or "it is not a model of transformers"
    kind = type(found.model)
    if getattr(transformers, kind.__name__, None) is not kind:
        return None, f"{kind.__name__} is not transformers' own"
    return found.model.eval(), ""


Contents = tuple[TorchPlan, dict[str, Any], list[str]]


def _write(model: Any, project: Project, store: WeightStore, folder: Path, facts: Mapping[str, Any]) -> Contents:
    """Write the checkpoint of a model of transformers; returns the plan and notes."""
    graph, tensors = project.graph, _tensors(model)
    kept = kept_layers(project.base, graph)
    plan = torch_plan(graph, model, tensors, lambda name: renumbered(name, kept))
    write_parts(folder / CHECKPOINT, tensors, plan.placements, plan.mesh.shape)
    model.config.save_pretrained(folder / CHECKPOINT)
    copy_tokenizer(project, folder / CHECKPOINT)
    added = {"program": "sharded.py", "architecture": type(model).__name__, **facts, "inputs": _inputs(graph)}
    return plan, as_json(plan, model, added), [*plan.notes, *activation_notes(graph)]


def _write_own(project: Project, store: WeightStore, folder: Path, facts: Mapping[str, Any], why: str) -> Contents:
    """Write the checkpoint and the graph of another model, which Espalier runs with the formats of activations."""
    weights = dict(effective_weights(project.graph, store))
    graph = bare(project.graph, {n: to_numpy(t) for n, t in weights.items()})
    masks = {s.mask for n in graph for s in n.sparsity.values() if s.mask is not None}
    tensors = weights | {f"{MASK}{key}": to_torch(store.get(key)) for key in sorted(masks)}
    plan = own_plan(graph, tensors)
    write_parts(folder / CHECKPOINT, tensors, plan.placements, plan.mesh.shape)
    text = json.dumps(graph_to_json(graph), separators=(",", ":"), allow_nan=False)
    (folder / GRAPH).write_text(text, encoding="utf-8")
    notes = [f"run.py needs Espalier, as transformers cannot build the model: {why}."]
    return plan, as_json(plan, None, {"program": "sharded_own.py", "architecture": "", **facts}), notes


def _tensors(model: Any) -> dict[str, Tensor]:
    """Parameters and buffers that a checkpoint has, each once."""
    names = {n for n, _ in (*model.named_parameters(), *model.named_buffers())}
    return {n: t.detach() for n, t in model.state_dict().items() if n in names}


def _inputs(graph: Graph) -> dict[str, Any]:
    """Type and sizes of each input, as it was traced."""
    return {
        n.target: [n.out.dtype, [graph.symbols.get(d, 1) if isinstance(d, str) else d for d in n.out.shape]]
        for n in graph.placeholders
        if n.out
    }


def activation_notes(graph: Graph) -> list[str]:
    """What the program does not compute: formats and pruning of activations, and functions for hardware."""
    rounded = [n.id for n in graph if any(weight_at(n, p, graph) is None for p in n.precision)]
    pruned = [n.id for n in graph if any(s.flows for s in n.sparsity.values())]
    notes = [f"Formats of activations are not part of the program: {_listed(rounded)}."] if rounded else []
    return notes + ([f"Pruning of activations is not part of the program: {_listed(pruned)}."] if pruned else [])


def _listed(nodes: list[str], shown: int = 6) -> str:
    more = f" and {len(nodes) - shown} more" if len(nodes) > shown else ""
    return ", ".join(nodes[:shown]) + more
