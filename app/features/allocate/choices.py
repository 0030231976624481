"""Who competes in an allocation: the cost, the ports, and chips for formats and sparsities."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from espalier.app.features.allocate.state.allocation import FIRST, title_of
from espalier.app.widgets.forms.axis import caption
from espalier.app.widgets.forms.chips import Chips
from espalier.app.widgets.forms.fields import Choice
from espalier.app.widgets.heading import link, muted
from espalier.app.words import percent
from espalier.passes.allocation.decisions import Column, column
from espalier.passes.costs.base import separable
from espalier.passes.sensitivity.table import Candidate

PORTS = {"weight": "weights", "data_in": "inputs", "bias": "biases", "data_out": "outputs"}
WHOLE = "nothing pruned"


class AllocateChoices(QWidget):
    """`edited`: something else competes, or along another cost."""

    edited = Signal()
    wanted = Signal()  # what the cost has to know is to be found

    def __init__(self) -> None:
        super().__init__()
        self.cost = Choice()
        self.cost.setAccessibleName("Cost")
        self.ports, self.formats, self.sparsities = Chips((), "port"), Chips((), "format"), Chips((), "sparsity")
        self._columns: dict[Column, tuple[str, str]] = {}  # column → its chips
        self._names: dict[str, str] = {}
        box = QVBoxLayout(self)
        box.setContentsMargins(12, 8, 12, 8)
        box.setSpacing(5)
        self._captions = [caption(t) for t in ("Budget of", "Of which ports", "Formats", "Sparsities")]
        parts = (self.cost, self.ports, self.formats, self.sparsities)
        for words, part in zip(self._captions, parts, strict=True):
            box.addWidget(words)
            box.addWidget(part)
        self._none = muted("")
        self.measure = link("Measure them", self.wanted.emit)
        for place, part in enumerate((self._none, self.measure), box.indexOf(self.cost) + 1):
            box.insertWidget(place, part)  # below all chips nobody would see why there is no front
        box.addStretch(1)
        self.offer_costs()
        for part in parts:
            part.edited.connect(self.edited)

    def offer_costs(self) -> None:
        """The costs that there are; plug-ins may bring some."""
        held = separable()
        self.cost.offer(tuple(c.name for c in held), tuple(c.title for c in held))
        if self.cost.get() not in {c.name for c in held} or not self._columns:
            self.cost.put(FIRST)
        self.cost.setToolTip("\n".join(f"{c.title}: {c.about}" for c in held))

    def offer(self, candidates: Iterable[Candidate], ports: Iterable[str]) -> None:
        """Chips for what a table has; what was pressed before stays, what is new is pressed."""
        found = {column(c): (title_of(c), _share(c)) for c in candidates}
        names = {PORTS.get(p, p): p for p in ports}
        if found == self._columns and names == self._names:
            return
        self._columns, self._names = found, names
        self._fill(self.ports, self._names)
        self._fill(self.formats, (name for name, _ in found.values()))
        self._fill(self.sparsities, (share for _, share in found.values()))
        for words, chips in zip(self._captions[1:], (self.ports, self.formats, self.sparsities), strict=True):
            many = len(chips.buttons) > 1
            words.setVisible(many)
            chips.setVisible(many)

    @staticmethod
    def _fill(chips: Chips, names: Iterable[str]) -> None:
        wanted = tuple(dict.fromkeys(names))
        old = {v for v, b in chips.buttons.items() if not b.isChecked()}
        for value in [v for v in chips.buttons if v not in wanted]:
            chips.buttons.pop(value).deleteLater()
        chips.put(wanted)
        chips.put(tuple(v for v in wanted if v not in old))

    def get_ports(self) -> tuple[str, ...]:
        """The ports that are decided on."""
        return tuple(self._names[v] for v in self.ports.get() if v in self._names)

    def columns(self) -> tuple[Column, ...]:
        """The columns of which both chips are pressed."""
        formats, shares = set(self.formats.get()), set(self.sparsities.get())
        return tuple(c for c, (name, share) in self._columns.items() if name in formats and share in shares)

    def tell(self, words: str, find: bool = False) -> None:
        """What stands in the way; `find`: it can be found out."""
        self.measure.setVisible(find)
        self._none.setText(words)
        self._none.setVisible(bool(words))


def _share(candidate: Candidate) -> str:
    if not candidate.sparsity:
        return WHOLE
    return f"{percent(candidate.sparsity, 0)} {candidate.method}".replace("\u2009", " ")
