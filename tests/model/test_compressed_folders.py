"""Folders of compressed-tensors open as what their weights decompress to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from espalier.model.errors import SourceError
from espalier.model.opening import open_any
from espalier.model.torch.build import build
from espalier.passes.export import export
from espalier.passes.running.example import example_inputs
from tests.passes.export.models import chosen, made

pytest.importorskip("compressed_tensors")
BOTH = {"linear.weight": "scaled_integer(width=8)", "embedding.weight": "scaled_integer(width=8)"}


@pytest.mark.slow
def test_a_folder_of_codes_opens_with_its_values(tmp_path: Path) -> None:
    found = open_any(str(made("tied", tmp_path / "home")), tmp_path / "work")
    graph = chosen(found.project.graph, BOTH)
    export(replace(found.project, graph=graph), found.store, "compressed-tensors", tmp_path / "out")
    again = open_any(str(tmp_path / "out"), tmp_path / "again")
    inputs = example_inputs(graph)
    with torch.no_grad():
        mine = build(graph, found.store)(**inputs)["logits"]
        theirs = build(again.project.graph, again.store)(**inputs)["logits"]
    assert torch.equal(mine, theirs) and again.project.graph.runs == "graph"
    assert len(again.project.graph.weights) == len(graph.weights), "the head is still tied"


@pytest.mark.slow
def test_rounded_inputs_are_refused_as_they_would_be_lost(tmp_path: Path) -> None:
    found = open_any(str(made("llama", tmp_path / "home")), tmp_path / "work")
    graph = chosen(found.project.graph, {**BOTH, "linear.data_in": "scaled_integer(width=8)"})
    export(replace(found.project, graph=graph), found.store, "compressed-tensors", tmp_path / "out")
    with pytest.raises(SourceError, match="rounds activations by compressed-tensors"):
        open_any(str(tmp_path / "out"), tmp_path / "again")
