"""What each candidate at each port costs in divergence from the baseline's outputs: predicted, and where measured."""

from __future__ import annotations

from dataclasses import dataclass

from espalier.model.formats.base import Format


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a port can be given: a format (None: float), a share of its elements pruned by `method`, or both."""

    format: Format | None = None
    sparsity: float = 0.0
    method: str = "l1"

    @property
    def label(self) -> str:
        """Short text for tables and badges."""
        parts = [self.format.label] if self.format else []
        parts += [f"{100 * self.sparsity:.0f}% {self.method}"] if self.sparsity else []
        return " · ".join(parts) or "float"


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """One port under every candidate (formats as fitted to its values).

    `predicted`: KL divergence of the outputs from the baseline's in nats a sample, after correction. `noise`: error
    over signal, Σ(x−q)²/Σx². `measured`: the true divergence, None where it was not measured. `along`: what each does
    to the outputs pass by pass, signed and packed (`espalier.passes.sensitivity.whole`); empty in tables of before.
    """

    node: str
    port: str
    elements: int
    candidates: tuple[Candidate, ...]
    predicted: tuple[float, ...]
    noise: tuple[float, ...]
    measured: tuple[float | None, ...]
    along: tuple[str, ...] = ()

    @property
    def known(self) -> tuple[float, ...]:
        """The best that is known of each: the measured figure, else the predicted one."""
        return tuple(p if m is None else m for p, m in zip(self.predicted, self.measured, strict=True))

    def known_of(self, place: int) -> float:
        """The same of one candidate."""
        held = self.measured[place]
        return self.predicted[place] if held is None else held


@dataclass(frozen=True, slots=True)
class Predictions:
    """Told once all rows are predicted, before measurements correct them; `evidence`: the file they are from."""

    evidence: str
