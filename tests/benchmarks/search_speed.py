"""Trials a minute of a mixed-precision search on SST-2 BERT-tiny, beside a script that works as the labs do.

The script loads the model anew, tokenises the 872 sentences, swaps each Linear for one that rounds weight and input,
and calls Trainer.evaluate, trial by trial; same configurations, same formats (with the fast kernels). Its batch size is
the Trainer's own (8), as in the labs; beside it ours (64). Trials in turn, processor seconds: other work slows both.
Reads ../shared; an argument names a folder.
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
import torch.nn.functional as F
from torch import Tensor, nn

from espalier.model.document.recipe import Recipe
from espalier.model.formats.base import Format, parse_format
from espalier.model.formats.straight_through import straight_through
from espalier.model.opening import open_any
from espalier.model.sources.reading import Reading
from espalier.model.trust import Origin
from espalier.passes.base import Context
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.search.search import Search
from espalier.passes.search.spec import LINEAR, SearchSpec, Vary
from espalier.passes.search.study import Plan, StudyRun, begin
from tests.benchmarks.record import report
from tests.benchmarks.sst2 import LENGTH, SHARED, train

DATA = SHARED / "data" / "SST2"
WIDTHS, LAYERS = (4, 6, 8, 16), 14
BATCH, LABS, OURS, LONG, RUNGS = 64, 8, 24, 100, (64, 256)
EVERY = 6  # one of the script's trials, at each batch size, after so many of ours
VALUES = ", ".join(f"integer(width={w}, frac_width={w - 2})" for w in WIDTHS)


class Rounded(nn.Module):
    """The labs' quantised Linear: weight and input rounded at every call."""

    def __init__(self, inner: nn.Linear, fmt: Format) -> None:
        super().__init__()
        self.inner, self.fmt = inner, fmt

    def forward(self, x: Tensor) -> Tensor:
        """As the Linear, on rounded tensors."""
        return F.linear(straight_through(self.fmt, x), straight_through(self.fmt, self.inner.weight), self.inner.bias)


def labs_trial(folder: Path, formats: list[Format], size: int) -> float:
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
        arguments = TrainingArguments(out, per_device_eval_batch_size=size, report_to=[], disable_tqdm=True)
        trainer = Trainer(model, arguments, data_collator=DataCollatorWithPadding(tokenizer),
                          compute_metrics=lambda p: {"accuracy": float((p[0].argmax(-1) == p[1]).mean())})  # fmt: skip
        return float(trainer.evaluate(rows.remove_columns("text"))["eval_accuracy"])


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """(result, processor seconds, wall seconds)."""
    wall, processor = time.perf_counter(), time.process_time()
    found = work()
    return found, time.process_time() - processor, time.perf_counter() - wall


def begun(folder: Path, trials: int = OURS, **more: Any) -> StudyRun:
    """A search by chance that is ready."""
    made = Path(tempfile.mkdtemp())
    opened = open_any(str(folder), made, origin=Origin.TYPED)
    base = opened.project.base
    context = Context(opened.store, reading=Reading(str(folder)), base=base)
    score = EvaluateOptions(str(DATA), "validation", batch_size=BATCH, max_length=LENGTH)
    space = (Vary(select=LINEAR, ports=("weight", "data_in"), values=VALUES),)
    spec = SearchSpec("speed", space, sampler="random", trials=trials, score=score, **more)
    return begin(Plan(Search(spec, Recipe(), base), context, f"journal://{made}/s.journal"))


def in_turn(folder: Path) -> dict[str, Any]:
    """Ours, and between them the script's on the same configurations."""
    running, ready, _ = timed(lambda: begun(folder, LONG))
    trials = running.trials()
    mine: list[float] = []
    theirs: dict[int, list[float]] = {LABS: [], BATCH: []}
    apart = 0.0
    for number in range(OURS):
        trial, seconds, _ = timed(lambda: [next(trials), next(trials)][-1])
        mine.append(seconds)
        if number % EVERY == EVERY - 1:
            formats = [parse_format(trial.params[c.name]) for c in running.space.choices]
            for size, held in theirs.items():
                found, seconds, _ = timed(lambda size=size, formats=formats: labs_trial(folder, formats, size))
                held.append(seconds)
                apart = max(apart, abs(found - trial.figures["accuracy"]))
    mine += [timed(lambda: [next(trials), next(trials)][-1])[1] for _ in range(LONG - OURS)]
    return {"ready": ready, "mine": mine, "theirs": theirs, "apart": apart}


def with_rungs(folder: Path) -> dict[str, Any]:
    """The same search where trials that are surely worse than the best end on a subset."""
    running = begun(folder, pruner="rungs", rungs=RUNGS)
    trials, seconds, _ = timed(lambda: [t for t in running.trials() if t.state in ("complete", "pruned")])
    early = sum(t.state == "pruned" for t in trials)
    return {"rungs": RUNGS, "a_trial": round(seconds / len(trials), 4), "ended_early": early}


def main() -> None:
    """Both, on the same configurations."""
    if not SHARED.exists():
        report("search_speed", {"skipped": f"{SHARED.name} is absent"})
        return
    named = [a for a in sys.argv[1:] if not a.startswith("--")]
    folder = Path(named[0]) if named else Path(tempfile.mkdtemp()) / "bert-tiny-sst2"
    if not folder.exists():
        train(folder)
    torch.set_num_threads(1)
    eight = parse_format("integer(width=8, frac_width=6)")
    labs_trial(folder, [eight] * LAYERS, BATCH)  # imports are nobody's work
    found, rungs = in_turn(folder), with_rungs(folder)
    mine, theirs = found["mine"], found["theirs"]
    whole, long = sum(mine[:OURS]) / OURS, sum(mine) / LONG  # with what only the first trials do
    labs = {size: sum(held) / len(held) for size, held in theirs.items()}
    report("search_speed", {
        "sentences": 872, "layers": LAYERS, "threads": 1, "formats": WIDTHS, "processor_seconds_a_trial": {
            "ours": round(whole, 4), "ours_median": round(statistics.median(mine), 4),
            "labs": round(labs[LABS], 4), "labs_at_our_batch_size": round(labs[BATCH], 4)},
        "ours": f"search, random sampler, {OURS} complete trials, batches of {BATCH} (the default), no rungs; "
                f"every trial in its journal; the first, which reads and tokenises the data, included",
        "labs": f"{len(theirs[LABS])} trials, each: from_pretrained, read and tokenise, swap the Linears, "
                f"Trainer.evaluate with batches of {LABS} (the Trainer's default, as in the labs); "
                f"formats by our fast kernels",
        "ready": round(found["ready"], 3), "faster": round(labs[LABS] / whole, 2),
        "faster_at_equal_batch_size": round(labs[BATCH] / whole, 2), "target": 5,
        f"faster_over_{LONG}_trials": round(labs[LABS] / long, 2),
        "with_rungs": rungs | {"faster": round(labs[LABS] / rungs["a_trial"], 2)},
        "each": {"ours": [round(s, 3) for s in mine], "labs": {k: [round(s, 3) for s in v] for k, v in theirs.items()}},
        "largest_difference_of_accuracy": found["apart"],
    })  # fmt: skip


if __name__ == "__main__":
    main()
