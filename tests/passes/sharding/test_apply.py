"""What a sharded graph moves between its nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from espalier.model.document.recipe import Step
from espalier.model.graph.meta import TensorMeta
from espalier.model.graph.node import Node, Ref
from espalier.model.opening import open_source
from espalier.passes.base import Context, run_step
from espalier.passes.recipes.config import decode_options
from espalier.passes.sharding.apply import _rules, _Shapes, resharding


@pytest.mark.slow
def test_the_size_of_a_split_tensor_moves_nothing(tmp_path: Path) -> None:
    opened = open_source("demo:reviews", tmp_path)
    step = Step("shard", decode_options("shard", {"mesh": "2", "strategy": "data"}))
    graph = run_step(opened.project.graph, step, Context(opened.store)).graph
    sizes = [n.id for n in graph if n.op == "sym_size" and n.inputs]
    assert sizes and any(graph.nodes[r.node].sharding for n in sizes for r in graph.nodes[n].inputs)
    assert not [r for r in resharding(graph) if r.target in sizes]


def test_equal_nodes_of_equal_blocks_share_their_strategies_and_keywords_count() -> None:
    """Which nodes they read does not matter; a dimension does, also as a keyword."""
    meta = TensorMeta((8, 16), "float32")

    def softmax(source: str, dim: int) -> Node:
        ports = {"data_in": meta, "data_out": meta}
        return Node("s", "softmax", "call_function", "aten.softmax.int", (Ref(source),), {"dim": dim}, ports)

    one, other, rows = (_Shapes(softmax(*given)) for given in (("a", 1), ("b", 1), ("a", 0)))
    assert one == other and _rules(one) is _rules(other) and one != rows
    split = [{r.ports["data_out"] for r in _rules(shapes)} for shapes in (one, rows)]
    assert "S0" in split[0] and "S1" not in split[0] and "S1" in split[1] and "S0" not in split[1]
