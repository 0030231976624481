"""Peak memory of one process that traces, quantises, prunes and saves BERT-base, against its weights."""

from __future__ import annotations

import os
import resource
import tempfile
from pathlib import Path

from espalier.model.document.project import save_project
from espalier.model.document.recipe import Recipe
from espalier.model.opening import open_source
from espalier.passes.base import Context
from espalier.passes.recipes.config import load_recipe
from espalier.passes.recipes.replay import replay
from tests.benchmarks.record import report

RECIPE = {
    "quantize": {"by": "type", "linear": {"config": {
        "name": "integer", "weight_width": 8, "weight_frac_width": 6, "data_in_width": 8, "data_in_frac_width": 4}}},
    "prune": {"weight": {"sparsity": 0.5, "method": "l1-norm", "scope": "local"}},
}  # fmt: skip


def main() -> None:
    """Run it all once and read the high-water mark."""
    from dataclasses import replace

    folder = Path(tempfile.mkdtemp())
    os.environ["ESPALIER_CACHE"] = str(folder / "cache")  # nothing captured before: it is traced
    opened = open_source("config:bert?task=sequence-classification", folder)
    recipe: Recipe = load_recipe(RECIPE)
    done = replay(opened.project.base, recipe, Context(opened.store))
    save_project(replace(opened.project, recipe=recipe, graph=done.graph), opened.store, folder / "p.espalier")
    weights = sum(w.elements * 4 for w in opened.project.base.weights.values())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    report("memory", {"weights_gb": round(weights / 1e9, 3), "peak_gb": round(peak / 1e9, 3),
                      "target_gb": round((3 * weights + 1e9) / 1e9, 3)})  # fmt: skip


if __name__ == "__main__":
    main()
