"""The field's two figures on real text, as sweeps: accuracy against width (PTQ, QAT) and against sparsity (l1 and
random, before and after training), with a BERT-tiny trained on SST-2. Pictures go beside the JSON with --keep.

Reads ../shared (or ESPALIER_SHARED). A folder that is named keeps what is done, and a later run goes on.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from espalier.app.figures.curves import draw
from espalier.model.document.recipe import Recipe
from espalier.model.opening import open_source
from espalier.model.sources.reading import Reading
from espalier.model.trust import Origin
from espalier.passes.base import Context
from espalier.passes.recipes.config import load_recipe
from espalier.passes.recipes.replay import Memo
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.sweep import journal
from espalier.passes.sweep.journal import Journal
from espalier.passes.sweep.results import Outcome, baseline_of, mean_rows
from espalier.passes.sweep.run import run
from espalier.passes.sweep.spec import SweepSpec, build_sweep
from espalier.passes.sweep.sweep import Sweep, axis_name, points
from tests.benchmarks.formats_sst2 import DATA, QAT
from tests.benchmarks.record import RESULTS, report
from tests.benchmarks.sst2 import SHARED, integer, train

WIDTHS, FRACTIONS = "4, 5, 6, 8, 16, 32", "2, 2, 3, 4, 8, 16"
SPARSITIES = "0.1:0.9:0.2"
TRAINED = 600  # sentences of the epoch: two sweeps are sixteen trainings
TRAINING = {**QAT, "train_limit": TRAINED, "learning_rate": 5e-4}
SCORE = EvaluateOptions(split="validation", **DATA)


def width_sweep() -> Sweep:
    """The labs' dict at every width, half of it fraction; rounded, and after one epoch of training."""
    recipe = load_recipe({**integer(8, 4), "finetune": TRAINING})
    wish = SweepSpec(f"quantize.width={WIDTHS}", (f"quantize.frac_width={FRACTIONS}",), ("finetune=off,on",),
                title="Accuracy against width: rounded (PTQ) and trained (QAT)")  # fmt: skip
    return build_sweep(recipe, wish, SCORE)


def sparsity_sweep() -> Sweep:
    """l1 against random, before and after one epoch of training."""
    recipe: Recipe = load_recipe({"prune": {"sparsity": 0.5}, "finetune": TRAINING})
    wish = SweepSpec(f"prune.sparsity={SPARSITIES}", (), ("prune.method=l1,random", "finetune=off,on"),
                title="Accuracy against sparsity, before and after one epoch")  # fmt: skip
    return build_sweep(recipe, wish, SCORE)


def swept(name: str, sweep: Sweep, context: Context, base: Any, folder: Path) -> dict[str, Any]:
    """Run what is missing of a sweep, point by point on disk; its curves."""
    path, start = folder / f"{name}.jsonl", time.perf_counter()
    known: dict[str, Outcome] = {o.key: o for o in (journal.read(path) or Journal(sweep)).outcomes}
    outcomes: dict[tuple[int, int, int], Outcome] = {}
    with path.open("w", encoding="utf-8") as file:
        file.write("\n".join([journal.head_line(sweep), *map(journal.line, known.values())]) + "\n")
        for outcome in run(sweep, base, context, Memo(), known.values()):
            outcomes[outcome.place] = outcome
            file.write(journal.line(outcome) + "\n")
            file.flush()
            context.store.flush(f"{name}-{time.time_ns()}")
            print(name, len(outcomes), outcome.place, outcome.score.get("accuracy"), outcome.error, file=sys.stderr)
    found = list(outcomes.values())
    if "--keep" in sys.argv:
        draw(RESULTS / f"curves-{name}.svg", sweep, found, "accuracy")
    return _told(sweep, found, time.perf_counter() - start)


def before_training(sweep: Sweep) -> Sweep:
    """The points that need none: quick, so they come first."""
    variants = tuple(v for v in sweep.variants if not any(s.path == "" and s.value for s in v.settings))
    return replace(sweep, variants=variants)


def _told(sweep: Sweep, outcomes: list[Outcome], seconds: float) -> dict[str, Any]:
    """Accuracy by variant and value."""
    assert sweep.axis is not None
    axis, base = axis_name(sweep.recipe, sweep.axis), baseline_of(outcomes)
    lines: dict[str, dict[str, float]] = {}
    for row in mean_rows(sweep, outcomes):
        lines.setdefault(row["variant"], {})[str(row[axis])] = round(row["accuracy_mean"], 4)
    trained = [o.seconds["finetune"] for o in outcomes if "finetune" in o.seconds]
    return {
        "axis": axis, "baseline": round(base.score["accuracy"], 4) if base else None, "accuracy": lines,
        "missing": len(points(sweep)) - len(outcomes),
        "failed": sum(bool(o.error) for o in outcomes), "reused": sum(o.reused for o in outcomes),
        "trainings": len(trained), "seconds": round(seconds, 1),
    }  # fmt: skip


def main() -> None:
    """Train once (or take the folder that is named), then both sweeps."""
    if not SHARED.exists():
        report("curves", {"skipped": f"{SHARED.name} is absent"})
        return
    named = [a for a in sys.argv[1:2] if not a.startswith("--")]
    folder = Path(named[0] if named else tempfile.mkdtemp())
    model = folder / "bert-tiny-sst2"
    if not model.exists():
        train(model)
    opened = open_source(str(model), Path(tempfile.mkdtemp()), origin=Origin.TYPED)
    minutes = float(sys.argv[sys.argv.index("--minutes") + 1]) if "--minutes" in sys.argv else 1e9
    end = time.monotonic() + 60 * minutes
    context = Context(opened.store, reading=Reading(str(model)), enough=lambda: time.monotonic() > end)
    sweeps = {"width": width_sweep(), "sparsity": sparsity_sweep()}
    for name, sweep in sweeps.items():
        swept(name, before_training(sweep), context, opened.project.base, folder)
    found = {n: swept(n, s, context, opened.project.base, folder) for n, s in sweeps.items()}
    report("curves", {"sentences": 872, "epochs": 1, "trained_on": TRAINED, "seeds": 1, **found})


if __name__ == "__main__":
    main()
