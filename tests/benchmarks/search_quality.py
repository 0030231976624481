"""Best accuracy under budgets of weight bits after 30 trials: the predicted front and TPE, beside TPE alone; 5 seeds.

SST-2 BERT-tiny, weights of every layer between 2 and 8 bits. Only what holds the budget counts; a seed in which plain
TPE found nothing that does counts as chance (0.5). Both winners are then measured on sentences that no search saw, and
sentences that only one of them gets right are weighed by McNemar's test. Reads ../shared; an argument names a folder,
--seeds N how many, --first the first, --budgets 2.5,3 which; --model-seed N trains another model, --split which
sentences are searched on.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from espalier.model.document.recipe import Recipe
from espalier.model.opening import Opened, open_any
from espalier.model.sources.reading import Reading
from espalier.model.trust import Origin
from espalier.passes.base import Context
from espalier.passes.recipes.replay import Memo, replay
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.search.evaluator import Evaluator
from espalier.passes.search.goals import best, wanted
from espalier.passes.search.search import Search
from espalier.passes.search.spec import SearchSpec, Vary
from espalier.passes.search.study import Plan, begin
from espalier.passes.select import Select
from tests.benchmarks.record import report
from tests.benchmarks.sst2 import LENGTH, SHARED, train

TRIALS, WARM, CHANCE = 30, 30, 0.5
BUDGETS = (2.05, 2.5, 3.0, 3.5, 4.5)
OTHER = {"validation": "test", "test": "validation"}
Right = NDArray[np.bool_]


class Bench:
    """One model, the sentences that are searched on, and the others."""

    def __init__(self, opened: Opened, folder: Path, split: str) -> None:
        self.opened, self.base = opened, opened.project.base
        self.context = Context(opened.store, reading=Reading(str(folder)), base=self.base)
        self.given, self.others = (
            EvaluateOptions(str(SHARED / "data" / "SST2"), s, max_length=LENGTH) for s in (split, OTHER[split])
        )
        self._warm = [Evaluator(self.base, options, self.context, ()) for options in (self.given, self.others)]

    def right(self, recipe: Recipe) -> tuple[Right, Right]:
        """Which sentences a recipe gets right: of those that were searched on, and of the others."""
        graph = replay(self.base, recipe, self.context, Memo()).graph
        found: list[Right] = []
        for warm in self._warm:
            warm.measure(graph)
            found.append(warm.margins > 0)
        return found[0], found[1]

    def search(self, budget: float, seed: int, warm: int) -> tuple[dict[str, Any], tuple[Right, Right] | None]:
        """One search: its best accuracy, and how many trials held the budget; what its winner gets right."""
        space = (Vary(select=Select("all"), ports=("weight",), values="integer(width=2|3|4|5|6|8)"),)
        within = (f"weight_bits<={budget:g}",)
        spec = SearchSpec(f"{budget:g}-{seed}-{warm}", space, within=within, trials=TRIALS, seed=seed, warm=warm,
                          score=self.given)  # fmt: skip
        start = time.process_time()
        wish = Search(spec, Recipe(), self.base)
        running = begin(Plan(wish, self.context, f"journal://{tempfile.mkdtemp()}/s.journal"))
        trials = [t for t in running.trials() if t.state in ("complete", "pruned", "failed")]
        seconds = round(time.process_time() - start, 1)
        lead, feasible = best(trials, wanted(spec)), sum(t.feasible for t in trials)
        if lead is None:
            return {"best": CHANCE, "bits": None, "feasible": 0, "seconds": seconds}, None
        right = self.right(wish.recipe_of(running.space, lead.params))
        found = {"best": lead.figures["accuracy"], "on_others": float(right[1].mean()),
                 "bits": lead.figures["weight_bits"], "feasible": feasible, "seconds": seconds}  # fmt: skip
        print(spec.study, found, file=sys.stderr, flush=True)
        return found, right

    def both(self, budget: float, seed: int) -> dict[str, Any]:
        """Both ways with one seed."""
        front, mine = self.search(budget, seed, WARM)
        plain, theirs = self.search(budget, seed, 0)
        told = {"front": front, "tpe": plain}
        if mine and theirs:
            told |= {"given": mcnemar(mine[0], theirs[0]), "others": mcnemar(mine[1], theirs[1])}
        return told


def mcnemar(mine: Right, theirs: Right) -> dict[str, float]:
    """Sentences that only one gets right, and the chance of such a difference, were both as good (exact, two sides)."""
    from scipy.stats import binomtest

    won, lost = int((mine & ~theirs).sum()), int((theirs & ~mine).sum())
    return {"won": won, "lost": lost, "p": round(float(binomtest(won, won + lost).pvalue), 3) if won + lost else 1.0}


def compared(bench: Bench, budget: float, seeds: range) -> dict[str, Any]:
    """Both ways under one budget, seed by seed: on the sentences that were searched on, and on others."""
    rows = [bench.both(budget, seed) for seed in seeds]
    found: dict[str, Any] = {"seeds": list(seeds), "each": rows}
    for name, key in (("given", "best"), ("others", "on_others")):
        pairs = [(r["front"].get(key, CHANCE), r["tpe"].get(key, CHANCE)) for r in rows]
        found[name] = {
            "median_front": statistics.median(f for f, _ in pairs),
            "median_tpe": statistics.median(p for _, p in pairs),
            "seeds_above": sum(f > p for f, p in pairs),
            "seeds_below": sum(f < p for f, p in pairs),
        }
    return found


def main() -> None:
    """Budget by budget; what is known so far is reported after each."""
    if not SHARED.exists():
        report("search_quality", {"skipped": f"{SHARED.name} is absent"})
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--model-seed", type=int, default=0)
    parser.add_argument("--split", choices=OTHER, default="validation")
    parser.add_argument("--budgets", default=",".join(map(str, BUDGETS)))
    parser.add_argument("--name", default="search_quality", help="of the result that is kept")
    found = parser.parse_known_args()[0]
    folder = Path(found.folder) if found.folder else Path(tempfile.mkdtemp()) / "bert-tiny-sst2"
    if not folder.exists():
        train(folder, found.model_seed)
    bench = Bench(open_any(str(folder), Path(tempfile.mkdtemp()), origin=Origin.TYPED), folder, found.split)
    float_right = [float(r.mean()) for r in bench.right(Recipe())]
    rows: dict[str, Any] = {}
    for budget in map(float, found.budgets.split(",")):
        rows[f"weight_bits<={budget:g}"] = compared(bench, budget, range(found.first, found.first + found.seeds))
        about = {"trials": TRIALS, "warm": WARM, "model_seed": found.model_seed, "searched_on": found.split}
        floats = dict(zip(("given", "others"), float_right, strict=True))
        report(found.name, {**about, "float": floats, "budgets": rows})


if __name__ == "__main__":
    main()
