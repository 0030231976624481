"""The interface of trial runners: post-training, with training, or on another architecture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from espalier.model.document.recipe import Recipe
from espalier.passes.base import Context


class EndedEarly(Exception):
    """A pruner ends a trial; the text says why."""


class Invalid(Exception):
    """A trial's configuration cannot be built: it is pruned before it is measured. The text says why."""


@dataclass(frozen=True, slots=True)
class PartialResult:
    """Intermediate figures after `samples` samples (or optimiser steps: `unit`), with losses per sample.

    `correct` and `losses`: arrays over the samples so far, in an order that all trials share; None while training.
    """

    samples: int
    figures: dict[str, float]
    losses: Any = None
    correct: Any = None
    unit: str = "samples"


def _ignore(result: PartialResult) -> None:
    """No pruner: the trial runs to its end."""


@dataclass(frozen=True, slots=True)
class Order:
    """A trial to run: its parameters, and the recipe that they give (configuration keys apart).

    `begins`: file of the model whose weights it inherits. `show`: takes intermediate results, and raises EndedEarly to
    prune the trial.
    """

    params: dict[str, Any]
    recipe: Recipe
    context: Context
    show: Callable[[PartialResult], None] = field(default=_ignore)
    begins: str = ""


class TrialRun(Protocol):
    """Runs trials; one instance per study, so that trials can share data and models."""

    def key(self, order: Order) -> str:
        """Equal for trials that have the same result; raises Invalid."""
        ...

    def costs(self, order: Order) -> dict[str, float]:
        """Figures that need no data; raises Invalid."""
        ...

    def figures(self, order: Order) -> dict[str, float]:
        """All figures, measured; raises EndedEarly, Invalid, or what a pass raises."""
        ...
