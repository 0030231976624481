"""The demo of digits, fine-tuned in a few steps."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import torch

from espalier.model.document.recipe import Step
from espalier.model.graph.graph import Graph
from espalier.model.opening import Opened, open_source
from espalier.model.store.weights import WeightStore
from espalier.model.torch.tensors import to_torch
from espalier.passes.base import Context, Report, run_step
from espalier.passes.recipes.config import decode_options

DATA = "demo:digits"


SHORT: dict[str, Any] = {"data": DATA, "max_steps": 6, "batch_size": 16, "train_limit": 128, "validation_limit": 90,
                         "learning_rate": 1e-3}  # fmt: skip


@cache
def opened() -> Opened:
    return open_source("demo:digits-mlp", Path(tempfile.mkdtemp(prefix="espalier-tests-")))


def context(**hooks: Any) -> Context:
    return Context(opened().store, **hooks)


def finetuned(graph: Graph, held: Context | None = None, seed: int = 0, **options: Any) -> tuple[Graph, Report]:
    step = Step("finetune", decode_options("finetune", SHORT | options), seed)
    done = run_step(graph, step, held or context())
    return done.graph, done.report


def values(graph: Graph, store: WeightStore | None = None) -> dict[str, torch.Tensor]:
    held = store or opened().store
    return {n: to_torch(held.get(w.key)).clone() for n, w in graph.weights.items() if w.key}


def pruned(ratio: float) -> Step:
    return Step("prune", decode_options("prune", {"sparsity": ratio}))
