"""Pruning methods, patterns and activations on real text: accuracy of a BERT-tiny trained on SST-2 sentences, at once
and, for 2:4, after one epoch of training.

Reads ../shared (or ESPALIER_SHARED); says so and ends where it is absent. Data-driven methods see 256 training samples.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from espalier.model.opening import open_source
from espalier.model.sources.reading import Reading
from espalier.model.trust import Origin
from espalier.passes.analysis.evaluate import evaluate
from espalier.passes.base import Context
from espalier.passes.choices.pruning import METHODS
from espalier.passes.recipes.config import load_recipe
from espalier.passes.recipes.replay import replay
from espalier.passes.running.splits import EvaluateOptions
from tests.benchmarks.formats_sst2 import DATA, QAT
from tests.benchmarks.record import report
from tests.benchmarks.sst2 import SHARED, train

SAMPLE: dict[str, Any] = {**DATA, "limit": 256, "split": "train"}
SHARES = (0.3, 0.5, 0.7, 0.8)


def pruned(method: str, **options: Any) -> dict[str, Any]:
    """A pruning of all layers."""
    return {"prune": {"method": method, **SAMPLE, **options}}


def activations(sparsity: float, pattern: str) -> dict[str, Any]:
    """A pruning of what flows into all layers."""
    return {"prune_activations": {"sparsity": sparsity, "pattern": pattern, **SAMPLE}}


def recipes() -> dict[str, dict[str, Any]]:
    """Name → recipe."""
    scopes = {m: ("row",) if m == "wanda" else ("local",) for m in METHODS}
    found: dict[str, dict[str, Any]] = {"dense": {"steps": []}}
    found |= {f"{m} {s} {x:.0%}": pruned(m, sparsity=x, scope=s) for m in METHODS for s in scopes[m] for x in SHARES}
    found |= {f"{m} global 70%": pruned(m, sparsity=0.7, scope="global") for m in ("l1", "snip", "hessian")}
    found |= {f"{m} {n}:{k}": pruned(m, pattern="n:m", n=n, m=k)
              for n, k in ((2, 4), (4, 8), (1, 4)) for m in ("l1", "wanda", "hessian", "random")}  # fmt: skip
    found |= {f"{m} 4×4 blocks 50%": pruned(m, sparsity=0.5, pattern="block") for m in ("l1", "l2", "wanda", "random")}
    found |= {f"activations {p} {x:.0%}": activations(x, p) for p in ("top_k", "threshold") for x in (0.3, 0.5, 0.7)}
    tuned = {"l1 2:4": pruned("l1", pattern="n:m"), "l1 1:4": pruned("l1", pattern="n:m", n=1),
             "random 2:4": pruned("random", pattern="n:m"),
             "activations top_k 70%": activations(0.7, "top_k")}  # fmt: skip
    return found | {f"{k}, trained": {**v, "finetune": QAT} for k, v in tuned.items()}


def main() -> None:
    """Train once, replay each recipe, evaluate on the 872 sentences of the validation set."""
    if not SHARED.exists():
        report("pruning_sst2", {"skipped": f"{SHARED.name} is absent"})
        return
    folder = Path(sys.argv[1] if len(sys.argv) > 1 and sys.argv[1] != "--keep" else tempfile.mkdtemp()) / "bert-tiny"
    if not (folder / "config.json").exists():
        train(folder)
    opened = open_source(str(folder), Path(tempfile.mkdtemp()), origin=Origin.TYPED)
    context = Context(opened.store, reading=Reading(str(folder)))
    rows: dict[str, Any] = {}
    for name, recipe in recipes().items():
        start = time.perf_counter()
        graph = replay(opened.project.base, load_recipe(recipe), context).graph
        seconds = time.perf_counter() - start
        summary = evaluate(graph, EvaluateOptions(split="validation", **DATA), context)[1].summary
        keys = ("accuracy", "loss", "sparsity", "activation_sparsity", "size_bytes")
        rows[name] = {**{k: round(summary[k], 4) for k in keys}, "seconds": round(seconds, 2)}
        print(name, rows[name], file=sys.stderr, flush=True)
    report("pruning_sst2", {"samples": SAMPLE["limit"], "rows": rows})


if __name__ == "__main__":
    main()
