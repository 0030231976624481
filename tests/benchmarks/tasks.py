"""Each task in each consumer, measured on tiny BERTs that are trained here on made data whose truth is known: 3-bit
weights, trained through them (QAT) and with adapters (LoRA); predicted against measured sensitivities; a search.

Prints a table in Markdown; `--task` limits it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import espalier as es
from espalier.passes.sensitivity.correction import spearman
from espalier.passes.tasks.base import TASKS
from tests.task_models import HEADS, write_task

STEPS = 40  # of QAT and LoRA
SHOWN = {"multi-label": ("accuracy", "f1_macro"), "regression": ("mse", "r2"),
         "masked-token": ("accuracy", "pseudo_perplexity"), "token-classification": ("accuracy", "f1")}  # fmt: skip
SPACE = [{"values": "integer(width=2|3|4|8)", "select": {"by": "type", "values": ["linear"]}}]


def measured(task: str, folder: Path) -> dict[str, str]:
    """Column → figures of a task."""
    write_task(folder, task, steps=250)
    source, data = str(folder), str(folder / "data")
    m = es.open(source)
    row = {"float": _text(task, m.score(data).summary)}
    m.quantize("linear", weight="integer(width=3)")
    low = m.score(data).summary
    row["3 bits"] = _text(task, low)
    m.finetune(data=data, max_steps=STEPS, learning_rate=2e-3)
    row["QAT"] = _text(task, m.score(data).summary)
    n = es.open(source)
    n.quantize("linear", weight="integer(width=3)").lora("linear", rank=4)
    n.finetune(data=data, max_steps=STEPS, learning_rate=3e-3, distil=0.5)
    row["LoRA"] = _text(task, n.score(data).summary)
    plain = es.open(source)
    table = plain.sensitivity(data, formats=["int8", "int4", "int2"], ports=["weight"], limit=128, exact=True).rows
    pairs = [(r["predicted"], r["measured"]) for r in table if r["measured"]]
    row["sensitivity"] = f"ρ = {spearman(*map(list, zip(*pairs, strict=True))):.3f} of {len(pairs)}"
    start = time.perf_counter()
    study = plain.search({"space": SPACE, "within": ["weight_bits<=14"]}, data=data, trials=20)
    best = {k: study.summary[k] for k in SHOWN[task]}
    row["search"] = f"{_text(task, best)} in {time.perf_counter() - start:.1f} s"
    return row


def _text(task: str, summary: dict[str, Any]) -> str:
    return ", ".join(f"{TASKS[task].title(name)} {summary[name]:.3f}" for name in SHOWN[task])


def main(words: Sequence[str] = ()) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", choices=tuple(HEADS))
    wanted = parser.parse_args(words).task
    columns = ("float", "3 bits", "QAT", "LoRA", "sensitivity", "search")
    lines = [f"| task | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for task in (wanted,) if wanted else HEADS:
        with tempfile.TemporaryDirectory() as folder:
            row = measured(task, Path(folder))
        lines.append(f"| {task} | {' | '.join(row[c] for c in columns)} |")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
