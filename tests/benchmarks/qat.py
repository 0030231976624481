"""A training step and an evaluation of a built BERT-mini with a format on each Linear's weight and input, against FP32.

Format and FP32 take turns; ratios of medians, by the clock and by processor time (others may work on the machine).
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from espalier.model.graph.graph import Graph
from espalier.model.opening import Opened, open_source
from espalier.model.registry import FORMATS
from espalier.model.torch.build import build
from espalier.model.torch.in_place import in_place
from espalier.model.trust import Origin
from espalier.passes.base import Context, run_step
from espalier.passes.jobs.heap import keep_freed_memory
from espalier.passes.recipes.config import load_recipe
from tests.benchmarks.record import report

SOURCE = ("config:bert?task=sequence-classification&num_hidden_layers=4&hidden_size=256&num_attention_heads=4"
          "&intermediate_size=1024&vocab_size=2000")  # fmt: skip
BATCH, LENGTH, PAIRS, WARM = 16, 64, 12, 3
MORE = ("scaled_integer(granularity=tensor)", "scaled_integer(width=4, granularity=group)")
STEP_TARGET, EVALUATION_TARGET = 1.12, 1.05
Call = Callable[[], None]


def quantised(opened: Opened, fmt: str) -> Graph:
    """The graph with the format on the weight and data_in of each Linear."""
    rule = {"select": {"by": "type", "values": ["linear"]}, "formats": {"weight": fmt, "data_in": fmt}}
    step = load_recipe({"steps": [{"pass": "quantize", "options": {"rules": [rule]}}]}).steps[0]
    return run_step(opened.project.base, step, Context(opened.store)).graph


def calls(graph: Graph, opened: Opened) -> tuple[Call, Call]:
    """One training step (AdamW), one evaluation of the same batch."""
    module = build(graph, opened.store)
    generator = torch.Generator().manual_seed(0)
    inputs = {"input_ids": torch.randint(0, 2000, (BATCH, LENGTH), generator=generator),
              "attention_mask": torch.ones(BATCH, LENGTH, dtype=torch.int64)}  # fmt: skip
    labels = torch.randint(0, 2, (BATCH,), generator=generator)
    optimiser = torch.optim.AdamW([p for p in module.parameters() if p.requires_grad], 1e-5, fused=True)

    def train() -> None:
        if not module.training:
            module.train()
        optimiser.zero_grad()
        with in_place(module):  # as every fine-tuning is
            torch.nn.functional.cross_entropy(module(**inputs)["logits"], labels).backward()
        optimiser.step()

    def evaluate() -> None:
        if module.training:  # the walk over all modules is no part of an evaluation
            module.eval()
        with in_place(module), torch.no_grad():  # as every evaluation here is
            module(**inputs)

    return train, evaluate


def compare(mine: Call, reference: Call, target: float) -> dict[str, Any]:
    """Ratios of medians of calls that take turns."""
    found: dict[Call, list[tuple[float, float]]] = {mine: [], reference: []}
    for turn in range(WARM + PAIRS):
        for call in (mine, reference) if turn % 2 else (reference, mine):
            before = time.perf_counter(), time.process_time()
            call()
            found[call].append((time.perf_counter() - before[0], time.process_time() - before[1]))
    wall, cpu = (
        [statistics.median(t[i] for t in found[c][WARM:]) for c in (mine, reference)] for i in range(2)
    )  # fmt: skip
    return {"ms": round(wall[0] * 1e3, 1), "fp32_ms": round(wall[1] * 1e3, 1), "ratio": round(wall[0] / wall[1], 3),
            "processor_ratio": round(cpu[0] / cpu[1], 3), "target": target}  # fmt: skip


def main() -> None:
    """Every registered format, or those named as arguments."""
    keep_freed_memory()  # as the worker does
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # as fine-tuning does
    named = [a for a in sys.argv[1:] if not a.startswith("--")]
    formats = named or [*(str(FORMATS.get(n)()) for n in FORMATS), *MORE]
    opened = open_source(SOURCE, Path(tempfile.mkdtemp()), origin=Origin.TYPED)
    train, evaluate = calls(opened.project.base, opened)
    rows: dict[str, Any] = {}
    for fmt in formats:
        step, look = calls(quantised(opened, fmt), opened)
        rows[fmt] = {
            "step": compare(step, train, STEP_TARGET),
            "evaluation": compare(look, evaluate, EVALUATION_TARGET),
        }
    report("qat", {"batch": BATCH, "length": LENGTH, "threads": 1, "formats": rows})


if __name__ == "__main__":
    main()
