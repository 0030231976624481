"""Trials that train, against a labs' script on equal work: BERT-tiny, a few hundred sentences of SST-2, an epoch each.

The script loads the model, reads and tokenises the sentences, quantises every Linear and trains with the Trainer anew
in each trial. One thread and trials in turn, as other work may run beside. Reads ../shared; says so where it is absent.
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from espalier.model.document.recipe import Recipe
from espalier.model.opening import open_source
from espalier.model.sources.reading import Reading
from espalier.model.trust import Origin
from espalier.passes.base import Context
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.search.search import Search
from espalier.passes.search.spec import SearchSpec, Training, Vary
from espalier.passes.search.study import Plan, run
from tests.benchmarks.record import report
from tests.benchmarks.sst2 import LENGTH, SHARED
from tests.benchmarks.training_sst2 import untrained

TRAIN, TEST, BATCH, RATE = 384, 192, 32, 3e-4
WIDTHS = (4, 6, 8, 12)
TARGET = 1.5


def sentences(folder: Path) -> None:
    """A small set of the real one."""
    for name, file, count in (("train", "train", TRAIN), ("validation", "dev", TEST)):
        lines = (SHARED / "data" / "SST2" / f"{file}.tsv").read_text().splitlines(keepends=True)
        (folder / f"{name}.tsv").write_text("".join(lines[:count]))


# -- the labs' way


class Quantised(nn.Linear):
    """Integers of a width and a fraction, straight through in training."""

    width = 8

    def forward(self, input: Tensor) -> Tensor:
        """As the labs' layer: weight, bias and input."""
        scale, top = 2.0 ** (self.width - 2), 2.0 ** (self.width - 1)

        def rounded(x: Tensor) -> Tensor:
            return x + ((x * scale).round().clamp(-top, top - 1) / scale - x).detach()

        return F.linear(rounded(input), rounded(self.weight), self.bias)


def quantised(model: nn.Module, width: int) -> None:
    """Every Linear in its place."""
    for name, layer in list(model.named_modules()):
        if type(layer) is nn.Linear:
            made = Quantised(layer.in_features, layer.out_features)
            made.width = width
            made.load_state_dict(layer.state_dict())
            parent = model.get_submodule(name.rpartition(".")[0])
            setattr(parent, name.rpartition(".")[2], made)


def tokenised(model: Path, file: Path) -> list[dict[str, Any]]:
    """Read and tokenise."""
    from transformers import AutoTokenizer

    rows = [line.rpartition("\t") for line in file.read_text().splitlines()]
    found = AutoTokenizer.from_pretrained(model)([r[0] for r in rows], truncation=True, max_length=LENGTH)
    return [{"input_ids": ids, "attention_mask": mask, "labels": int(row[2])}
            for ids, mask, row in zip(found["input_ids"], found["attention_mask"], rows, strict=True)]  # fmt: skip


def labs_trial(model: Path, data: Path, width: int, train: Training) -> float:
    """One objective of the labs' compression-aware search: build, train, compress, train again; the accuracy."""
    from transformers import AutoTokenizer, BertForSequenceClassification, DataCollatorWithPadding, Trainer
    from transformers import TrainingArguments as Arguments

    built = BertForSequenceClassification.from_pretrained(model)
    sets = [tokenised(model, data / f"{name}.tsv") for name in ("train", "validation")]

    def trainer() -> Trainer:
        with tempfile.TemporaryDirectory() as folder:
            arguments = Arguments(folder, num_train_epochs=1, per_device_train_batch_size=BATCH, learning_rate=RATE,
                                  per_device_eval_batch_size=64, report_to="none", disable_tqdm=True, use_cpu=True,
                                  logging_strategy="no", log_level="error", save_strategy="no")  # fmt: skip
            collator = DataCollatorWithPadding(AutoTokenizer.from_pretrained(model))
            return Trainer(built, arguments, data_collator=collator, train_dataset=sets[0], eval_dataset=sets[1],
                           compute_metrics=lambda p: {"accuracy": float((p[0].argmax(-1) == p[1]).mean())})  # fmt: skip

    if train == "both":
        trainer().train()
    trainer().evaluate()
    quantised(built, width)
    trainer().evaluate()
    again = trainer()
    again.train()
    return float(again.evaluate()["eval_accuracy"])


# -- ours


def our_trials(folder: str, data: str, train: Training) -> Any:
    """A search over the same widths, trial by trial."""
    opened = open_source(folder, Path(tempfile.mkdtemp()), origin=Origin.TYPED)
    score = EvaluateOptions(data=data, split="validation", max_length=LENGTH)
    formats = ", ".join(f"integer(width={w}, frac_width={w - 2})" for w in WIDTHS)
    tune = {"data": data, "epochs": 1.0, "batch_size": BATCH, "learning_rate": RATE, "validate": False, "keep": "last",
            "max_length": LENGTH}  # fmt: skip
    space = (Vary(values=formats, ports=("weight", "data_in"), per="all", fit=False),)
    spec = SearchSpec("speed", space, sampler="grid", trials=len(WIDTHS), score=score, train=train, finetune=tune)
    context = Context(opened.store, reading=Reading(folder))
    search = Search(spec, Recipe(), opened.project.base, opened.project.source)
    return run(Plan(search, context, f"journal:///{tempfile.mkdtemp()}/speed.journal"))


def timed(function: Callable[[], Any]) -> tuple[Any, float, float]:
    """(result, seconds, processor seconds)."""
    gc.collect()
    start, cpu = time.perf_counter(), time.process_time()
    found = function()
    return found, time.perf_counter() - start, time.process_time() - cpu


def compared(model: Path, data: Path, train: Training) -> dict[str, Any]:
    """Both ways in turn, trial by trial; ours with all that it does once, but the opening of the model."""
    labs_trial(model, data, 8, train)  # imports, caches
    trials = our_trials(str(model), str(data), train)
    ours, theirs = list[tuple[float, float]](), list[tuple[float, float]]()
    accuracies: dict[str, list[float]] = {"ours": [], "labs": []}
    for width in WIDTHS:
        _, wall, cpu = timed(lambda: next(trials))  # it begins
        trial, more, processor = timed(lambda: next(trials))
        ours.append((wall + more, cpu + processor))
        accuracies["ours"].append(round(trial.figures["accuracy"], 4))
        found, wall, cpu = timed(lambda width=width: labs_trial(model, data, width, train))
        theirs.append((wall, cpu))
        accuracies["labs"].append(round(found, 4))
    sums = [[round(sum(t[i] for t in side), 2) for side in (ours, theirs)] for i in (0, 1)]
    return {"trials": len(WIDTHS), "seconds": sums[0][0], "labs_seconds": sums[0][1], "processor_seconds": sums[1][0],
            "labs_processor_seconds": sums[1][1], "times_faster": round(sums[0][1] / sums[0][0], 2),
            "times_less_processor": round(sums[1][1] / sums[1][0], 2), "target": TARGET,
            "trials_a_minute": round(60 * len(WIDTHS) / sums[0][0], 1), "accuracies": accuracies}  # fmt: skip


def main() -> None:
    """Training after compression alone, and before and after it."""
    if not SHARED.exists():
        report("search_trained", {"skipped": f"{SHARED.name} is absent"})
        return
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        model, data = Path(folder) / "model", Path(folder) / "data"
        model.mkdir()
        data.mkdir()
        untrained(model)
        sentences(data)
        rows = {train: compared(model, data, train) for train in ("both", "after")}
    report("search_trained", {"sentences": TRAIN, "measured_on": TEST, **rows})


if __name__ == "__main__":
    main()
