"""Random language models of transformers in sharded folders with tokenizer and texts; their results in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from espalier.model.document.recipe import Recipe, Step
from espalier.model.opening import Opened, open_any
from espalier.passes.base import Context
from espalier.passes.choices.autoround import AutoroundOptions
from espalier.passes.choices.awq import AwqOptions
from espalier.passes.choices.gptq import GptqOptions
from espalier.passes.choices.presets import QuantizePresetOptions
from espalier.passes.recipes.replay import replay
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.transform.smoothquant import SmoothquantOptions
from tests.language_models import text_of, write_tokenizer
from tests.passes.export.models import made

TENSORS = dict[str, torch.Tensor]
SIZES: dict[str, dict[str, Any]] = {
    "llama": {}, "tied": {}, "qwen2": {}, "opt": {"max_position_embeddings": 128},
    "gpt2": {"n_layer": 2, "n_positions": 128},
}  # fmt: skip


def folder_of(kind: str, home: Path, dtype: str = "bfloat16", shard: str = "40KB") -> Path:
    """A folder with several shards, an odd vocabulary, a tokenizer, and texts in train.txt and test.txt beside it."""
    size = len(write_tokenizer(home))
    layers = {} if kind == "gpt2" else {"num_hidden_layers": 2}
    made(kind, home, dtype, vocab_size=size + 7, **layers, **SIZES[kind])
    from transformers import AutoModelForCausalLM

    AutoModelForCausalLM.from_pretrained(home).save_pretrained(home, max_shard_size=shard)
    if (home / "model.safetensors.index.json").exists():
        (home / "model.safetensors").unlink(missing_ok=True)
    (home.parent / "train.txt").write_text(text_of(500, 1), encoding="utf-8")
    (home.parent / "test.txt").write_text(text_of(400, 2), encoding="utf-8")
    return home


def recipe_of(*names: str, home: Path, group: int = 32) -> Recipe:
    """Steps by the names of passes; `preset` is W4A16 in groups of 32 inputs."""
    data: dict[str, Any] = {"data": str(home.parent / "train.txt"), "max_length": 24, "limit": 6, "batch_size": 4}
    options: dict[str, Any] = {
        "preset": QuantizePresetOptions("w4a16_g128", group=group, uneven="channel"),
        "smoothquant": SmoothquantOptions(**data), "awq": AwqOptions(**data), "gptq": GptqOptions(**data),
        "autoround": AutoroundOptions(**data, steps=5),
    }  # fmt: skip
    return Recipe(tuple(Step("quantize_preset" if n == "preset" else n, options[n]) for n in names))


def score_of(home: Path) -> EvaluateOptions:
    """Windows of 20 tokens, four in a batch."""
    return EvaluateOptions(data=str(home.parent / "test.txt"), max_length=20, batch_size=4, limit=10)


def in_memory(home: Path, recipe: Recipe, work: Path) -> tuple[Opened, Context]:
    """The model opened whole, with the recipe's result as its project's graph."""
    from dataclasses import replace

    opened = open_any(str(home), work, cached=False)
    context = Context(opened.store, reading=opened.project.source.reading, base=opened.project.graph)
    graph = replay(opened.project.graph, recipe, context).graph
    opened.project = replace(opened.project, graph=graph)
    return opened, context


def tensors_of(folder: Path) -> TENSORS:
    """All tensors of a folder's safetensors files."""
    found: TENSORS = {}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, "pt") as opened:
            found |= {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 - no mapping
    return found
