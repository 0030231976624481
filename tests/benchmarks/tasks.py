"""Each task in each consumer, on tiny models that are trained here on made data whose truth is known: 3-bit weights,
trained through them (QAT) and with adapters (LoRA), predicted against measured sensitivities, and a search.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import espalier as es
from espalier.passes.sensitivity.correction import spearman
from tests.benchmarks.record import report
from tests.task_models import HEADS, write_task

STEPS, TRIALS, SAMPLES = 40, 20, 128  # of QAT and LoRA; of the search; of the sensitivities
SHOWN = {"multi-label": ("accuracy", "f1_macro"), "regression": ("mse", "r2"),
         "masked-token": ("accuracy", "pseudo_perplexity"), "token-classification": ("accuracy", "f1"),
         "question-answering": ("f1", "exact_match"), "segmentation": ("miou", "accuracy"),
         "seq2seq": ("accuracy", "perplexity"), "audio": ("accuracy", "loss"),
         "contrastive": ("recall_1", "loss")}  # fmt: skip
LAYERS = {"segmentation": ["linear", "conv2d"], "audio": ["linear", "conv1d"]}
FORMATS = ("int8", "int4", "integer(width=3)")


def measured(task: str, folder: Path) -> dict[str, dict[str, float]]:
    """Consumer → figures of a task."""
    write_task(folder, task, steps=250)
    source, data = str(folder), str(folder / "data")

    def scored(model: es.Model) -> dict[str, float]:
        summary = model.score(data).summary
        return {"n": summary["n"], **{name: round(summary[name], 4) for name in SHOWN[task]}}

    layers = LAYERS.get(task, ["linear"])
    space = [{"values": "integer(width=2|3|4|8)", "select": {"by": "type", "values": layers}}]
    m, n, plain = es.open(source), es.open(source), es.open(source)
    row = {"float": scored(m) | {"guessing": round(m.score(data).summary["guessing"], 4)}}
    m.quantize(layers, weight="integer(width=3)")
    row["3-bit weights"] = scored(m)
    m.finetune(data=data, max_steps=STEPS, learning_rate=2e-3)
    row["QAT"] = scored(m)
    n.quantize(layers, weight="integer(width=3)").lora("linear", rank=4)
    n.finetune(data=data, max_steps=STEPS, learning_rate=3e-3, distil=0.5)
    row["LoRA"] = scored(n)
    row["sensitivity"] = _sensitivity(plain, data)
    start = time.perf_counter()
    study = plain.search({"space": space, "within": ["weight_bits<=14"]}, data=data, trials=TRIALS)
    row["search"] = {name: round(float(study.summary[name]), 4) for name in (*SHOWN[task], "weight_bits")}
    row["search"]["seconds"] = round(time.perf_counter() - start, 2)
    return row


def _sensitivity(model: es.Model, data: str) -> dict[str, float]:
    """Rank correlation of predicted and measured divergences."""
    table = model.sensitivity(data, formats=FORMATS, ports=["weight"], limit=SAMPLES, exact=True).rows
    pairs = [(r["predicted"], r["measured"]) for r in table if r["measured"]]
    predicted, found = ([pair[i] for pair in pairs] for i in (0, 1))
    return {"spearman": round(spearman(predicted, found), 4), "candidates": len(pairs)}


def main() -> None:
    """Print the figures as JSON."""
    found: dict[str, Any] = {}
    for task in HEADS:
        with tempfile.TemporaryDirectory() as folder:
            found[task] = measured(task, Path(folder))
    report("tasks", {"steps": STEPS, "trials": TRIALS, **found})


if __name__ == "__main__":
    main()
