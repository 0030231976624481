"""What the choices of a whole configuration do together: errors of different places add up or cancel in the outputs.

Each choice tells, pass by pass, the signed change that it makes (`Felt.along`); the divergence of their sum is
½·|Σ along|², where a sum of single divergences would take them to have nothing to do with each other.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from espalier.passes.sensitivity.correct import Correction
from espalier.passes.sensitivity.predict import Signed
from espalier.passes.sensitivity.table import Candidate, Sensitivity

STEP = 2**0.5 / 127  # of what is packed in a byte: along/√kl, whose square is at most 2
LEAST = 0.25  # of the sum of single divergences, what stays at least: some hundred samples prove no better cancelling
Part = tuple[float, Signed]  # divergence of one choice, and along/√kl


def packed(kl: float, along: Signed) -> str:
    """along/√kl in a byte a pass, as text."""
    if not 0 < kl < math.inf:
        return ""
    return base64.b64encode(np.clip(np.round(along / (kl**0.5 * STEP)), -127, 127).astype(np.int8)).decode()


def unpacked(text: str) -> Signed:
    """along/√kl."""
    return np.frombuffer(base64.b64decode(text), np.int8).astype(np.float64) * STEP


def part(kl: float, along: Signed) -> Part:
    """One choice of a configuration."""
    return kl, along / kl**0.5 if 0 < kl < math.inf else np.zeros(0)


def together(parts: Iterable[Part], by: Correction | None = None) -> float:
    """The divergence of a configuration from those of its choices; `by` corrects what several do."""
    known = [(kl, unit) for kl, unit in parts if kl]
    total = sum(kl for kl, _ in known)
    if len(known) < 2 or not math.isfinite(total):
        return total
    lengths = [len(unit) for _, unit in known]
    told = [(kl, unit) for kl, unit in known if len(unit) == max(lengths)]
    if max(lengths):
        along = np.stack([unit for _, unit in told]) * np.sqrt([kl for kl, _ in told])[:, None]
        mixed = 0.5 * float(np.square(along.sum(0)).sum() - np.square(along).sum())
        total = max(total + mixed, LEAST * total)
    return (by or Correction()).of(total, 0.0)


def correction_of(summary: Mapping[str, Any]) -> Correction:
    """How a run corrects what several choices do together, by the whole configurations that it measured."""
    held = summary.get("configuration_correction")
    if not isinstance(held, list | tuple) or len(held) != 2:
        return Correction()
    return Correction(float(held[0]), float(held[1]), count=1)


class Wholes:
    """A table asked for configurations."""

    def __init__(self, rows: Sequence[Sensitivity], by: Correction | None = None) -> None:
        self.by = by
        self._rows = {(r.node, r.port): r for r in rows}
        self._parts: dict[tuple[str, str, Candidate], Part] = {}

    def part(self, node: str, port: str, candidate: Candidate) -> Part | None:
        """A choice; None where the table has none such."""
        if known := self._parts.get((node, port, candidate)):
            return known
        row = self._rows.get((node, port))
        if row is None or candidate not in row.candidates:
            return None
        place = row.candidates.index(candidate)
        found = row.known_of(place), unpacked(row.along[place] if row.along else "")
        self._parts[node, port, candidate] = found
        return found

    def of(self, chosen: Mapping[tuple[str, str], Candidate]) -> float:
        """The divergence of a configuration; what the table has not costs nothing."""
        found = (self.part(node, port, c) for (node, port), c in chosen.items())
        return together((p for p in found if p is not None), self.by)
