"""Real text, trained by Espalier itself: a BERT-tiny on SST-2 from scratch, LoRA against full fine-tuning,
and half of the heads and neurons removed.

LoRA and full fine-tuning begin at a model that was trained on one half of the sentences and train on the other half.
Reads ../shared (or ESPALIER_SHARED); says so and ends where it is absent.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from espalier.model.graph.graph import Graph
from espalier.model.opening import open_source
from espalier.model.sources.reading import Reading
from espalier.model.trust import Origin
from espalier.passes.base import Context
from tests.benchmarks.formats_sst2 import DATA, accuracy, step
from tests.benchmarks.record import report
from tests.benchmarks.sst2 import SHARED

SFT = {"epochs": 4.0, "learning_rate": 5e-4, "batch_size": 32, "validate": False, "keep": "last"}
FURTHER = SFT | {"epochs": 3.0, "learning_rate": 1e-4}
LORA_RATE = 2e-3
AGAIN = SFT | {"epochs": 1.0, "learning_rate": 1e-4}
SENTENCES = 6920


def untrained(folder: Path) -> None:
    """A BERT-tiny with random weights, as a Hugging Face folder with its tokenizer."""
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    config = BertConfig(vocab_size=30522, num_hidden_layers=2, hidden_size=128, num_attention_heads=2,
                        intermediate_size=512, num_labels=2)  # fmt: skip
    BertForSequenceClassification(config).save_pretrained(folder)
    for file in (SHARED / "data" / "wordpiece").glob("*"):
        if file.name != "config.json":
            shutil.copy(file, folder)


def halves(folder: Path) -> tuple[str, str]:
    """The training sentences in two folders, every other one in each."""
    lines = (SHARED / "data" / "SST2" / "train.tsv").read_text().splitlines(keepends=True)
    for name, rows in (("first", lines[::2]), ("second", lines[1::2])):
        (folder / name).mkdir()
        (folder / name / "train.tsv").write_text("".join(rows))
    return str(folder / "first"), str(folder / "second")


class Bench:
    """A model's graph, trained and measured by passes."""

    def __init__(self, folder: Path) -> None:
        opened = open_source(str(folder), Path(tempfile.mkdtemp()), origin=Origin.TYPED)
        self.context, self.base = Context(opened.store, reading=Reading(str(folder))), opened.project.base

    def train(self, graph: Graph, options: dict[str, Any], data: str = DATA["data"]) -> tuple[Graph, dict[str, Any]]:
        """The trained graph, and its row: accuracy on the 872 validation sentences, what trained, how long."""
        start = time.perf_counter()
        found = step(graph, "finetune", DATA | options | {"data": data}, self.context)
        row = {"accuracy": accuracy(found.graph, self.context),
               "trainable_parameters": found.report.summary["trainable_parameters"],
               "seconds": round(time.perf_counter() - start, 1)}  # fmt: skip
        return found.graph, row

    def edited(self, graph: Graph, name: str, options: dict[str, Any]) -> Graph:
        """The graph after one pass."""
        return step(graph, name, options, self.context).graph

    def before_and_after(self, graph: Graph) -> dict[str, Any]:
        """Accuracy as it is, and after an epoch of training."""
        row = {"before": accuracy(graph, self.context)}
        return row | {"after_an_epoch": self.train(graph, AGAIN)[1]["accuracy"]}


def lora_against_sft(bench: Bench, folder: Path) -> dict[str, Any]:
    """Both from the start that saw the first half, on the second half."""
    first, second = halves(folder)
    start, row = bench.train(bench.base, SFT, first)
    _, full = bench.train(start, FURTHER, second)
    with_lora = bench.edited(start, "lora", {"rank": 8, "alpha": 16.0, "dropout": 0.05, "train_head": True})
    _, lora = bench.train(with_lora, FURTHER | {"learning_rate": LORA_RATE}, second)
    return {"start": row, "sft": full, "lora": lora,
            "trainable_share": round(lora["trainable_parameters"] / full["trainable_parameters"], 4)}  # fmt: skip


def main() -> None:
    """Train from scratch, then each of the rest."""
    if not SHARED.exists():
        report("training_sst2", {"skipped": f"{SHARED.name} is absent"})
        return
    folder = Path(tempfile.mkdtemp())
    untrained(folder / "bert-tiny")
    bench = Bench(folder / "bert-tiny")
    rows: dict[str, Any] = {}

    def note(name: str, row: dict[str, Any]) -> None:
        rows[name] = row
        print(name, row, file=sys.stderr, flush=True)

    trained, row = bench.train(bench.base, SFT)
    note("from scratch", row)
    note("LoRA against full fine-tuning", lora_against_sft(bench, folder))
    halved = trained
    for what in ("heads", "neurons"):
        halved = bench.edited(halved, "prune_structured", {"what": what, "ratio": 0.5})
    note("half the heads and neurons, removed", bench.before_and_after(bench.edited(halved, "remove_pruned", {})))
    report("training_sst2", {"sentences": 872, "rows": rows})


if __name__ == "__main__":
    main()
