"""Writes a folder that runs a sharded model by torchrun, on one machine, by SLURM or by Kubernetes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.model.document.project import APP, Project
from espalier.model.errors import ExportError
from espalier.model.files import explained, make_folder, replacing_folder
from espalier.model.graph.graph import Graph
from espalier.model.graph.ports import weight_at
from espalier.model.store.weights import WeightStore
from espalier.passes.distributed.run import mesh_of
from espalier.passes.export.checkpoint import copy_tokenizer, model_of
from espalier.passes.export.effective_weights import effective_weights
from espalier.passes.export.sharded.parts import write_parts
from espalier.passes.export.sharded.plan import TorchPlan, as_json, torch_plan
from espalier.passes.export.sharded.scripts import scripts
from espalier.passes.export.smaller_config import kept_layers, renumbered

if TYPE_CHECKING:
    from torch import Tensor

PROGRAM = Path(__file__).resolve().parents[3] / "resources" / "programs" / "sharded.py"
PLAN, RUN, CHECKPOINT = "plan.json", "run.py", "checkpoint"
FILES = {PLAN, RUN, CHECKPOINT, "launch.sh", "slurm.sh", "kubernetes.yaml", "README.md"}


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
        model = _model(project, store, part)
        tensors = _tensors(model)
        kept = kept_layers(project.base, graph)
        plan = torch_plan(graph, model, tensors, lambda name: renumbered(name, kept))
        checkpoint = part / CHECKPOINT
        checkpoint.mkdir()
        write_parts(checkpoint, tensors, plan.placements, plan.mesh.shape)
        model.config.save_pretrained(checkpoint)
        copy_tokenizer(project, checkpoint)
        notes = [*plan.notes, *activation_notes(graph)]
        data = as_json(plan, model, {"espalier": APP, "architecture": type(model).__name__, **facts,
                                     "inputs": _inputs(graph)})  # fmt: skip
        (part / PLAN).write_text(json.dumps(data, indent=1), encoding="utf-8")
        (part / RUN).write_text(PROGRAM.read_text(encoding="utf-8"), encoding="utf-8")
        for name, text in scripts(plan, data, project.source.name, notes).items():
            (part / name).write_text(text, encoding="utf-8")
        (part / "launch.sh").chmod(0o755)
        (part / "slurm.sh").chmod(0o755)
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return Emitted(tuple(map(str, files)), sum(f.stat().st_size for f in files), tuple(notes))


def _check(graph: Graph) -> None:
    if any(n.adapters for n in graph):
        raise ExportError("The model has adapters, which the program would not run.", "Add the step fuse_lora first.")
    if any(n.call == "opaque" for n in graph) or graph.runs == "module":
        raise ExportError("The model runs code of its own, which the program would not have.",
                          "Use a model that torch.export can capture.")  # fmt: skip


def _model(project: Project, store: WeightStore, folder: Path) -> Any:
    """The model of transformers with the project's values in it."""
    found = model_of(project, dict(effective_weights(project.graph, store)), store, folder)
    hint = "Run it by --run, or export it in one piece."
    if found.model is None:
        why = found.why or "it is not a model of transformers"
        raise ExportError(f"The model cannot be emitted: {why}.", hint)
    import transformers

    kind = type(found.model)
    if getattr(transformers, kind.__name__, None) is not kind:
        raise ExportError(f"{kind.__name__} is not transformers' own, so that the program cannot build it.", hint)
    return found.model.eval()


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
