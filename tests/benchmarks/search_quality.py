"""Best accuracy under budgets of weight bits after 30 trials: the predicted front and TPE, beside TPE alone; 5 seeds.

SST-2 BERT-tiny, weights of every layer between 2 and 8 bits. Only what holds the budget counts; a seed in which plain
TPE found nothing that does counts as chance (0.5). Reads ../shared; an argument names a folder, --seeds N how many,
--budgets 2.5,3 which.
"""

from __future__ import annotations

import argparse
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

TRIALS, WARM, CHANCE = 30, 24, 0.5
BUDGETS = (2.05, 2.5, 3.0, 3.5, 4.5)


def search(opened: Opened, folder: Path, budget: float, seed: int, warm: int) -> dict[str, Any]:
    """One search: its best accuracy, and how many trials held the budget."""
    score = EvaluateOptions(str(SHARED / "data" / "SST2"), "validation", max_length=LENGTH)
    space = (Vary(select=Select("all"), ports=("weight",), values="integer(width=2|3|4|5|6|8)"),)
    spec = SearchSpec(
        f"{budget:g}-{seed}-{warm}",
        space,
        within=(f"weight_bits<={budget:g}",),
        trials=TRIALS,
        seed=seed,
        warm=warm,
        score=score,
    )
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


def compared(opened: Opened, folder: Path, budget: float, seeds: int) -> dict[str, Any]:
    """Both ways under one budget, seed by seed."""
    rows = [(search(opened, folder, budget, seed, WARM), search(opened, folder, budget, seed, 0))
            for seed in range(seeds)]  # fmt: skip
    front, plain = zip(*rows, strict=True)
    return {
        "front": front, "tpe": plain,
        "median_front": statistics.median(f["best"] for f in front),
        "median_tpe": statistics.median(p["best"] for p in plain),
        "seeds_above": sum(f["best"] > p["best"] for f, p in rows),
        "seeds_below": sum(f["best"] < p["best"] for f, p in rows),
    }  # fmt: skip


def main() -> None:
    """Budget by budget; what is known so far is reported after each."""
    if not SHARED.exists():
        report("search_quality", {"skipped": f"{SHARED.name} is absent"})
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--budgets", default=",".join(map(str, BUDGETS)))
    found = parser.parse_known_args()[0]
    folder = Path(found.folder) if found.folder else Path(tempfile.mkdtemp()) / "bert-tiny-sst2"
    if not folder.exists():
        train(folder)
    opened = open_any(str(folder), Path(tempfile.mkdtemp()))
    rows: dict[str, Any] = {}
    for budget in map(float, found.budgets.split(",")):
        rows[f"weight_bits<={budget:g}"] = compared(opened, folder, budget, found.seeds)
        report("search_quality", {"trials": TRIALS, "warm": WARM, "budgets": rows})


if __name__ == "__main__":
    main()
