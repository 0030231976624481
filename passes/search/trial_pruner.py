"""Whether a running trial may end early: by rungs, paired tests against the best so far, or Optuna's pruners."""

from __future__ import annotations

from typing import Any

import optuna

from espalier.passes.search.goals import Wanted
from espalier.passes.search.spec import SearchSpec
from espalier.passes.search.trial_run import EndedEarly, Seen

SURE = 0.05  # chance at which a trial no worse than the best would be ended all the same


class TrialPruner:
    """Hears what one trial shows; raises EndedEarly. `incumbent`: the (losses, correct) of the best, or None."""

    def __init__(self, trial: optuna.Trial, spec: SearchSpec, want: Wanted, incumbent: Any = None) -> None:
        self.trial, self.spec, self.want, self.incumbent = trial, spec, want, incumbent
        self.last: Seen | None = None

    def __call__(self, seen: Seen) -> None:
        """Note a value, and end the trial where that is enough."""
        self.last = seen
        values = self.want.values({**seen.figures})
        if len(values) == 1 and values[0] == values[0]:
            self.trial.report(values[0], seen.samples)
        if self.spec.pruner == "rungs":
            self._rung(seen)
        elif self.spec.pruner != "none" and self.trial.should_prune():
            raise EndedEarly(f"after {seen.samples} {seen.unit} {self._verdict(values)}")

    def _verdict(self, values: tuple[float, ...]) -> str:
        """Why a pruner of Optuna's ended it."""
        if self.spec.pruner != "threshold":
            return f"the pruner {self.spec.pruner} found it too weak"
        name = "the sum" if self.want.summed else self.want.goals[0].figure.replace("_", " ")
        lower, upper = self.spec.lower, self.spec.upper
        side = f"below {lower:g}" if lower is not None and values[0] < lower else f"above {upper:g}"
        return f"{name} is {values[0]:.4g}, {side}"

    def _rung(self, seen: Seen) -> None:
        if self.incumbent is None or seen.losses is None:
            return
        losses, correct = self.incumbent
        count = len(seen.losses)
        if len(losses) < count:
            return
        name = self.want.goals[0].figure
        chance = (sign_test(seen.correct, correct[:count]) if name == "accuracy"
                  else signed_rank(seen.losses, losses[:count]))  # fmt: skip
        if chance < SURE:
            raise EndedEarly(f"after {count} samples worse than the best so far ({chance:.2g})")


def sign_test(mine: Any, best: Any) -> float:
    """Chance of so many samples that only the best gets right, were both as good."""
    from scipy.stats import binom

    lost, won = int((~mine & best).sum()), int((mine & ~best).sum())
    return float(binom.sf(lost - 1, lost + won, 0.5)) if lost + won else 1.0


def signed_rank(mine: Any, best: Any) -> float:
    """Wilcoxon's chance of losses so much above the best's, were both as good."""
    from scipy.stats import wilcoxon

    above = mine - best
    found: Any = wilcoxon(above, alternative="greater") if above.any() else None
    return 1.0 if found is None else float(found.pvalue)
