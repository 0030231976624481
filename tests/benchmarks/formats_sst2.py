"""Real text under every number format: a BERT-tiny trained on SST-2, quantised (PTQ), then trained one epoch (QAT).

Formats stand on the weight and data_in of each Linear. Then fixed point of widths 4…32 at a fraction of 4 bits.
Reads ../shared (or ESPALIER_SHARED); says so and ends where it is absent.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from espalier.model.graph.graph import Graph
from espalier.model.opening import open_source
from espalier.model.registry import FORMATS
from espalier.model.sources.reading import Reading
from espalier.model.trust import Origin
from espalier.passes.base import Context, run_step
from espalier.passes.recipes.config import load_recipe
from tests.benchmarks.record import report
from tests.benchmarks.sst2 import LENGTH, SHARED, train

WIDTHS, FRACTION = (4, 5, 6, 7, 8, 12, 16, 32), 4
DATA = {"data": str(SHARED / "data" / "SST2"), "max_length": LENGTH}
# One epoch, the last weights: nothing is chosen by the sentences that it is measured on. The word embedding, which has
# no format and nine tenths of the parameters, stays.
QAT = {**DATA, "epochs": 1.0, "learning_rate": 1e-4, "batch_size": 32, "validate": False, "keep": "last",
       "freeze": [{"by": "module", "values": ["bert.embeddings.word_embeddings"]}]}  # fmt: skip


def step(graph: Graph, name: str, options: dict[str, Any], context: Context) -> Any:
    """What one pass gives."""
    made = load_recipe({"steps": [{"pass": name, "options": options}]}).steps[0]
    return run_step(graph, made, context)


def accuracy(graph: Graph, context: Context) -> float:
    """On the 872 sentences of the validation set."""
    summary = step(graph, "evaluate", {**DATA, "split": "validation"}, context).report.summary
    return round(float(summary["accuracy"]), 4)


def both(base: Graph, fmt: str | None, context: Context) -> dict[str, Any]:
    """Accuracy after quantisation, and after an epoch of training with it; None is float32."""
    rule = {"select": {"by": "type", "values": ["linear"]}, "formats": {"weight": fmt, "data_in": fmt}}
    graph = step(base, "quantize", {"rules": [rule]}, context).graph if fmt else base
    before, start = accuracy(graph, context), time.perf_counter()
    after = step(graph, "finetune", QAT, context).graph
    seconds = time.perf_counter() - start
    row = {"ptq": before, "qat": accuracy(after, context), "qat_seconds": round(seconds, 1)}
    print(fmt, row, file=sys.stderr, flush=True)
    return row


def main() -> None:
    """Train once (or take the folder that is named), then each format."""
    if not SHARED.exists():
        report("formats_sst2", {"skipped": f"{SHARED.name} is absent"})
        return
    named = [a for a in sys.argv[1:] if not a.startswith("--")]
    folder = Path(named[0]) if named else Path(tempfile.mkdtemp()) / "bert-tiny-sst2"
    if not folder.exists():
        train(folder)
    opened = open_source(str(folder), Path(tempfile.mkdtemp()), origin=Origin.TYPED)
    context, base = Context(opened.store, reading=Reading(str(folder))), opened.project.base
    rows = {"float32": both(base, None, context)}
    rows |= {str(FORMATS.get(name)()): both(base, str(FORMATS.get(name)()), context) for name in FORMATS}
    widths = {w: both(base, f"integer(width={w}, frac_width={FRACTION})", context) for w in WIDTHS}
    report("formats_sst2", {"sentences": 872, "epochs": 1, "formats": rows, f"integer, fraction {FRACTION}": widths})


if __name__ == "__main__":
    main()
