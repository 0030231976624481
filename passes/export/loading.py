"""Reads back a folder that the export wrote for a model that transformers does not know."""

from __future__ import annotations

import json
from pathlib import Path

from torch import fx

from model.build import build
from model.errors import ProjectError
from model.graph_json import graph_from_json
from model.weights import WeightStore, read_header


def load_folder(folder: Path) -> fx.GraphModule:
    """The module that runs the exported graph; raises ProjectError."""
    try:
        data = json.loads((folder / "graph.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ProjectError(f"{folder.name} holds no readable graph ({error}).", "Export it again.") from error
    graph = graph_from_json(data)
    places = read_header(folder / "model.safetensors")
    store = WeightStore(folder)
    store.add({w.key: places[name] for name, w in graph.weights.items() if w.key and name in places})
    return build(graph, store)
