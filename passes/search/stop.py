"""When a search is over."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

from espalier.passes.search.goals import Wanted, front
from espalier.passes.search.inherited_weights import parent_of
from espalier.passes.search.space import Space
from espalier.passes.search.spec import SearchSpec
from espalier.passes.search.trial import Trial

if TYPE_CHECKING:
    from optuna.study import Study

MOST = 10  # configurations a trial that is asked for, of which most are duplicates or miss a limit
LEAST, EVERY = 30, 5  # complete trials before the terminator can judge, and trials between two judgements, of seconds


def reason(
    spec: SearchSpec, want: Wanted, space: Space, study: Study, told: Mapping[int, Trial], seconds: float
) -> str:
    """In words; empty: it goes on. Running trials of other workers count as begun; of the others those that ran."""
    begun = [t for t in told.values() if t.state != "waiting" and not t.lost]
    count = sum(t.counts for t in begun)
    if count >= spec.trials:
        return f"all {spec.trials} trials have run"
    if len(begun) >= MOST * spec.trials:
        return f"only {count} of {len(begun)} configurations were new and within the limits"
    if spec.timeout and seconds >= spec.timeout:
        return f"{spec.timeout:g} s are over"
    if spec.patience and _stale(begun, want) >= spec.patience:
        return f"{spec.patience} trials in a row were no better"
    # A configuration that begins at other weights is tried anew, but a grid has each once.
    at = parent_of(spec, want, begun) if spec.sampler != "grid" else None
    alike = [t for t in begun if at is None or t.begins == at.kept]
    seen = {tuple(sorted((k, repr(v)) for k, v in t.params.items())) for t in alike if t.state != "running"}
    if len(seen) >= space.configurations():
        return "every configuration has been tried"
    complete = sum(t.state == "complete" for t in begun)
    if spec.terminator and complete >= LEAST and len(begun) % EVERY == 0 and _settled(study):
        return "little is left to gain"
    return ""


def _stale(trials: list[Trial], want: Wanted) -> int:
    """How many trials have ended since the front last grew."""
    ended = [t for t in trials if t.ended]
    last = max((t.number for t in front(ended, want)), default=-1)
    return sum(t.number > last for t in ended)


def _settled(study: Study) -> bool:
    """Whether Optuna's terminator finds less left to gain than trials differ by."""
    from optuna.terminator import EMMREvaluator, MedianErrorEvaluator, Terminator

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        improvement = EMMREvaluator(deterministic_objective=True, seed=0)
        ends = Terminator(improvement, MedianErrorEvaluator(improvement), min_n_trials=LEAST)
        return bool(ends.should_terminate(study))
