"""Opens a Hugging Face folder for streaming: its graph without values, and where each weight lies in the files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from espalier.model.document.project import Project
from espalier.model.document.recipe import Recipe
from espalier.model.errors import SourceError
from espalier.model.graph.check import Problem
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Weight
from espalier.model.graph.node import TorchConst
from espalier.model.opening import described, needs_source
from espalier.model.sources.shapes_only import shapes_only
from espalier.model.store.shards import Shards
from espalier.model.store.weights import WeightStore
from espalier.model.torch.tensors import to_numpy, to_torch
from espalier.model.trace.trace import trace

if TYPE_CHECKING:
    from torch import Tensor

IN_MEMORY = "Open it in memory, with the commands run, evaluate and export."


@dataclass(frozen=True, slots=True)
class StreamedModel:
    """A model whose parameters lie in files.

    `project`: its graph; parameters have no key. `module`: its class of transformers, on the meta device, with the
    caches of the source. `names`: weight of the graph, or parameter of the module → tensor in the files.
    """

    project: Project
    store: WeightStore
    module: Any
    shards: Shards
    names: dict[str, str]
    problems: tuple[Problem, ...] = ()

    @property
    def graph(self) -> Graph:
        """The graph as opened."""
        return self.project.base

    def read(self, name: str, dtype: str) -> Tensor:
        """A weight in its type in the model, in new memory."""
        import torch

        value = to_torch(self.shards.read(self.names[name]))
        return value.to(getattr(torch, dtype))

    def with_values(self, graph: Graph, store: WeightStore) -> Graph:
        """`graph` with the values of its weights in `store`: those that it has not changed are read from the files."""
        values: dict[str, Weight] = {}
        for name, weight in graph.weights.items():
            if weight.key is None:
                values[name] = replace(weight, key=self._key(name, weight, store))
            elif weight.key not in store:
                values[name] = replace(weight, key=store.hold(self.store.get(weight.key)))
        return graph.with_weights(values)

    def _key(self, name: str, weight: Weight, store: WeightStore) -> str:
        place = self.shards.places[self.names[name]]
        if place.dtype == weight.dtype:
            return store.enrol(place)
        return store.hold(to_numpy(self.read(name, weight.dtype)))

    def bytes_of(self, names: Iterable[str]) -> int:
        """Bytes of weights of the graph in memory."""
        weights = self.graph.weights
        return sum(weights[n].elements * weights[n].float_bits // 8 for n in names if n in weights)


def open_streamed(spec: str, workdir: Path) -> StreamedModel:
    """Open a folder without reading its weights.

    Raises SourceError for a folder without safetensors or without some of the weights, TraceError for a model that
    cannot be captured.
    """
    opened = shapes_only(spec)
    store, loaded = WeightStore(workdir), opened.loaded
    traced = trace(loaded.model, loaded.example, store)
    if needs_source(traced.graph):
        raise SourceError(f"{loaded.info.name} runs code that no graph can hold.", IN_MEMORY)
    names = _names(loaded.model, opened.shards)
    graph = _with_buffers(_on_cpu(traced.graph), opened.buffers, names, store)
    _check(graph, loaded.model, names, opened.shards)
    info = described(loaded, graph, store)
    loaded.restore_cache()
    return StreamedModel(
        Project(info, graph, Recipe(), graph), store, loaded.model, opened.shards, names, traced.problems
    )


def _names(module: Any, shards: Shards) -> dict[str, str]:
    """Parameter or persistent buffer of the module → tensor in the files; those that are missing are left out.

    A folder may have been saved from the model without its head, or with its prefix; of tied weights it has one.
    """
    prefix, alike = f"{module.base_model_prefix}.", dict[int, list[str]]()
    tensors = module.state_dict(keep_vars=True)
    for name, value in tensors.items():
        alike.setdefault(id(value), []).append(name)
    names: dict[str, str] = {}
    for name, value in tensors.items():
        for known in (name, *alike[id(value)]):
            wishes = known, known.removeprefix(prefix), f"{prefix}{known}"
            if found := next((w for w in wishes if w in shards.places), None):
                names[name] = found
                break
    return names


def _on_cpu(graph: Graph) -> Graph:
    """The graph with the devices that a capture on the CPU has."""
    changed = (replace(n, args=_cpu(n.args), kwargs={k: _cpu(v) for k, v in n.kwargs.items()}) for n in graph)
    nodes = {n.id: n if n != graph.nodes[n.id] else graph.nodes[n.id] for n in changed}
    return replace(graph, nodes=nodes)


def _cpu(arg: Any) -> Any:
    match arg:
        case TorchConst("device", "meta"):
            return TorchConst("device", "cpu")
        case tuple():
            return tuple(_cpu(a) for a in cast("tuple[Any, ...]", arg))
        case _:
            return arg


def _with_buffers(graph: Graph, buffers: dict[str, Tensor], names: dict[str, str], store: WeightStore) -> Graph:
    """The graph with the values of buffers that the files do not have."""
    values = {
        name: replace(weight, key=store.hold(to_numpy(buffers[name])))
        for name, weight in graph.weights.items()
        if weight.key is None and name not in names and name in buffers
    }
    return graph.with_weights(values)


def _check(graph: Graph, module: Any, names: dict[str, str], shards: Shards) -> None:
    """Raise SourceError for a weight without a value, or with another shape in the files."""
    missing = [n for n, w in graph.weights.items() if w.key is None and n not in names]
    missing += [n for n, _ in module.named_parameters() if n not in names and n not in missing]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        hint = f"Give a complete folder. {IN_MEMORY[:-1]}, if transformers renames its weights."
        raise SourceError(f"{shards.folder.name} has no tensor {missing[0]}{more}.", hint)
    for name, weight in graph.weights.items():
        shape = weight.shape if weight.key is not None else shards.places[names[name]].shape
        if shape != weight.shape:
            text = f"{name} has the shape {list(shape)} in the files; the configuration gives {list(weight.shape)}."
            raise SourceError(text, "Give files that belong together.")
