"""Search space of an allocation: cost, ports, formats and sparsities, as form controls."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from espalier.app.features.allocate.state.allocation import FIRST, title_of
from espalier.app.number_text import percent
from espalier.app.translation import tr, translated
from espalier.app.widgets.forms.axis_field import caption
from espalier.app.widgets.forms.chips import Chips
from espalier.app.widgets.forms.fields import Choice
from espalier.app.widgets.heading import link, muted
from espalier.passes.allocation.decisions import Column, column
from espalier.passes.costs.base import separable
from espalier.passes.sensitivity.table import Candidate

PORTS = translated({"weight": "weights", "data_in": "inputs", "bias": "biases", "data_out": "outputs"})
UNPRUNED = tr("nothing pruned")


class AllocateChoices(QWidget):
    """Emits `edited` when the cost or the candidates change, `wanted` when cost inputs shall be measured."""

    edited = Signal()
    wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.cost = Choice()
        self.cost.setAccessibleName(tr("Cost"))
        self.ports, self.formats, self.sparsities = Chips((), "port"), Chips((), "format"), Chips((), "sparsity")
        self._columns: dict[Column, tuple[str, str]] = {}  # column → its chips
        self._names: dict[str, str] = {}
        box = QVBoxLayout(self)
        box.setContentsMargins(12, 8, 12, 8)
        box.setSpacing(5)
        self._captions = [caption(t) for t in (tr("Budget of"), tr("Of which ports"), tr("Formats"), tr("Sparsities"))]
        parts = (self.cost, self.ports, self.formats, self.sparsities)
        for label, part in zip(self._captions, parts, strict=True):
            box.addWidget(label)
            box.addWidget(part)
        self._none = muted("")
        self.measure = link(tr("Measure them"), self.wanted.emit)
        for position, part in enumerate((self._none, self.measure), box.indexOf(self.cost) + 1):
            box.insertWidget(position, part)  # at the top, where the reason for a missing front is seen
        box.addStretch(1)
        self.offer_costs()
        for part in parts:
            part.edited.connect(self.edited)

    def offer_costs(self) -> None:
        """List the registered costs, those of plug-ins included."""
        costs = separable()
        self.cost.offer(tuple(c.name for c in costs), tuple(tr(c.title) for c in costs))
        if self.cost.get() not in {c.name for c in costs} or not self._columns:
            self.cost.put(FIRST)
        self.cost.setToolTip("\n".join(f"{tr(c.title)}: {tr(c.about)}" for c in costs))

    def offer(self, candidates: Iterable[Candidate], ports: Iterable[str]) -> None:
        """Offer chips for the candidates of a table; new chips are checked, the others keep their state."""
        columns = {column(c): (title_of(c), _share(c)) for c in candidates}
        names = {PORTS.get(p, p): p for p in ports}
        if columns == self._columns and names == self._names:
            return
        self._columns, self._names = columns, names
        self._fill(self.ports, self._names)
        self._fill(self.formats, (name for name, _ in columns.values()))
        self._fill(self.sparsities, (share for _, share in columns.values()))
        for label, chips in zip(self._captions[1:], (self.ports, self.formats, self.sparsities), strict=True):
            multiple = len(chips.buttons) > 1
            label.setVisible(multiple)
            chips.setVisible(multiple)

    @staticmethod
    def _fill(chips: Chips, names: Iterable[str]) -> None:
        options = tuple(dict.fromkeys(names))
        old = {v for v, b in chips.buttons.items() if not b.isChecked()}
        for value in [v for v in chips.buttons if v not in options]:
            chips.buttons.pop(value).deleteLater()
        chips.put(options)
        chips.put(tuple(v for v in options if v not in old))

    def get_ports(self) -> tuple[str, ...]:
        """The checked ports."""
        return tuple(self._names[v] for v in self.ports.get() if v in self._names)

    def columns(self) -> tuple[Column, ...]:
        """The columns whose format and sparsity chips are both checked."""
        formats, shares = set(self.formats.get()), set(self.sparsities.get())
        return tuple(c for c, (name, share) in self._columns.items() if name in formats and share in shares)

    def show_message(self, text: str, measurable: bool = False) -> None:
        """Show why there is no front; `measurable`: offer to measure what the cost needs."""
        self.measure.setVisible(measurable)
        self._none.setText(text)
        self._none.setVisible(bool(text))


def _share(candidate: Candidate) -> str:
    if not candidate.sparsity:
        return UNPRUNED
    return f"{percent(candidate.sparsity, 0)} {candidate.method}".replace("\u2009", " ")
