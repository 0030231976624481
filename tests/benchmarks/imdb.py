"""Long texts: a BERT-tiny trained from scratch on the film reviews of IMDB by Espalier, then pruned, quantised and
trained with adapters; accuracy on the test reviews, which no choice has seen.

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
from espalier.model.sources.reading import Reading
from espalier.model.trust import Origin
from espalier.passes.base import Context
from tests.benchmarks.formats_sst2 import step
from tests.benchmarks.record import report
from tests.benchmarks.sst2 import SHARED
from tests.benchmarks.training_sst2 import LORA_RATE, SFT, untrained

DATA = {"data": str(SHARED / "data" / "IMDB3k"), "max_length": 128}
INT8 = "scaled_integer(width=8)"
RULE = {"select": {"by": "type", "values": ["linear"]}, "formats": {"weight": INT8, "data_in": INT8}}
EDITS: dict[str, tuple[str, dict[str, Any]]] = {
    "l1 50 %": ("prune", {"sparsity": 0.5}),
    "random 50 %": ("prune", {"sparsity": 0.5, "method": "random"}),
    "l1 2:4": ("prune", {"pattern": "n:m", "n": 2, "m": 4}),
    "int8": ("quantize", {"rules": [RULE]}),
}


def main() -> None:
    """Train, then measure each edit; LoRA trains one epoch more, beside all weights."""
    if not SHARED.exists():
        report("imdb", {"skipped": f"{SHARED.name} is absent"})
        return
    folder = Path(tempfile.mkdtemp()) / "bert-tiny"
    untrained(folder)
    opened = open_source(str(folder), Path(tempfile.mkdtemp()), origin=Origin.TYPED)
    context = Context(opened.store, reading=Reading(str(folder)))
    rows: dict[str, Any] = {}

    def note(name: str, graph: Graph) -> None:
        found = step(graph, "evaluate", {**DATA, "split": "test"}, context).report.summary
        rows[name] = {"accuracy": round(float(found["accuracy"]), 4), "reviews": found["samples"]}
        print(name, rows[name], file=sys.stderr, flush=True)

    start = time.perf_counter()
    trained = step(opened.project.base, "finetune", SFT | DATA, context).graph
    note("from scratch, 4 epochs", trained)
    for name, (pass_name, options) in EDITS.items():
        note(name, step(trained, pass_name, options, context).graph)
    again = SFT | DATA | {"epochs": 1.0, "learning_rate": 1e-4}
    note("all weights, an epoch more", step(trained, "finetune", again, context).graph)
    adapted = step(trained, "lora", {"rank": 8, "alpha": 16.0, "train_head": True}, context).graph
    note("LoRA, an epoch more", step(adapted, "finetune", again | {"learning_rate": LORA_RATE}, context).graph)
    report("imdb", {"rows": rows, "seconds": round(time.perf_counter() - start, 1)})


if __name__ == "__main__":
    main()
