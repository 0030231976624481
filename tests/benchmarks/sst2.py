"""Real text: a BERT-tiny trained on SST-2 sentences, then integer 16, integer 4/2, l1 and random pruning.

The curves that the field's labs found. Reads ../shared (or ESPALIER_SHARED); says so and ends where it is absent.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from espalier.model.data.loading import load_data
from espalier.model.opening import open_source
from espalier.model.sources.reading import Reading
from espalier.model.trust import Origin
from espalier.passes.base import Context
from espalier.passes.recipes.config import load_recipe
from espalier.passes.recipes.replay import replay
from espalier.passes.running.splits import EvaluateOptions
from tests.benchmarks.record import report

SHARED = Path(os.environ.get("ESPALIER_SHARED", Path(__file__).resolve().parents[3] / "shared"))
EPOCHS, LENGTH, RATE = 4, 48, 5e-4


def train(folder: Path, seed: int = 0) -> None:
    """A BERT-tiny from scratch (AdamW, linear decay), saved as a Hugging Face folder with its tokenizer."""
    from transformers import BertConfig, BertForSequenceClassification

    tokenizer = SHARED / "data" / "wordpiece"
    data = load_data(str(SHARED / "data" / "SST2"), tokenizer=tokenizer, max_length=LENGTH)
    split = data.split("train")
    torch.manual_seed(seed)
    config = BertConfig(vocab_size=30522, num_hidden_layers=2, hidden_size=128, num_attention_heads=2,
                        intermediate_size=512, num_labels=2)  # fmt: skip
    model = BertForSequenceClassification(config).train()
    steps = EPOCHS * -(-len(split) // 32)
    optimiser = torch.optim.AdamW(model.parameters(), RATE, fused=True)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, steps)
    inputs = {k: torch.from_numpy(v) for k, v in split.inputs.items()}
    labels = torch.from_numpy(split.labels)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(split)).split(32):
            loss = model(**{k: v[rows] for k, v in inputs.items()}, labels=labels[rows]).loss
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            schedule.step()
    model.save_pretrained(folder)
    for file in tokenizer.glob("*"):
        if file.name != "config.json":
            shutil.copy(file, folder)


def integer(width: int, fraction: int) -> dict[str, Any]:
    """The labs' dict: all Linears, all three ports."""
    ports = ("data_in", "weight", "bias")
    config = {"name": "integer", **{f"{p}_width": width for p in ports}, **{f"{p}_frac_width": fraction for p in ports}}
    return {
        "quantize_transform_pass": {"by": "type", "default": {"config": {"name": None}}, "linear": {"config": config}}
    }


def pruned(sparsity: float, method: str) -> dict[str, Any]:
    """The labs' dict."""
    return {"prune_transform_pass": {"weight": {"sparsity": sparsity, "method": method, "scope": "local"}}}


RECIPES: dict[str, dict[str, Any]] = {
    "baseline": {"steps": []},
    "integer 16/8": integer(16, 8), "integer 8/4": integer(8, 4), "integer 4/2": integer(4, 2),
    **{f"{m} {s:.0%}": pruned(s, m) for s in (0.3, 0.5, 0.7) for m in ("l1-norm", "random")},
}  # fmt: skip


def main() -> None:
    """Train once, replay each recipe, evaluate on the 872 sentences of the validation set."""
    if not SHARED.exists():
        report("sst2", {"skipped": f"{SHARED.name} is absent"})
        return
    folder = Path(tempfile.mkdtemp()) / "bert-tiny-sst2"
    start = time.perf_counter()
    train(folder)
    seconds = time.perf_counter() - start
    opened = open_source(str(folder), folder.parent / "work", origin=Origin.TYPED)
    context = Context(opened.store, reading=Reading(str(folder)))
    options = {"data": str(SHARED / "data" / "SST2"), "split": "validation", "max_length": LENGTH}
    rows = {}
    for name, recipe in RECIPES.items():
        graph = replay(opened.project.base, load_recipe(recipe), context).graph
        summary = _evaluate(graph, EvaluateOptions(**options), context)
        rows[name] = {k: round(summary[k], 4) for k in ("accuracy", "loss", "weight_bits", "sparsity", "size_bytes")}
    report("sst2", {"epochs": EPOCHS, "train_seconds": round(seconds, 1), "rows": rows})


def _evaluate(graph: Any, options: EvaluateOptions, context: Context) -> dict[str, Any]:
    from espalier.passes.analysis.evaluate import evaluate

    return evaluate(graph, options, context)[1].summary


if __name__ == "__main__":
    main()
