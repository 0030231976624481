"""Results of the sensitivity analysis: the rows of a run, its correction, and whether they are stale."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal

from espalier.model.document.codec import decode, encode
from espalier.model.errors import OptionsError
from espalier.model.graph.graph import Graph
from espalier.model.registry import PASSES
from espalier.passes.sensitivity.combined import CombinedDivergences, correction_of
from espalier.passes.sensitivity.table import Sensitivity

if TYPE_CHECKING:
    from espalier.app.session.session import Session

PASS = "sensitivity"
VERSION = 1
MIN_MEASURED = 5  # measured cells for an error estimate


@dataclass(slots=True)
class SensitivityRun:
    """Result of one run; `foundation`: fingerprint of the weights."""

    foundation: str
    options: Any
    rows: dict[tuple[str, str], Sensitivity] = field(default_factory=dict)  # type: ignore[assignment]
    summary: Mapping[str, Any] = field(default_factory=dict)  # type: ignore[assignment]

    def to_json(self) -> dict[str, Any]:
        """JSON data for the project."""
        return {"version": VERSION, "foundation": self.foundation, "options": encode(self.options),
                "rows": encode(tuple(self.rows.values())), "summary": dict(self.summary)}  # fmt: skip

    @staticmethod
    def from_json(data: dict[str, Any]) -> SensitivityRun:
        """Inverse of `to_json`. Raises OptionsError for another version."""
        if data.get("version") != VERSION:
            raise OptionsError(f"The sensitivities have version {data.get('version')}.", "Run them again.")
        options = decode(PASSES.get(PASS).options, data["options"], "options")
        rows = decode(tuple[Sensitivity, ...], data["rows"], "rows")
        return SensitivityRun(
            str(data["foundation"]), options, {(r.node, r.port): r for r in rows}, dict(data["summary"])
        )


class SensitivityResults(QObject):
    """The rows of the last run and of a running one. Emits `changed` when they, or their staleness, change."""

    changed = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session
        self._result: SensitivityRun | None = None
        self._next: SensitivityRun | None = None  # filled by the running job
        self._was_stale = False
        self._fingerprint: tuple[Graph, str] | None = None
        self._table: tuple[Sensitivity, ...] | None = None  # sorted rows, until one changes
        self._combined: tuple[tuple[Sensitivity, ...], CombinedDivergences] | None = None
        self.changed.connect(self._drop_table)
        session.changed.connect(lambda _: self._check_stale())

    @property
    def table(self) -> tuple[Sensitivity, ...]:
        """All rows in the model's order; during a run those computed so far."""
        run = self._next if self._next and self._next.rows else self._result
        document = self._session.document
        if run is None or document is None:
            return ()
        if self._table is None:
            order = {name: i for i, name in enumerate(document.graph.nodes)}
            self._table = tuple(sorted(run.rows.values(), key=lambda r: order.get(r.node, len(order))))
        return self._table

    @property
    def combined(self) -> CombinedDivergences:
        """Predictor of whole configurations, with the run's correction."""
        if self._combined is None or self._combined[0] is not self.table:
            self._combined = self.table, CombinedDivergences(self.table, correction_of(self.summary))
        return self._combined[1]

    def _drop_table(self) -> None:
        self._table = None

    def _check_stale(self) -> None:
        """Emit `changed` if an edit or undo changes whether the rows are stale."""
        if self._result and self.stale != self._was_stale:
            self._was_stale = self.stale
            self.changed.emit()

    @property
    def options(self) -> Any:
        """Options of the last run, or None."""
        run = self._next or self._result
        return run.options if run else None

    @property
    def summary(self) -> Mapping[str, Any]:
        """Summary of the run."""
        run = self._next if self._next and self._next.summary else self._result
        return run.summary if run else {}

    @property
    def statistics_file(self) -> Path | None:
        """File of the gradient statistics that predict any format; None if missing."""
        name = self.summary.get("evidence")
        path = Path(str(name)) if name else None
        return path if path and path.is_file() else None

    @property
    def left_out_factor(self) -> float:
        """Error factor on measurements left out of the correction, as reported by the run; else 0."""
        factor = self.summary.get("error_factor")
        return float(factor) if isinstance(factor, int | float) and math.isfinite(factor) else 0.0

    @property
    def error_factor(self) -> float:
        """Median factor between predictions and measurements; 0 if unknown."""
        if self.left_out_factor:
            return self.left_out_factor
        pairs = ((p, m) for r in self.table for p, m in zip(r.predicted, r.measured, strict=True) if m is not None)
        factors = sorted(math.exp(abs(math.log(m / p))) for p, m in pairs if 0 < p < math.inf and 0 < m < math.inf)
        return factors[len(factors) // 2] if len(factors) >= MIN_MEASURED else 0.0

    @property
    def uncorrected(self) -> bool:
        """Whether the rows are predictions not yet corrected by measurements."""
        return bool(self.summary) and "correction" not in self.summary

    @property
    def stale(self) -> bool:
        """Whether the model's weights have changed since the run."""
        document = self._session.document
        return bool(self._result and document and self._result.foundation != self._weights_fingerprint(document.graph))

    def _weights_fingerprint(self, graph: Graph) -> str:
        """Fingerprint of the weights, independent of formats and masks."""
        if self._fingerprint is None or self._fingerprint[0] is not graph:
            self._fingerprint = graph, weights_fingerprint(graph)
        return self._fingerprint[1]


def weights_fingerprint(graph: Graph) -> str:
    """Fingerprint of a graph's weights, independent of formats and their scales, masks, and the decomposition of
    attention."""
    scales = {c.scale for n in graph if n.precision for c in n.precision.values()}
    digest = hashlib.blake2b(digest_size=16)
    for name, weight in sorted(graph.weights.items()):
        if name in scales:
            continue
        digest.update(f"{name} {weight.key} {weight.shape}\n".encode())
    return digest.hexdigest()
