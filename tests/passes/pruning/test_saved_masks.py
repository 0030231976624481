"""Masks in saved graphs, projects, packed files and checkpoints, also of versions without patterns."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from espalier.model.document.codec import decode, encode
from espalier.model.document.project import Project, load_project, save_project
from espalier.model.document.recipe import Recipe
from espalier.model.formats.base import parse_format
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Sparsity
from espalier.model.opening import open_any
from espalier.model.packed.layout import packed_size
from espalier.model.sources.info import SourceInfo
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build
from espalier.model.trust import Origin
from espalier.passes.base import Context
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.choices.prune_activations import PruneActivationsOptions
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.export import export
from espalier.passes.score import static_score
from espalier.passes.select import Select
from espalier.passes.transform.prune import prune
from espalier.passes.transform.prune_activations import prune_activations
from espalier.passes.transform.quantize import quantize
from tests.model.zoo import case, run

PATTERNS = [PruneOptions(pattern="n:m"), PruneOptions(pattern="n:m", n=1), PruneOptions(0.6, pattern="block", rows=2)]


def graph_with(options: PruneOptions, name: str, fmt: str | None = None) -> Graph:
    held = case(name)
    graph, context = held.graph, Context(held.store)
    if fmt:
        rule = Rule(Select("type", ("linear",)), {"weight": parse_format(fmt)})
        graph, _ = quantize(graph, QuantizeOptions((rule,)), context)
    graph, _ = prune(graph, options, context)
    return prune_activations(graph, PruneActivationsOptions(sparsity=0.25), context)[0]


def test_masks_of_before_patterns_open_as_elements() -> None:
    old = {"method": "l1", "ratio": 0.5, "scope": "local", "mask": "ab", "zeros": 3}
    held = decode(Sparsity, old)
    assert held == Sparsity("l1", 0.5, "local", "ab", 3) and held.pattern == "element" and not held.flows
    assert encode(held) == old  # nothing is added for who does not use it


@pytest.mark.parametrize("options", PATTERNS, ids=str)
def test_projects_keep_patterns_and_rules(options: PruneOptions, tmp_path: Path) -> None:
    graph = graph_with(options, "mlp")
    project = Project(SourceInfo("file.py:make", "model"), case("mlp").graph, Recipe(), graph)
    save_project(project, case("mlp").store, tmp_path / "p.espalier", everything=True)
    store = WeightStore(tmp_path / "work")
    again = load_project(tmp_path / "p.espalier", store).graph
    assert again == graph and again["first"].sparsity["data_in"].flows
    x = case("mlp").example
    assert torch.equal(run(build(again, store), x)[0], run(case("mlp").build(graph), x)[0])


@pytest.mark.parametrize("fmt", [None, "integer(width=8, frac_width=6)", "mxint"])
@pytest.mark.parametrize("options", PATTERNS, ids=str)
def test_packed_files_keep_them_and_their_size_is_told_beforehand(
    options: PruneOptions, fmt: str | None, tmp_path: Path
) -> None:
    for name in ("mlp", "bert"):
        held, graph = case(name), graph_with(options, name, fmt)
        project = Project(SourceInfo("file.py:make", name), graph, Recipe(), graph)
        done = export(project, held.store, "packed", tmp_path / f"{name}.packed.safetensors")
        assert done.bytes == static_score(graph).size_bytes == packed_size(graph) == Path(done.files[0]).stat().st_size
        opened = open_any(done.files[0], tmp_path / name, origin=Origin.TYPED)
        again = opened.project.graph
        for node in (n for n in graph if n.sparsity):
            old, new = node.sparsity["weight"], again[node.id].sparsity["weight"]
            assert (old.label, old.zeros, old.ratio) == (new.label, new.zeros, new.ratio)
            assert node.sparsity["data_in"] == again[node.id].sparsity["data_in"]
        torch.manual_seed(0)
        x = held.fresh(3, 5)
        pairs = zip(run(build(again, opened.store), x), run(held.build(graph), x), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)
