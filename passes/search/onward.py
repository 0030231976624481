"""Trials that begin at what the best trial before them was trained to: which that is, and where its weights lie.

They are kept as a project beside unfinished trainings; a trial's recipe begins by taking them over, so it gives its
result again.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from model.recipe import Recipe, Step
from passes.search.goals import Wanted, best
from passes.search.trial import Trial

if TYPE_CHECKING:
    from passes.search.spec import SearchSpec


def kept_folder() -> Path:
    """Where trained models of trials lie."""
    from passes.training.unfinished import home

    return home().parent / "trials"


def new_place() -> Path:
    """A file for a trained model."""
    kept_folder().mkdir(parents=True, exist_ok=True)
    return kept_folder() / f"{secrets.token_hex(8)}.espalier"


def parent_of(spec: SearchSpec, want: Wanted, trials: Iterable[Trial]) -> Trial | None:
    """The best trial whose weights are here; None where trials begin at the source's."""
    if spec.begin_at == "source":
        return None
    return best((t for t in trials if t.kept and Path(t.kept).is_file()), want)


def is_better(trial: Trial, trials: Iterable[Trial], want: Wanted) -> bool:
    """Whether a trial that ends is the best so far, so that others are to begin at its weights."""
    lead = best((t for t in trials if t.number != trial.number), want)
    return trial.feasible and (lead is None or want.score(trial) > want.score(lead))


def beginning(recipe: Recipe, at: str) -> Recipe:
    """The recipe on the weights of another trial, where one is named."""
    if not at:
        return recipe
    from passes.transform.take_weights import TakeWeightsOptions

    return Recipe((Step("take_weights", TakeWeightsOptions(at)), *recipe.steps))
