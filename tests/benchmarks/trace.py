"""Trace BERT-base (labels, dynamic batch and length) and a 70B Llama without weights, against bare torch.export."""

from __future__ import annotations

import contextlib
import gc
import io
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.export import Dim, ExportedProgram

from espalier.model.graph.check import check
from espalier.model.opening import open_source
from espalier.model.sources.source import load_source
from espalier.model.store.weights import WeightStore
from espalier.model.trace.capture import capture
from espalier.model.trace.module_recovery import ModuleRecovery
from espalier.model.trace.trace import trace
from espalier.model.trace.training import with_training_dropout
from espalier.model.trace.weight_checks import weight_problems
from espalier.model.trust import Origin
from tests.benchmarks.record import ratio, report

ROUNDS = 5
BERT = "config:bert?task=sequence-classification"
LLAMA = ("config:llama?hidden_size=8192&intermediate_size=28672&num_hidden_layers=80&num_attention_heads=64"
         "&num_key_value_heads=8&vocab_size=128256&task=causal-lm&weights=none")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds by the clock, and of this process's processor time, which other programs hardly change."""

    clock: float
    processor: float


def timed(act: Callable[[], object]) -> Spent:
    """What one call takes. What was left over before is collected before, not by chance in one of the two compared."""
    gc.collect()
    start, busy = time.perf_counter(), time.process_time()
    act()
    return Spent(time.perf_counter() - start, time.process_time() - busy)


def bare(model: torch.nn.Module, example: dict[str, Any]) -> Spent:
    """torch.export alone, with the same dynamic dimensions."""
    dynamic = {k: dict.fromkeys(range(v.dim()), Dim.AUTO) for k, v in example.items()}
    with contextlib.redirect_stderr(io.StringIO()):
        return timed(lambda: torch.export.export(model, (), example, strict=False, dynamic_shapes=dynamic))


def bert() -> dict[str, Any]:
    """Our trace, the part after the capture, and the bare export in turn; the first round only warms up."""
    loaded = load_source(BERT, ("input_ids", "attention_mask", "labels"), origin=Origin.TYPED)
    model, example = loaded.model, loaded.example
    program = capture(model, example).program
    bares, traces, raises = [], [], []
    for _ in range(ROUNDS + 1):
        bares.append(bare(model, example))
        traces.append(timed(lambda: trace(model, example, WeightStore(Path(tempfile.mkdtemp())))))
        raises.append(timed(lambda: _raised(program, model, example)))
    clock = [t.clock / b.clock for t, b in zip(traces[1:], bares[1:], strict=True)]
    processor = [t.processor / b.processor for t, b in zip(traces[1:], bares[1:], strict=True)]
    return {
        "seconds": round(statistics.median(t.clock for t in traces[1:]), 3),
        "reference": round(statistics.median(b.clock for b in bares[1:]), 3),
        "ratio": round(statistics.median(clock), 3),
        "processor_ratio": round(statistics.median(processor), 3),
        "processor_ratios": [round(r, 3) for r in processor],
        "target": 1.15,
        "raise_and_check_processor_seconds": round(statistics.median(r.processor for r in raises[1:]), 3),
        "target_raise": 0.3,
    }


def _raised(program: ExportedProgram, model: torch.nn.Module, example: dict[str, Any]) -> None:
    """All that a trace does beyond the export: the graph, the look into training, the checks, the values of weights."""
    store = WeightStore(Path(tempfile.mkdtemp()))
    graph, _ = with_training_dropout(ModuleRecovery(program, model, store).graph(), model, example)
    check(graph)
    weight_problems(graph, store)


def llama() -> dict[str, Any]:
    """Open the 70B configuration on meta; peak memory of the whole process."""
    start = time.perf_counter()
    opened = open_source(LLAMA, Path(tempfile.mkdtemp()), origin=Origin.TYPED)
    mine = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    loaded = load_source(LLAMA, origin=Origin.TYPED)
    reference = bare(loaded.model, loaded.example).clock
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
