"""Small random models of transformers, saved to a folder: architectures and sizes that Espalier does not choose."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from espalier.model.formats.base import parse_format
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Precision

NARROW: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_hidden_layers": 1}
GROUPED = {**NARROW, "num_key_value_heads": 2}
KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", GROUPED),
    "tied": ("LlamaForCausalLM", "LlamaConfig", {**GROUPED, "tie_word_embeddings": True}),
    "odd": ("LlamaForCausalLM", "LlamaConfig", {**GROUPED, "hidden_size": 36, "intermediate_size": 50, "head_dim": 10}),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", GROUPED),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {**GROUPED, "head_dim": 24}),
    "opt": ("OPTForCausalLM", "OPTConfig", {"hidden_size": 64, "ffn_dim": 96, "num_attention_heads": 4,
                                            "num_hidden_layers": 1, "word_embed_proj_dim": 64,
                                            "max_position_embeddings": 64}),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {"n_embd": 64, "n_layer": 1, "n_head": 4, "n_positions": 64,
                                               "bos_token_id": 1, "eos_token_id": 2}),
    "biased": ("LlamaForCausalLM", "LlamaConfig", {**GROUPED, "attention_bias": True}),
    "neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", NARROW),
    "t5": ("T5ForConditionalGeneration", "T5Config", {"num_layers": 1, "d_model": 64, "d_kv": 16, "d_ff": 96,
                                                      "num_heads": 4, "decoder_start_token_id": 0}),
    "bert": ("BertForSequenceClassification", "BertConfig", {**NARROW, "max_position_embeddings": 64}),
}  # fmt: skip


def made(kind: str, home: Path, dtype: str = "float32", **more: Any) -> Path:
    """A folder with a random model, its parameters away from 0 and from each other."""
    import transformers

    torch.manual_seed(3)
    cls, config, values = KINDS[kind]
    model = getattr(transformers, cls)(getattr(transformers, config)(**{"vocab_size": 100, **values, **more}))
    with torch.no_grad():
        for value in model.parameters():
            value.add_(torch.randn_like(value) / 10)
    model.to(getattr(torch, dtype)).save_pretrained(home)
    return home


def chosen(graph: Graph, choices: dict[str, str]) -> Graph:
    """The graph with formats by operation and port: {"linear.weight": "scaled_integer(width=8)"}."""
    formats: dict[str, dict[str, Precision]] = {}
    for place, text in choices.items():
        op, _, port = place.partition(".")
        formats.setdefault(op, {})[port] = Precision(parse_format(text))
    return graph.replace(*(replace(n, precision=formats[n.op]) for n in graph if n.op in formats))
