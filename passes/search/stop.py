"""The stopping rules of a search."""

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

MAX_CONFIGURATIONS = 10  # per trial of the budget, duplicates and ones that miss a limit included
MIN_TRIALS, EVERY = 30, 5  # complete trials before the terminator is asked; trials between two checks (of seconds)


def reason(
    spec: SearchSpec, want: Wanted, space: Space, study: Study, records: Mapping[int, Trial], seconds: float
) -> str:
    """Why the search ends; empty: it continues. Running trials of other workers count. `seconds`: working time."""
    begun = [t for t in records.values() if t.state != "waiting" and not t.lost]
    count = sum(t.counts for t in begun)
    if count >= spec.trials:
        return f"all {spec.trials} trials have run"
    if len(begun) >= MAX_CONFIGURATIONS * spec.trials:
        return f"only {count} of {len(begun)} configurations were new and within the limits"
    if spec.timeout and seconds >= spec.timeout:
        return f"{spec.timeout:g} s are over"
    if spec.patience and _stale(begun, want) >= spec.patience:
        return f"{spec.patience} trials in a row were no better"
    # With other initial weights a configuration may run again, but a grid has each once.
    parent = parent_of(spec, want, begun) if spec.sampler != "grid" else None
    comparable = [t for t in begun if parent is None or t.begins == parent.kept]
    ended = {tuple(sorted((k, repr(v)) for k, v in t.params.items())) for t in comparable if t.state != "running"}
    if len(ended) >= space.configurations():
        return "every configuration has been tried"
    complete = sum(t.state == "complete" for t in begun)
    if spec.terminator and complete >= MIN_TRIALS and len(begun) % EVERY == 0 and _settled(study):
        return "little is left to gain"
    return ""


def _stale(trials: list[Trial], want: Wanted) -> int:
    """The number of trials that ended since the front last changed."""
    ended = [t for t in trials if t.ended]
    last = max((t.number for t in front(ended, want)), default=-1)
    return sum(t.number > last for t in ended)


def _settled(study: Study) -> bool:
    """Whether Optuna's terminator stops: the expected improvement is below the trials' error."""
    from optuna.terminator import EMMREvaluator, MedianErrorEvaluator, Terminator

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        improvement = EMMREvaluator(deterministic_objective=True, seed=0)
        ends = Terminator(improvement, MedianErrorEvaluator(improvement), min_n_trials=MIN_TRIALS)
        return bool(ends.should_terminate(study))
