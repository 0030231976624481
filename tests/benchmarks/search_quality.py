"""Best accuracy under a budget of 4.5 bits after 30 trials: the predicted front and TPE, beside TPE alone; 5 seeds.

SST-2 BERT-tiny, weights of every layer between 2 and 8 bits. Only what holds the budget counts; a seed in which plain
TPE found nothing that does counts as chance (0.5). Reads ../shared; an argument names a folder, --seeds N how many.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from model.opening import Opened, open_any
from model.recipe import Recipe
from passes.analysis.evaluate import EvaluateOptions
from passes.base import Context
from passes.search.goals import best, wanted
from passes.search.search import Search
from passes.search.spec import SearchSpec, Vary
from passes.search.study import Plan, begin
from passes.select import Select
from tests.benchmarks.record import report
from tests.benchmarks.sst2 import LENGTH, SHARED, train

TRIALS, BUDGET, WARM, CHANCE = 30, "weight_bits<=4.5", 6, 0.5


def search(opened: Opened, folder: Path, seed: int, warm: int) -> dict[str, Any]:
    """One search: its best accuracy, and how many trials held the budget."""
    score = EvaluateOptions(str(SHARED / "data" / "SST2"), "validation", max_length=LENGTH)
    space = (Vary(select=Select("all"), ports=("weight",), values="integer(width=2|3|4|5|6|8)"),)
    spec = SearchSpec(f"{seed}-{warm}", space, within=(BUDGET,), trials=TRIALS, seed=seed, warm=warm, score=score)
    base = opened.project.base
    context = Context(opened.store, tokenizer=str(folder), base=base)
    start = time.process_time()
    running = begin(Plan(Search(spec, Recipe(), base), context, f"journal://{tempfile.mkdtemp()}/s.journal"))
    trials = [t for t in running.trials() if t.state in ("complete", "pruned", "failed")]
    lead = best(trials, wanted(spec))
    accuracy, bits = (lead.figures["accuracy"], lead.figures["weight_bits"]) if lead else (CHANCE, None)
    seconds = round(time.process_time() - start, 1)
    found = {"best": accuracy, "bits": bits, "feasible": sum(t.feasible for t in trials), "seconds": seconds}
    print(spec.study, found, file=sys.stderr, flush=True)
    return found


def main() -> None:
    """Both, seed by seed."""
    if not SHARED.exists():
        report("search_quality", {"skipped": f"{SHARED.name} is absent"})
        return
    words = [a for a in sys.argv[1:] if a != "--keep"]
    seeds = int(words[words.index("--seeds") + 1]) if "--seeds" in words else 5
    named = [w for w in words if not w.startswith("--") and not w.isdigit()]
    folder = Path(named[0]) if named else Path(tempfile.mkdtemp()) / "bert-tiny-sst2"
    if not folder.exists():
        train(folder)
    opened = open_any(str(folder), Path(tempfile.mkdtemp()))
    front = [search(opened, folder, seed, WARM) for seed in range(seeds)]
    plain = [search(opened, folder, seed, 0) for seed in range(seeds)]
    report("search_quality", {
        "budget": BUDGET, "trials": TRIALS, "front": front, "tpe": plain,
        "median_front": statistics.median(f["best"] for f in front),
        "median_tpe": statistics.median(p["best"] for p in plain),
        "seeds_below": sum(f["best"] < p["best"] for f, p in zip(front, plain, strict=True)),
    })  # fmt: skip


if __name__ == "__main__":
    main()
