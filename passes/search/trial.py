"""One trial of a study as a plain value: its parameters, its result, its time and its worker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from espalier.passes.figure import Figure, main_figure

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

State = Literal["waiting", "running", "complete", "pruned", "failed"]


@dataclass(frozen=True, slots=True)
class Trial:
    """`params`: choice → value as JSON, formats as text. `values`: the goals' figures in order, empty until complete.

    `figures`: the score and the costs. `steps`: (samples or optimiser steps, value of the first goal). `violation`:
    constraint → excess (≤ 0: met). `started`: seconds since 1970; `seconds`: duration, None while it runs. `origin`:
    what proposed it (the sampler, `front`, `hand`). `reused`: a duplicate with the result of an earlier trial.
    `error`: why it failed. `lost`: its worker died, and another trial has its parameters. `begins`: file of the model
    of trial `parent` whose weights it inherited; `kept`: file of its own model.
    `noise`: interval data of the main metric (n, guessing, hits). `losses`: (optimiser steps, training loss), averaged
    over intervals for a long training. `bits`: the layer that dominates its average of stored bits (`dominant`).
    `note`: what the user wrote about it. Optuna refuses attributes of trials that have ended, so the record of the
    study keeps it.
    """

    number: int
    state: State = "running"
    params: dict[str, Any] = field(default_factory=dict[str, Any])
    values: tuple[float, ...] = ()
    figures: dict[str, float] = field(default_factory=dict[str, float])
    steps: tuple[tuple[int, float], ...] = ()
    violation: dict[str, float] = field(default_factory=dict[str, float])
    started: float = 0.0
    seconds: float | None = None
    worker: str = ""
    origin: str = ""
    reused: bool = False
    error: str = ""
    lost: bool = False
    begins: str = ""
    kept: str = ""
    parent: int | None = None
    noise: dict[str, Any] = field(default_factory=dict[str, Any])
    losses: tuple[tuple[int, float], ...] = ()
    bits: dict[str, Any] = field(default_factory=dict[str, Any])
    note: str = ""

    @property
    def unmeasured(self) -> bool:
        """Whether it was not measured because its costs miss a limit."""
        return self.state == "pruned" and not self.steps and any(v > 0 for v in self.violation.values())

    @property
    def counts(self) -> bool:
        """Whether it counts towards `trials`: it is neither queued, lost, a duplicate nor unmeasured."""
        return self.state != "waiting" and not (self.lost or self.reused or self.unmeasured)

    @property
    def ended(self) -> bool:
        """Whether it counts and has ended."""
        return self.counts and self.state != "running"

    @property
    def main(self) -> Figure | None:
        """The task's main metric, such as its accuracy, with the number of samples; None if either is unknown."""
        return main_figure({**self.figures, **self.noise})

    @property
    def feasible(self) -> bool:
        """Whether it is complete and meets every constraint."""
        return self.state == "complete" and all(v <= 0 for v in self.violation.values())


def violation_of(frozen: FrozenTrial) -> dict[str, float]:
    """Constraint → excess (≤ 0: met) of a stored trial; raises ValueError, TypeError."""
    return {k: float(v) for k, v in dict(frozen.user_attrs.get("violation", {})).items()}
