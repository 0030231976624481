"""Weights that trials inherit from the best trial before them: which trial that is, and the files of its model.

Each is a project file beside the training checkpoints. It stays while a trial has inherited from it or may yet, and is
removed with its study.
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

BEST = 3  # best trials whose weights stay though no trial has inherited them: another worker may be about to
DAYS = 180  # after which unused weights are removed
ENDING = ".espalier"


def weights_folder() -> Path:
    """The folder of trained models of trials."""
    from espalier.passes.training.checkpoint_folders import home

    return home().parent / "trials"


def new_weights_file() -> Path:
    """A new file name for a trained model; removes files unused for DAYS."""
    folder = weights_folder()
    private_folder(folder)
    for old in folder.glob(f"*{ENDING}"):
        with contextlib.suppress(OSError):
            if time.time() - old.stat().st_mtime > DAYS * 86400:
                old.unlink()
    return folder / f"{secrets.token_hex(8)}{ENDING}"


def remove_unneeded(trials: Iterable[Trial], want: Wanted) -> None:
    """Remove the weights that no trial of a study inherited, except those of the best trials."""
    trials = list(trials)
    needed = {t.begins for t in trials}
    needed |= {t.kept for t in ranked((t for t in trials if t.kept), want)[:BEST]}
    _remove(t.kept for t in trials if t.kept not in needed)


def discard(trials: Iterable[Trial]) -> None:
    """Remove all weights of a study."""
    _remove(t.kept for t in trials)


def _remove(files: Iterable[str]) -> None:
    """Remove files, but only from this machine's folder of trained models."""
    for path in map(Path, filter(None, files)):
        if path.parent == weights_folder():
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


def parent_of(spec: SearchSpec, want: Wanted, trials: Iterable[Trial]) -> Trial | None:
    """The best trial whose weights file exists here; None if trials begin at the source's weights."""
    if spec.begin_at == "source":
        return None
    parent = best((t for t in trials if t.kept and Path(t.kept).is_file()), want)
    if parent is not None:
        with contextlib.suppress(OSError):
            os.utime(parent.kept)
    return parent


def is_better(trial: Trial, trials: Iterable[Trial], want: Wanted) -> bool:
    """Whether a trial that ends is the best so far, so that later trials inherit its weights."""
    return best([*(t for t in trials if t.number != trial.number), trial], want) is trial


def with_initial_weights(recipe: Recipe, path: str) -> Recipe:
    """The recipe with a first step that takes the weights from the file `path`; unchanged if it is empty."""
    if not path:
        return recipe
    from espalier.passes.transform.take_weights import TakeWeightsOptions

    return Recipe((Step("take_weights", TakeWeightsOptions(path)), *recipe.steps))
