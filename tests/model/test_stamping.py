"""Stamped graphs of models without weights equal those captured whole."""

from __future__ import annotations

from pathlib import Path

import pytest

import model.trace.trace as module
from model.graph import Graph, Ref, map_refs
from model.source import load_source
from model.trace.stamping import find_stack
from model.weights import WeightStore

SMALL = "hidden_size=32&num_attention_heads=2&intermediate_size=64&num_hidden_layers=9&vocab_size=100&weights=none"


def canonical(graph: Graph) -> list[object]:
    """The graph by position: ids do not matter, edges do."""
    place = {name: str(i) for i, name in enumerate(_ordered(graph))}
    found = []
    for name in place:
        node = map_refs(graph.nodes[name], lambda r: Ref(place[r.node], r.output))
        found.append(
            (node.op, node.call, node.target, node.args, node.kwargs, node.ports, node.weights, node.module_path)
        )
    return found


def _ordered(graph: Graph) -> list[str]:
    """Depth first from the output, so that equal graphs are walked alike whatever their nodes' order."""
    seen: dict[str, None] = {}
    stack = [graph.output.id]
    while stack:
        name = stack.pop()
        if name not in seen:
            seen[name] = None
            stack += [r.node for r in graph.nodes[name].inputs]
    return list(seen)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["llama", "bert"])
def test_stamped_equals_whole(kind: str, tmp_path: Path) -> None:
    loaded = load_source(f"config:{kind}?{SMALL}")
    assert find_stack(loaded.model) is not None
    stamped = module.trace(loaded.model, loaded.example, WeightStore(tmp_path)).graph
    whole = module._whole(loaded.model, loaded.example, WeightStore(tmp_path), None).graph
    assert set(stamped.weights) == set(whole.weights)
    assert canonical(stamped) == canonical(whole)


def test_blocks_that_differ_are_not_stamped() -> None:
    loaded = load_source(f"config:gemma2?{SMALL}&num_key_value_heads=2&head_dim=16&task=causal-lm")
    assert find_stack(loaded.model) is None


def test_models_with_weights_are_captured_whole() -> None:
    loaded = load_source(f"config:bert?{SMALL.replace('&weights=none', '')}")
    assert find_stack(loaded.model) is None
