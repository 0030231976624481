"""Trials that begin at what the best trial before them was trained to: which that is, and where its weights lie.

They are kept as a project beside unfinished trainings, as long as a trial's recipe takes them over or one may yet, and
go with their study.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from espalier.model.document.recipe import Recipe, Step
from espalier.model.private import private_folder
from espalier.passes.search.goals import Wanted, best, ranked
from espalier.passes.search.trial import Trial

if TYPE_CHECKING:
    from espalier.passes.search.spec import SearchSpec

BEST = 3  # trials whose weights stay though none has begun there: another worker may be about to
DAYS = 180  # that weights are kept for trials that nobody asks for
ENDING = ".espalier"


def kept_folder() -> Path:
    """Where trained models of trials lie."""
    from espalier.passes.training.checkpoint_folders import home

    return home().parent / "trials"


def new_place() -> Path:
    """A file for a trained model; those that nobody has used for DAYS go."""
    folder = kept_folder()
    private_folder(folder)
    for old in folder.glob(f"*{ENDING}"):
        with contextlib.suppress(OSError):
            if time.time() - old.stat().st_mtime > DAYS * 86400:
                old.unlink()
    return folder / f"{secrets.token_hex(8)}{ENDING}"


def tidy(trials: Iterable[Trial], want: Wanted) -> None:
    """Remove the weights that no trial of a study began at, but for those of the best, where the next will begin."""
    known = list(trials)
    needed = {t.begins for t in known} | {t.kept for t in ranked((t for t in known if t.kept), want)[:BEST]}
    _removed(t.kept for t in known if t.kept not in needed)


def discard(trials: Iterable[Trial]) -> None:
    """Remove all weights of a study that is forgotten."""
    _removed(t.kept for t in trials)


def _removed(files: Iterable[str]) -> None:
    """Of these those that lie where trials keep them, on this machine."""
    for path in map(Path, filter(None, files)):
        if path.parent == kept_folder():
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


def parent_of(spec: SearchSpec, want: Wanted, trials: Iterable[Trial]) -> Trial | None:
    """The best trial whose weights are here; None where trials begin at the source's."""
    if spec.begin_at == "source":
        return None
    found = best((t for t in trials if t.kept and Path(t.kept).is_file()), want)
    if found is not None:
        with contextlib.suppress(OSError):
            os.utime(found.kept)
    return found


def is_better(trial: Trial, trials: Iterable[Trial], want: Wanted) -> bool:
    """Whether a trial that ends is the best so far, so that others are to begin at its weights."""
    return best([*(t for t in trials if t.number != trial.number), trial], want) is trial


def beginning(recipe: Recipe, at: str) -> Recipe:
    """The recipe on the weights of another trial, where one is named."""
    if not at:
        return recipe
    from espalier.passes.transform.take_weights import TakeWeightsOptions

    return Recipe((Step("take_weights", TakeWeightsOptions(at)), *recipe.steps))
