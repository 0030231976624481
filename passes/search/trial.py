"""One trial of a study as a plain value: what it chose, what came of it, when and where."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from espalier.passes.figure import Figure, accuracy_of

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

State = Literal["waiting", "running", "complete", "pruned", "failed"]


@dataclass(frozen=True, slots=True)
class Trial:
    """`params`: choice → value as JSON, formats as text. `values`: the goals' figures in their order, empty until told.

    `figures`: the whole score and the costs. `steps`: (samples seen, the first goal there). `violation`: constraint →
    by how much it is missed (≤ 0: held). `started`: seconds since 1970; `seconds`: how long it took, None while it
    runs. `origin`: what proposed it (the sampler, `front`, `hand`). `reused`: equal to an earlier one, whose result it
    took. `error`: why it failed. `lost`: its worker died, and another trial has its choices. `begins`: the file of the
    trained model at whose weights it began, that of trial `parent`; `kept`: the file of its own.
    `noise`: what its accuracy is told with (n, guessing, hits). `losses`: (steps trained, training loss); of a long
    training the means over as many steps as make few points. `bits`: what holds its average of stored bits up
    (`dominant`), empty where nothing does.
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

    @property
    def unmeasured(self) -> bool:
        """Whether it was left unmeasured because it misses a limit: it did not begin, so it did not end early."""
        return self.state == "pruned" and not self.steps and any(v > 0 for v in self.violation.values())

    @property
    def counts(self) -> bool:
        """Whether it is one of the trials that were asked for: neither lost, nor a duplicate, nor left unmeasured."""
        return self.state != "waiting" and not (self.lost or self.reused or self.unmeasured)

    @property
    def ended(self) -> bool:
        """Whether it counts, and is over."""
        return self.counts and self.state != "running"

    @property
    def accuracy(self) -> Figure | None:
        """Its accuracy with the samples; None where either is not known."""
        return accuracy_of({"accuracy": self.figures.get("accuracy"), **self.noise})

    @property
    def feasible(self) -> bool:
        """Whether it is complete and holds every constraint."""
        return self.state == "complete" and all(v <= 0 for v in self.violation.values())


def violation_of(frozen: FrozenTrial) -> dict[str, float]:
    """Constraint → by how much a trial misses it; raises ValueError, TypeError."""
    return {k: float(v) for k, v in dict(frozen.user_attrs.get("violation", {})).items()}
