"""Reads back a folder that the export wrote for a model that transformers does not know."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor, fx

from espalier.model.borders import read_json, reading
from espalier.model.document.graph_json import graph_from_json
from espalier.model.errors import ProjectError
from espalier.model.graph.graph import Graph
from espalier.model.store.weights import WeightStore, read_header
from espalier.model.torch.build import build
from espalier.passes.running.example import example_inputs

MASK = "@mask/"  # before the content key of a mask, as the name of its tensor


def load_folder(folder: Path) -> fx.GraphModule:
    """The module that runs the exported graph; raises ProjectError."""
    graph = _graph(folder)
    places = read_header(folder / "model.safetensors")
    store = WeightStore(folder)
    store.add({w.key: places[name] for name, w in graph.weights.items() if w.key and name in places})
    store.add({name.removeprefix(MASK): place for name, place in places.items() if name.startswith(MASK)})
    return build(graph, store)


def example_of(folder: Path) -> dict[str, Tensor]:
    """Inputs that the exported graph takes, made up; raises ProjectError."""
    return example_inputs(_graph(folder))


def _graph(folder: Path) -> Graph:
    with reading(folder, ProjectError, "holds no readable graph", "Export it again."):
        return graph_from_json(read_json(folder / "graph.json"))
