"""Divergence of each candidate at each port from the baseline's outputs: predicted and, for some, measured."""

from __future__ import annotations

from dataclasses import dataclass

from espalier.model.formats.base import Format


@dataclass(frozen=True, slots=True)
class Candidate:
    """A choice for a port: a format (None: float), a sparsity pruned by `method`, or both."""

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
    """One port with all candidates (formats as fitted to its values).

    `predicted`: KL divergence of the outputs from the baseline's in nats a sample, corrected. `noise`: noise-to-signal
    ratio, Σ(x−q)²/Σx². `measured`: the true divergence, None if not measured. `along`: signed changes of the outputs by
    pass, packed (`espalier.passes.sensitivity.combined`); empty in older tables.
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
        """The divergence of each candidate: measured if available, otherwise predicted."""
        return tuple(p if m is None else m for p, m in zip(self.predicted, self.measured, strict=True))

    def known_of(self, index: int) -> float:
        """The divergence of one candidate; see `known`."""
        measured = self.measured[index]
        return self.predicted[index] if measured is None else measured


@dataclass(frozen=True, slots=True)
class Predictions:
    """Sent when all rows are predicted, before measurements correct them; `evidence`: file of the statistics."""

    evidence: str
