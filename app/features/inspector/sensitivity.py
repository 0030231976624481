"""Line with the divergence of a port's format and of the next finer and coarser formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QLabel

from espalier.app.figures.heat_lines import bits_of, divergence_text, title_of
from espalier.app.measured.estimate import estimate_of
from espalier.app.measured.sensitivities import sensitivities_of
from espalier.app.translation import tr
from espalier.model.formats.base import Format
from espalier.passes.sensitivity.table import Candidate, Sensitivity

if TYPE_CHECKING:
    from espalier.app.session.session import Session

TOOLTIP = tr("KL divergence of the model's outputs from those in float, nats a sample, with only this port changed")


class SensitivityLine(QLabel):
    """Sensitivity of the current port, hidden if unknown."""

    def __init__(self, session: Session) -> None:
        super().__init__(wordWrap=True)
        self._sensitivities, self._estimate = sensitivities_of(session), estimate_of(session)
        self._port: tuple[str, str, Format | None] | None = None
        self.setProperty("role", "small")
        self.setToolTip(TOOLTIP)
        self._sensitivities.changed.connect(self._update_text)
        self._estimate.changed.connect(self._update_text)
        self.hide()

    def show_port(self, nodes: tuple[str, ...], port: str, fmt: Format | None) -> None:
        """Show the port of a single node; hidden for several."""
        self._port = (nodes[0], port, fmt) if len(nodes) == 1 else None
        self._update_text()

    def _update_text(self) -> None:
        text = ""
        if self._port and not self._sensitivities.stale:
            node, port, fmt = self._port
            row = next((r for r in self._sensitivities.table if (r.node, r.port) == (node, port)), None)
            text = sensitivity_text(row, fmt, self._estimate.cost(node, port)) if row else ""
        self.setText(text)
        self.setVisible(bool(text))


def sensitivity_text(row: Sensitivity, fmt: Format | None, cost: float | None) -> str:
    """Text such as `KL 0.012 estimated · int 8 3.4e−5 · int 3 0.2`: present, next finer and next coarser format."""
    index = next((i for i, c in enumerate(row.candidates) if c == Candidate(fmt)), None)
    parts: list[str] = []
    if fmt is not None and index is not None:
        how = tr("predicted") if row.measured[index] is None else tr("measured")
        parts.append(f"KL {divergence_text(row.known[index])} {how}")
    elif fmt is not None and cost is not None:
        parts.append(tr("KL {} estimated", divergence_text(cost)))
    bits = bits_of(Candidate(fmt))
    others = [i for i, c in enumerate(row.candidates) if c.format and not c.sparsity]
    finer = [i for i in others if bits_of(row.candidates[i]) > bits]
    coarser = [i for i in others if bits_of(row.candidates[i]) < bits]
    near = [min(finer, key=lambda i: (bits_of(row.candidates[i]), row.known[i]))] if finer else []
    near += [min(coarser, key=lambda i: (-bits_of(row.candidates[i]), row.known[i]))] if coarser else []
    neighbours = [f"{title_of(row.candidates[i])} {divergence_text(row.known[i])}" for i in near]
    if neighbours and not parts:
        return tr("KL under {}", " · ".join(neighbours))
    return " · ".join([*parts, *neighbours])
