"""The interface of tasks, and which one the data of a score have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from espalier.model.errors import DataError
from espalier.model.registry import Registry

if TYPE_CHECKING:
    from espalier.model.data.base import Split

Run = Callable[[dict[str, Any]], Any]  # inputs by name → the model's result


def _nothing(loss: float, split: Split) -> dict[str, Any]:
    return {}


@dataclass(frozen=True, slots=True)
class Task:
    """A kind of prediction. Scores of all tasks have an accuracy and a loss, the mean cross-entropy in nats.

    units: what an accuracy is a share of. figures: (loss, data) → further figures of a score.
    check: (inputs of a batch, function that runs the model) raises DataError if a score would mean nothing.
    """

    name: str
    units: str
    figures: Callable[[float, Split], dict[str, Any]] = _nothing
    check: Callable[[dict[str, Any], Run], None] | None = None


_OURS = ("espalier.passes.tasks.classification", "espalier.passes.tasks.next_token")
TASKS: Registry[str, Task] = Registry("task", DataError, _OURS)
