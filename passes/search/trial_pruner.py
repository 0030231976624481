"""Ends running trials early: by paired tests against the best trial at rungs, or by Optuna's pruners."""

from __future__ import annotations

from typing import Any

import optuna

from espalier.passes.search.goals import Wanted
from espalier.passes.search.spec import SearchSpec
from espalier.passes.search.trial_run import EndedEarly, PartialResult

SIGNIFICANCE = 0.05  # p-value below which a trial is pruned


class TrialPruner:
    """Takes a trial's intermediate results; raises EndedEarly. `incumbent`: (losses, correct) of the best, or None."""

    def __init__(self, trial: optuna.Trial, spec: SearchSpec, want: Wanted, incumbent: Any = None) -> None:
        self.trial, self.spec, self.want, self.incumbent = trial, spec, want, incumbent
        self.last: PartialResult | None = None

    def __call__(self, result: PartialResult) -> None:
        """Report a result to Optuna; raises EndedEarly where the pruner decides so."""
        self.last = result
        values = self.want.values({**result.figures})
        if len(values) == 1 and values[0] == values[0]:
            self.trial.report(values[0], result.samples)
        if self.spec.pruner == "rungs":
            self._rung(result)
        elif self.spec.pruner != "none" and self.trial.should_prune():
            raise EndedEarly(f"after {result.samples} {result.unit} {self._verdict(values)}")

    def _verdict(self, values: tuple[float, ...]) -> str:
        """Why one of Optuna's pruners ended the trial."""
        if self.spec.pruner != "threshold":
            return f"the pruner {self.spec.pruner} ended it"
        name = "the sum" if self.want.summed else self.want.goals[0].figure.replace("_", " ")
        lower, upper = self.spec.lower, self.spec.upper
        side = f"below {lower:g}" if lower is not None and values[0] < lower else f"above {upper:g}"
        return f"{name} is {values[0]:.4g}, {side}"

    def _rung(self, result: PartialResult) -> None:
        if self.incumbent is None or result.losses is None:
            return
        losses, correct = self.incumbent
        count = len(result.losses)
        if len(losses) < count:
            return
        name = self.want.goals[0].figure
        chance = (sign_test(result.correct, correct[: len(result.correct)]) if name == "accuracy"
                  else signed_rank(result.losses, losses[:count]))  # fmt: skip
        if chance < SIGNIFICANCE:
            raise EndedEarly(f"after {count} samples worse than the best so far ({chance:.2g})")


def sign_test(mine: Any, best: Any) -> float:
    """One-sided p-value of the sign test (McNemar's exact test) that a trial is as accurate as the best."""
    from scipy.stats import binom

    lost, won = int((~mine & best).sum()), int((mine & ~best).sum())
    return float(binom.sf(lost - 1, lost + won, 0.5)) if lost + won else 1.0


def signed_rank(mine: Any, best: Any) -> float:
    """One-sided p-value of Wilcoxon's signed-rank test that a trial's losses are not above the best's."""
    from scipy.stats import wilcoxon

    above = mine - best
    test: Any = wilcoxon(above, alternative="greater") if above.any() else None
    return 1.0 if test is None else float(test.pvalue)
