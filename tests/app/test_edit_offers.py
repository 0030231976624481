"""What the window offers for nodes of models that nobody here wrote, `edit_graph` does; the result runs."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

import espalier as es
from espalier.app.features.edits import offers
from espalier.app.features.edits.offers import Offer
from espalier.app.features.edits.recipe_edits import on_nodes
from espalier.model.document.codec import encode
from espalier.model.graph.graph import Graph, Node

transformers = pytest.importorskip("transformers")
TEXTS: dict[str, Any] = {"input_ids": torch.randint(0, 60, (2, 9))}
SMALL: dict[str, Any] = {"vocab_size": 61, "bos_token_id": None, "eos_token_id": None}


def gpt2() -> tuple[Any, dict[str, Any]]:
    """64 positions, Conv1D layers, a head that is tied to the embedding."""
    config = transformers.GPT2Config(n_positions=64, n_embd=36, n_layer=2, n_head=3, use_cache=False, **SMALL)
    return transformers.GPT2LMHeadModel(config), TEXTS


def llama() -> tuple[Any, dict[str, Any]]:
    """Grouped queries of an odd size, tied."""
    config = transformers.LlamaConfig(
        hidden_size=36, intermediate_size=50, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=1,
        max_position_embeddings=64, tie_word_embeddings=True, use_cache=False, **SMALL,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config), TEXTS


def resnet() -> tuple[Any, dict[str, Any]]:
    """Odd pictures, shortcuts with a stride."""
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 12], depths=[1, 2], layer_type="basic")
    return transformers.ResNetForImageClassification(config), {"pixel_values": torch.randn(2, 3, 33, 33)}


def rows(graph: Graph, node: Node) -> list[Offer]:
    """All that the menu would offer for a node."""
    return [offers.bypass(graph, [node.id]), offers.output(graph, node), *offers.replacements([node]),
            *offers.insertions(graph, [node])]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("build", [gpt2, llama, resnet])
def test_offers_on_foreign_models(build: Any) -> None:
    torch.manual_seed(0)
    net, example = build()
    model = es.trace(net.eval(), example)
    graph = model.project.graph
    calls = [n for n in graph if n.call in ("call_module", "call_function")]
    found = [(n, o) for n in calls for o in rows(graph, n) if not o.reason]
    assert len(found) > 100
    fewer = {k: v[:1, :7] if v.dtype == torch.long else v[:1] for k, v in example.items()}
    for node, offer in random.Random(3).sample(found, 25):
        model.edit_graph([encode(on_nodes(offer.edit, [node.id]))])  # type: ignore[attr-defined]
        result = model.to_torch()(**fewer)
        assert result["logits"].shape[0] == 1, (node.id, offer.title)
        model.undo()
