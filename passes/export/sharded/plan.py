"""The plan of a sharded model in terms of torch: roles of axes, styles of layers, weights stored in parts."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from espalier.model.graph.graph import Graph
from espalier.passes.distributed.distribute import stored_placements
from espalier.passes.distributed.run import mesh_of
from espalier.passes.export.sharded.layers import WHOLE, styles
from espalier.passes.sharding.mesh import Mesh

if TYPE_CHECKING:
    from torch import Tensor, nn

Placements = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TorchPlan:
    """How a model of transformers runs over a mesh.

    `placements`: of each stored tensor, one per axis. `batch_axes`: along which each rank has a part of the batch.
    `styles`: module → style of tensor parallelism along `tensor_axis`. `gathered`: parameter → dimension of those that
    are stored in parts over `gathered_axes` and gathered before use. `notes`: where that differs from the placements.
    """

    mesh: Mesh
    axes: tuple[str, ...]
    placements: dict[str, Placements]
    batch_axes: tuple[int, ...]
    tensor_axis: int | None
    styles: dict[str, str]
    gathered_axes: tuple[int, ...]
    gathered: dict[str, int]
    notes: tuple[str, ...] = ()


def torch_plan(
    graph: Graph, model: nn.Module, tensors: Mapping[str, Tensor], rename: Callable[[str], str]
) -> TorchPlan:
    """The plan for a model whose saved tensors are `tensors`. `rename`: path in the graph → path in the model."""
    from torch import nn

    mesh, first = mesh_of(graph), _first_names(model)
    found = {first.get(rename(n), rename(n)): texts for n, texts in _placements(graph).items()}
    placements = {n: found.get(n, ("R",) * len(mesh.shape)) for n in tensors}
    batch = tuple(a for a in range(len(mesh.shape)) if _splits_batch(graph, a))
    tensor, chosen = _tensor_axis(graph, model, mesh, batch, rename)
    by_style = {first[f"{m}.{p}"] for m in chosen for p in ("weight", "bias") if f"{m}.{p}" in first}
    parameters = {n: placements[n] for n, _ in model.named_parameters() if n in placements}
    axes, wanted = _gathered(parameters, tensor, by_style)
    ranks = math.prod(mesh.shape[a] for a in axes)
    gathered = {n: d for n, d in wanted.items() if d == 0 or tensors[n].shape[d] % ranks == 0}
    notes = list[str]()
    rows = [m for m, s in chosen.items() if s == WHOLE and type(model.get_submodule(m)) is nn.Linear]
    if rows:
        notes.append(f"{len(rows)} row-wise layers take whole inputs in the program, as the code before them does not "
                     "compute on parts.")  # fmt: skip
    whole = [n for n, texts in parameters.items() if _splits(texts) and n not in by_style and n not in gathered]
    if whole:
        notes.append(f"{len(whole)} weights that the plan splits are whole on each rank of the program.")
    if gathered and not set(axes) <= set(batch):
        notes.append(f"{len(gathered)} weights are stored in parts and gathered before use; the program computes with "
                     "them whole where the plan may split the computation.")  # fmt: skip
    names = _axis_names(mesh, batch, tensor)
    return TorchPlan(mesh, names, placements, batch, tensor, chosen, axes, gathered, tuple(notes))


def _first_names(model: nn.Module) -> dict[str, str]:
    """Each name of a parameter or buffer → the first name of that tensor."""
    first: dict[int, str] = {}
    every = (*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False))
    return {name: first.setdefault(id(value), name) for name, value in every}


def _placements(graph: Graph) -> dict[str, Placements]:
    """Of weights by their names, and by those of their layers, which are others where an export unties them."""
    found: dict[str, Placements] = {}
    for node in graph:
        if node.sharding is not None and node.call == "call_module":
            found |= {f"{node.target}.{p}": node.sharding.ports[p] for p in node.weights if p in node.sharding.ports}
    return found | stored_placements(graph)


def _splits(texts: Placements) -> bool:
    return any(t.startswith("S") for t in texts)


def _splits_batch(graph: Graph, axis: int) -> bool:
    found = [n.sharding.ports.get("data_out") for n in graph.placeholders if n.sharding]
    return any(texts is not None and texts[axis] == "S0" for texts in found)


def _tensor_axis(
    graph: Graph, model: nn.Module, mesh: Mesh, batch: tuple[int, ...], rename: Callable[[str], str]
) -> tuple[int | None, dict[str, str]]:
    """The axis along which most layers compute on parts, and module of the model → style."""
    from torch import nn

    modules = dict(model.named_modules())
    targets = {n.target for n in graph if n.call == "call_module"}
    layers = {t for t in targets if type(modules.get(rename(t))) in (nn.Linear, nn.Embedding)}
    split = {a: styles(graph, a, layers) for a, n in enumerate(mesh.shape) if n > 1 and a not in batch}
    axis = max(split, key=lambda a: len(split[a]), default=None)
    if axis is None or not split[axis]:
        return None, {}
    return axis, {rename(m): style for m, style in split[axis].items()}


def _gathered(
    placements: Mapping[str, Placements], tensor: int | None, by_style: set[str]
) -> tuple[tuple[int, ...], dict[str, int]]:
    """The axes over which weights are stored in parts without a style, and the dimension of each.

    FSDP2 shards over one mesh, whose axis lies before that of tensor parallelism where a weight has both.
    """
    split = {n: {a for a, t in enumerate(texts) if t.startswith("S") and not (a == tensor and n in by_style)}
             for n, texts in placements.items()}  # fmt: skip
    axes = tuple(sorted(set().union(*split.values()))) if split else ()
    if len(axes) > 1 and tensor is not None:
        axes = tuple(a for a in axes if a != tensor)
    inner = tensor is not None and any(a > tensor for a in axes)
    return axes, {
        name: int(placements[name][min(found & set(axes))][1:])
        for name, found in split.items()
        if found & set(axes) and not (inner and name in by_style)
    }


def _axis_names(mesh: Mesh, batch: tuple[int, ...], tensor: int | None) -> tuple[str, ...]:
    roles = ["data" if a in batch else "tensor" if a == tensor else "other" for a in range(len(mesh.shape))]
    return tuple(r if roles.count(r) == 1 else f"{r}_{a}" for a, r in enumerate(roles))


def patterns(chosen: Mapping[str, str], modules: Iterable[str]) -> dict[str, str]:
    """Styles with * for the numbers of layers, as in a tp_plan, where all modules of a pattern have the same."""
    counts = Counter(_starred(m) for m in modules)
    by_pattern: dict[str, list[str]] = {}
    for module, style in chosen.items():
        by_pattern.setdefault(_starred(module), []).append(style)
    found: dict[str, str] = {}
    for module, style in chosen.items():
        pattern = _starred(module)
        alike = len(set(by_pattern[pattern])) == 1 and len(by_pattern[pattern]) == counts[pattern]
        found[pattern if alike else module] = style
    return found


def _starred(module: str) -> str:
    return re.sub(r"(?<=\.)\d+(?=\.|$)", "*", module)


def own_plan(graph: Graph, tensors: Mapping[str, Tensor]) -> TorchPlan:
    """The plan of a model that Espalier runs: nothing but the placements."""
    mesh, texts = mesh_of(graph), stored_placements(graph)
    batch = tuple(a for a in range(len(mesh.shape)) if _splits_batch(graph, a))
    placements = {n: texts.get(n, ("R",) * len(mesh.shape)) for n in tensors}
    return TorchPlan(mesh, _axis_names(mesh, batch, None), placements, batch, None, {}, (), {})


def as_json(plan: TorchPlan, model: nn.Module | None, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The plan as the program of the folder reads it."""
    return {
        **facts,
        "mesh": {"shape": list(plan.mesh.shape), "axes": list(plan.axes)},
        "batch_axes": [plan.axes[a] for a in plan.batch_axes],
        "tensor_axis": None if plan.tensor_axis is None else plan.axes[plan.tensor_axis],
        "tp_plan": patterns(plan.styles, (n for n, _ in model.named_modules())) if model is not None else {},
        "fsdp": {"axes": [plan.axes[a] for a in plan.gathered_axes], "dims": plan.gathered},
        "placements": {n: list(texts) for n, texts in plan.placements.items()},
    }
