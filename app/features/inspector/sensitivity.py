"""One line below a port's format: the divergence that it costs, and what the next finer and coarser ones would."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QLabel

from espalier.app.figures.heat_lines import bits_of, divergence_words, title_of
from espalier.app.measured.estimate import estimate_of
from espalier.app.measured.sensitivities import sensitivities_of
from espalier.model.formats.base import Format
from espalier.passes.sensitivity.table import Candidate, Sensitivity

if TYPE_CHECKING:
    from espalier.app.session.session import Session

TELL = "KL divergence of the model's outputs from those in float, nats a sample, where this port alone is changed"


class SensitivityLine(QLabel):
    """Hidden where nothing is known of the port in hand."""

    def __init__(self, session: Session) -> None:
        super().__init__(wordWrap=True)
        self._known, self._estimate = sensitivities_of(session), estimate_of(session)
        self._asked: tuple[str, str, Format | None] | None = None
        self.setProperty("role", "small")
        self.setToolTip(TELL)
        self._known.changed.connect(self._tell)
        self._estimate.changed.connect(self._tell)
        self.hide()

    def show_port(self, nodes: tuple[str, ...], port: str, fmt: Format | None) -> None:
        """Show the port of a single node; of several there is none."""
        self._asked = (nodes[0], port, fmt) if len(nodes) == 1 else None
        self._tell()

    def _tell(self) -> None:
        words = ""
        if self._asked and not self._known.stale:
            node, port, fmt = self._asked
            row = next((r for r in self._known.table if (r.node, r.port) == (node, port)), None)
            words = sensitivity_words(row, fmt, self._estimate.cost(node, port)) if row else ""
        self.setText(words)
        self.setVisible(bool(words))


def sensitivity_words(row: Sensitivity, fmt: Format | None, cost: float | None) -> str:
    """`KL 0.012 estimated · int 8 3.4e−5 · int 3 0.2`: the present format, the next finer and the next coarser."""
    place = next((i for i, c in enumerate(row.candidates) if c == Candidate(fmt)), None)
    words: list[str] = []
    if fmt is not None and place is not None:
        how = "predicted" if row.measured[place] is None else "measured"
        words.append(f"KL {divergence_words(row.known[place])} {how}")
    elif fmt is not None and cost is not None:
        words.append(f"KL {divergence_words(cost)} estimated")
    bits = bits_of(Candidate(fmt))
    others = [i for i, c in enumerate(row.candidates) if c.format and not c.sparsity]
    finer = [i for i in others if bits_of(row.candidates[i]) > bits]
    coarser = [i for i in others if bits_of(row.candidates[i]) < bits]
    near = [min(finer, key=lambda i: (bits_of(row.candidates[i]), row.known[i]))] if finer else []
    near += [min(coarser, key=lambda i: (-bits_of(row.candidates[i]), row.known[i]))] if coarser else []
    told = [f"{title_of(row.candidates[i])} {divergence_words(row.known[i])}" for i in near]
    if told and not words:
        return f"KL under {' · '.join(told)}"
    return " · ".join([*words, *told])
