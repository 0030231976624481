"""What a sharded graph moves between its nodes."""

from __future__ import annotations

from pathlib import Path

from espalier.model.document.recipe import Step
from espalier.model.opening import open_source
from espalier.passes.base import Context, run_step
from espalier.passes.recipes.config import decode_options
from espalier.passes.sharding.apply import resharding


def test_the_size_of_a_split_tensor_moves_nothing(tmp_path: Path) -> None:
    opened = open_source("demo:reviews", tmp_path)
    step = Step("shard", decode_options("shard", {"mesh": "2", "strategy": "data"}))
    graph = run_step(opened.project.graph, step, Context(opened.store)).graph
    sizes = [n.id for n in graph if n.op == "sym_size" and n.inputs]
    assert sizes and any(graph.nodes[r.node].sharding for n in sizes for r in graph.nodes[n].inputs)
    assert not [r for r in resharding(graph) if r.target in sizes]
