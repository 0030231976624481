"""Divergence of a configuration: errors of different ports add up or cancel in the outputs.

Each choice has a signed change per pass (`Effect.along`); the divergence of their sum is ½·|Σ along|², whereas a sum of
single divergences would assume independent errors.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from espalier.passes.sensitivity.correction import Correction
from espalier.passes.sensitivity.predict import Signed
from espalier.passes.sensitivity.table import Candidate, Sensitivity

STEP = 2**0.5 / 127  # quantisation step of along/√kl in a byte; its square is at most 2
MIN_RATIO = 0.25  # of the combined divergence to the sum: a few hundred samples cannot prove more cancellation
Part = tuple[float, Signed]  # divergence of one choice, and along/√kl


def packed(kl: float, along: Signed) -> str:
    """along/√kl in one byte per pass, base64."""
    if not 0 < kl < math.inf:
        return ""
    return base64.b64encode(np.clip(np.round(along / (kl**0.5 * STEP)), -127, 127).astype(np.int8)).decode()


def unpacked(text: str) -> Signed:
    """Decode along/√kl."""
    return np.frombuffer(base64.b64decode(text), np.int8).astype(np.float64) * STEP


def part(kl: float, along: Signed) -> Part:
    """One choice of a configuration."""
    return kl, along / kl**0.5 if 0 < kl < math.inf else np.zeros(0)


def together(parts: Iterable[Part], by: Correction | None = None) -> float:
    """The divergence of a configuration from those of its choices; `by` corrects that of several choices."""
    effective = [(kl, unit) for kl, unit in parts if kl]
    total = sum(kl for kl, _ in effective)
    if len(effective) < 2 or not math.isfinite(total):
        return total
    longest = max(len(unit) for _, unit in effective)
    signed = [(kl, unit) for kl, unit in effective if len(unit) == longest]
    if longest:
        along = np.stack([unit for _, unit in signed]) * np.sqrt([kl for kl, _ in signed])[:, None]
        mixed = 0.5 * float(np.square(along.sum(0)).sum() - np.square(along).sum())
        total = max(total + mixed, MIN_RATIO * total)
    return (by or Correction()).of(total, 0.0)


def correction_of(summary: Mapping[str, Any]) -> Correction:
    """The correction of combined divergences of a run, fitted to the configurations that it measured."""
    values = summary.get("configuration_correction")
    if not isinstance(values, list | tuple) or len(values) != 2:
        return Correction()
    return Correction(float(values[0]), float(values[1]), count=1)


class CombinedDivergences:
    """Combined divergences of configurations from a table."""

    def __init__(self, rows: Sequence[Sensitivity], by: Correction | None = None) -> None:
        self.by = by
        self._rows = {(r.node, r.port): r for r in rows}
        self._parts: dict[tuple[str, str, Candidate], Part] = {}

    def part(self, node: str, port: str, candidate: Candidate) -> Part | None:
        """A choice; None if the table does not contain it."""
        if known := self._parts.get((node, port, candidate)):
            return known
        row = self._rows.get((node, port))
        if row is None or candidate not in row.candidates:
            return None
        index = row.candidates.index(candidate)
        choice = row.known_of(index), unpacked(row.along[index] if row.along else "")
        self._parts[node, port, candidate] = choice
        return choice

    def of(self, chosen: Mapping[tuple[str, str], Candidate]) -> float:
        """The divergence of a configuration; choices outside the table count as 0."""
        parts = (self.part(node, port, c) for (node, port), c in chosen.items())
        return together((p for p in parts if p is not None), self.by)
