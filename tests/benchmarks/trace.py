"""Trace BERT-base (labels, dynamic batch and length) and a 70B Llama without weights, against bare torch.export."""

from __future__ import annotations

import contextlib
import io
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch.export import Dim

from model.opening import open_source
from model.source import load_source
from model.trace.trace import trace
from model.weights import WeightStore
from tests.benchmarks.record import ratio, report

BERT = "config:bert?task=sequence-classification"
LLAMA = ("config:llama?hidden_size=8192&intermediate_size=28672&num_hidden_layers=80&num_attention_heads=64"
         "&num_key_value_heads=8&vocab_size=128256&task=causal-lm&weights=none")  # fmt: skip


def bare(model: torch.nn.Module, example: dict[str, Any]) -> float:
    """Seconds of torch.export alone, with the same dynamic dimensions."""
    dynamic = {k: dict.fromkeys(range(v.dim()), Dim.AUTO) for k, v in example.items()}
    start = time.perf_counter()
    with contextlib.redirect_stderr(io.StringIO()):
        torch.export.export(model, (), example, strict=False, dynamic_shapes=dynamic)
    return time.perf_counter() - start


def bert() -> dict[str, Any]:
    """Our trace and the bare export in turn; the first pair only warms up."""
    loaded = load_source(BERT, ("input_ids", "attention_mask", "labels"))
    pairs, own = [], []
    for _ in range(4):
        reference = bare(loaded.model, loaded.example)
        start = time.perf_counter()
        traced = trace(loaded.model, loaded.example, WeightStore(Path(tempfile.mkdtemp())))
        pairs.append((time.perf_counter() - start, reference))
        own.append(traced.seconds["raise"] + traced.seconds["check"])
    mine, reference = sorted(pairs[1:], key=lambda p: p[0] / p[1])[1]
    return {
        **ratio(mine, reference, 1.15),
        "raise_and_check_seconds": round(sorted(own[1:])[1], 3),
        "target_raise": 0.3,
    }


def llama() -> dict[str, Any]:
    """Open the 70B configuration on meta; peak memory of the whole process."""
    start = time.perf_counter()
    opened = open_source(LLAMA, Path(tempfile.mkdtemp()))
    mine = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    loaded = load_source(LLAMA)
    reference = bare(loaded.model, loaded.example)
    return {
        **ratio(mine, reference, 0.5),
        "nodes": len(opened.project.graph),
        "peak_gb": round(peak, 2),
        "target_gb": 1.5,
    }


if __name__ == "__main__":
    figures = {"bert_base": bert()}
    if "--quick" not in sys.argv:
        figures["llama_70b"] = llama()
    report("trace", figures)
