"""How one trial is run: the door by which trials that train or build another model come in beside plain ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from espalier.model.document.recipe import Recipe
from espalier.passes.base import Context


class EndedEarly(Exception):
    """A trial ends early: what it has shown so far is not good enough. The text says against what."""


class Invalid(Exception):
    """What a trial chose cannot be built: it is pruned before it costs anything. The text says why."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a trial shows on its way: figures after so many samples (or steps: `unit`), and each one's losses.

    `correct` and `losses`: of every sample seen so far, in an order that all trials share; None where there are none.
    """

    samples: int
    figures: dict[str, float]
    losses: Any = None
    correct: Any = None
    unit: str = "samples"


def _unheard(seen: Seen) -> None:
    """Nobody stops it."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a trial is to do: its choices, and the recipe that they make (all but those of a configuration).

    `begins`: the model of another trial at whose weights it begins. `show`: hears what it shows on its way, and raises
    EndedEarly where that is enough.
    """

    params: dict[str, Any]
    recipe: Recipe
    context: Context
    show: Callable[[Seen], None] = field(default=_unheard)
    begins: str = ""


class TrialRun(Protocol):
    """A way to run trials; one for a whole study, so that it can keep what they share."""

    def key(self, order: Order) -> str:
        """Equal for trials that must come to the same result; raises Invalid."""
        ...

    def costs(self, order: Order) -> dict[str, float]:
        """Figures that need no data; raises Invalid."""
        ...

    def figures(self, order: Order) -> dict[str, float]:
        """All figures, measured; raises EndedEarly, Invalid, or what a pass raises."""
        ...
