"""LoRA on all Linears of BERT-base: insert and fuse, against PEFT on the same model in the same run."""

from __future__ import annotations

import copy
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peft
import torch

from espalier.model.document.recipe import Step
from espalier.model.opening import open_source
from espalier.model.sources.source import load_source
from espalier.model.trust import Origin
from espalier.passes.base import Context, run_step
from espalier.passes.choices.lora import LoraOptions
from espalier.passes.transform.fuse_lora import FuseLoraOptions
from tests.benchmarks.record import report

SPEC = "config:bert?task=sequence-classification"
ROUNDS = 5


def timed(function: Callable[[], Any]) -> tuple[Any, float, float]:
    """(result, seconds, processor seconds)."""
    start, spent = time.perf_counter(), time.process_time()
    result = function()
    return result, time.perf_counter() - start, time.process_time() - spent


def figure(mine: list[tuple[float, float]], other: list[tuple[float, float]], target: float) -> dict[str, Any]:
    """Medians of both; the target is of our seconds."""
    seconds, processor = (round(statistics.median(m[i] for m in mine), 4) for i in (0, 1))
    reference = round(statistics.median(o[0] for o in other), 4)
    return {"seconds": seconds, "processor_seconds": processor, "target_seconds": target, "peft_seconds": reference,
            "ratio": round(seconds / reference, 3)}  # fmt: skip


def main() -> None:
    """Ours and PEFT in turn, once to warm up and then five rounds; medians."""
    opened = open_source(SPEC, Path(tempfile.mkdtemp()), origin=Origin.TYPED)
    graph, context = opened.project.graph, Context(opened.store)
    model = load_source(SPEC, origin=Origin.TYPED).model
    lines = [n.target for n in graph if n.op == "linear"]
    config = peft.LoraConfig(r=8, lora_alpha=16, target_modules=lines)
    insert, fuse, other_insert, other_fuse = (list[Any]() for _ in range(4))
    summary: dict[str, Any] = {}
    for i in range(ROUNDS + 1):
        made, *mine = timed(lambda i=i: run_step(graph, Step("lora", LoraOptions(), i), context))
        done, *fused = timed(lambda made=made: run_step(made.graph, Step("fuse_lora", FuseLoraOptions()), context))
        fresh: Any = copy.deepcopy(model)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            adapted, *theirs = timed(lambda fresh=fresh: peft.get_peft_model(fresh, config))
            _, *merged = timed(adapted.merge_and_unload)
        if i:
            for kept, found in ((insert, mine), (fuse, fused), (other_insert, theirs), (other_fuse, merged)):
                kept.append(tuple(found))
        summary = {**made.report.summary, "fused": done.report.summary["fused"]}
    report("lora", {"adapters": summary["adapters"], "added": summary["added"], "fused": summary["fused"],
                    "trainable_share": round(summary["trainable_share"], 4), "threads": torch.get_num_threads(),
                    "insert": figure(insert, other_insert, 0.2), "fuse": figure(fuse, other_fuse, 0.5)})  # fmt: skip


if __name__ == "__main__":
    main()
