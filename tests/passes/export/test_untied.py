"""A tied model whose head and embedding differ leaves as it was measured, and transformers reads that back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from espalier.model.formats.base import parse_format
from espalier.model.graph.meta import Precision
from espalier.model.opening import open_any
from espalier.model.torch.build import build
from espalier.passes.export import export

SMALL: dict[str, Any] = {"vocab_size": 100}
NARROW = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 2, "num_hidden_layers": 1}
KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {"n_layer": 1, "n_embd": 32, "n_head": 2, "n_positions": 32,
                                               "bos_token_id": 1, "eos_token_id": 2}),
    "llama": ("LlamaForCausalLM", "LlamaConfig", {**NARROW, "num_key_value_heads": 2, "tie_word_embeddings": True}),
    "t5": ("T5ForConditionalGeneration", "T5Config", {"num_layers": 1, "d_model": 32, "d_kv": 16, "d_ff": 48,
                                                      "num_heads": 2, "decoder_start_token_id": 0}),
    "bert": ("BertForMaskedLM", "BertConfig", {**NARROW, "max_position_embeddings": 32}),
}  # fmt: skip
AUTO = {"t5": "AutoModelForSeq2SeqLM", "bert": "AutoModelForMaskedLM"}
INT4, INT8 = "scaled_integer(width=4)", "scaled_integer(width=8)"
CHOICES = {"head": {"linear": INT4}, "embedding": {"embedding": INT8}, "both": {"linear": INT4, "embedding": INT8},
           "alike": {"linear": INT8, "embedding": INT8}}  # fmt: skip


def made(kind: str, home: Path) -> Path:
    import transformers

    torch.manual_seed(3)
    cls, config, values = KINDS[kind]
    model = getattr(transformers, cls)(getattr(transformers, config)(**SMALL, **values))
    with torch.no_grad():
        for value in model.parameters():  # away from 0 and from each other: biases and norms count too
            value.add_(torch.randn_like(value) / 3)
    model.save_pretrained(home)
    return home


@pytest.mark.sampled(0.25)
@pytest.mark.slow
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("kind", KINDS)
def test_transformers_reads_the_model_that_was_measured(kind: str, choice: str, tmp_path: Path) -> None:
    import transformers

    home, out = made(kind, tmp_path / "home"), tmp_path / "out"
    opened = open_any(str(home), tmp_path / "work")
    base = opened.project.graph
    name = next(n.weights["weight"] for n in base if n.op == "embedding")
    tied = [n for n in base if n.op in CHOICES[choice] and n.weights.get("weight") == name]
    formats = {op: Precision(parse_format(text)) for op, text in CHOICES[choice].items()}
    graph = base.replace(*(replace(n, precision={"weight": formats[n.op]}) for n in tied))
    done = export(replace(opened.project, graph=graph), opened.store, "safetensors", out)
    model = getattr(transformers, AUTO.get(kind, "AutoModelForCausalLM")).from_pretrained(out).eval()
    ids = torch.randint(3, 100, (2, 9))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    inputs |= {"decoder_input_ids": ids[:, :5]} if kind == "t5" else {}
    with torch.no_grad():
        mine, plain = (build(g, opened.store)(**inputs)["logits"] for g in (graph, base))
        torch.testing.assert_close(model(**inputs).logits, mine)
    assert float((mine - plain).abs().max()) > 1e-3, "the formats change something"
    before, after = (json.loads((f / "config.json").read_text()) for f in (home, out))
    untied = choice != "alike"
    assert after == before | ({"tie_word_embeddings": False} if untied else {}), "use_cache and all others stay"
    told = [note for note in done.notes if "tie_word_embeddings = false" in note]
    assert len(told) == untied and all("one tensor in the source" in note for note in told)
    assert not list(out.glob(".untied-*"))
