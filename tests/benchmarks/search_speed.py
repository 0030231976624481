"""Trials a minute of a mixed-precision search on SST-2 BERT-tiny, beside a script that works as the labs do.

The script loads the model anew, tokenises the 872 sentences, swaps each Linear for one that rounds weight and input,
and calls Trainer.evaluate, trial by trial; same configurations, same formats (with the fast kernels), same batch size.
Processor seconds of both, since other work on the machine slows both. Reads ../shared; an argument names a folder.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.formats.base import Format, parse_format
from model.opening import open_any
from model.recipe import Recipe
from passes.analysis.evaluate import EvaluateOptions
from passes.base import Context
from passes.search.search import Search
from passes.search.spec import LINEAR, SearchSpec, Vary
from passes.search.study import Plan, begin
from tests.benchmarks.record import report
from tests.benchmarks.sst2 import LENGTH, SHARED, train

DATA = SHARED / "data" / "SST2"
WIDTHS = (4, 6, 8, 16)
BATCH, OURS, THEIRS = 64, 12, 4
VALUES = ", ".join(f"integer(width={w}, frac_width={w - 2})" for w in WIDTHS)


class Rounded(nn.Module):
    """The labs' quantised Linear: weight and input rounded at every call."""

    def __init__(self, inner: nn.Linear, fmt: Format) -> None:
        super().__init__()
        self.inner, self.fmt = inner, fmt

    def forward(self, x: Tensor) -> Tensor:
        """As the Linear, on rounded tensors."""
        return F.linear(self.fmt.quantize(x), self.fmt.quantize(self.inner.weight), self.inner.bias)


def labs_trial(folder: Path, formats: list[Format]) -> float:
    """One trial of the script: its accuracy."""
    from datasets import load_dataset
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
    )

    model = AutoModelForSequenceClassification.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    names = {"column_names": ["text", "label"], "delimiter": "\t", "quoting": 3}
    raw = load_dataset("csv", data_files={"test": str(DATA / "dev.tsv")}, split="test", **names)
    rows = raw.map(lambda r: tokenizer(r["text"], truncation=True, max_length=LENGTH), batched=True,
                   load_from_cache_file=False).rename_column("label", "labels")  # fmt: skip
    layers = [n for n, m in model.named_modules() if isinstance(m, nn.Linear)]
    for name, fmt in zip(layers, formats, strict=True):
        model.set_submodule(name, Rounded(model.get_submodule(name), fmt))
    with tempfile.TemporaryDirectory() as out:
        arguments = TrainingArguments(out, per_device_eval_batch_size=BATCH, report_to=[], disable_tqdm=True)
        trainer = Trainer(model, arguments, data_collator=DataCollatorWithPadding(tokenizer),
                          compute_metrics=lambda p: {"accuracy": float((p[0].argmax(-1) == p[1]).mean())})  # fmt: skip
        return float(trainer.evaluate(rows.remove_columns("text"))["eval_accuracy"])


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """(result, processor seconds, wall seconds)."""
    wall, processor = time.perf_counter(), time.process_time()
    found = work()
    return found, time.process_time() - processor, time.perf_counter() - wall


def ours(folder: Path) -> dict[str, Any]:
    """A search by chance, from a ready study to its last trial; and what getting ready took."""
    made = Path(tempfile.mkdtemp())
    opened = open_any(str(folder), made)
    base = opened.project.base
    context = Context(opened.store, tokenizer=str(folder), base=base)
    score = EvaluateOptions(str(DATA), "validation", batch_size=BATCH, max_length=LENGTH)
    spec = SearchSpec("speed", (Vary(select=LINEAR, ports=("weight", "data_in"), values=VALUES),), sampler="random",
                      trials=OURS, score=score)  # fmt: skip
    running, ready, _ = timed(lambda: begin(Plan(Search(spec, Recipe(), base), context, f"journal://{made}/s.journal")))
    trials, seconds, wall = timed(lambda: [t for t in running.trials() if t.state == "complete"])
    assert len(trials) == OURS
    return {"trials": OURS, "ready": round(ready, 3), "seconds": round(seconds, 3), "wall": round(wall, 3),
            "a_trial": round(seconds / OURS, 4), "choices": [c.name for c in running.space.choices],
            "params": [t.params for t in trials], "accuracy": [t.figures["accuracy"] for t in trials]}  # fmt: skip


def main() -> None:
    """Both, on the same configurations."""
    if not SHARED.exists():
        report("search_speed", {"skipped": f"{SHARED.name} is absent"})
        return
    named = [a for a in sys.argv[1:] if not a.startswith("--")]
    folder = Path(named[0]) if named else Path(tempfile.mkdtemp()) / "bert-tiny-sst2"
    if not folder.exists():
        train(folder)
    random.seed(0)
    mine = ours(folder)
    params, choices = mine.pop("params"), mine.pop("choices")
    labs_trial(folder, [parse_format("integer(width=8, frac_width=6)")] * len(choices))  # imports are nobody's work
    rows = [[parse_format(p[c]) for c in choices] for p in params[:THEIRS]]
    found, seconds, wall = timed(lambda: [labs_trial(folder, r) for r in rows])
    told = {"trials": THEIRS, "seconds": round(seconds, 3), "wall": round(wall, 3),
            "a_trial": round(seconds / THEIRS, 4), "accuracy": found}  # fmt: skip
    accuracies = mine.pop("accuracy")
    report("search_speed", {
        "sentences": 872, "batch_size": BATCH, "threads": torch.get_num_threads(), "layers": len(choices),
        "ours": mine, "labs": told, "faster": round(told["a_trial"] / mine["a_trial"], 2), "target": 5,
        "largest_difference_of_accuracy": max(abs(a - b) for a, b in zip(accuracies, found, strict=False)),
    })  # fmt: skip


if __name__ == "__main__":
    main()
