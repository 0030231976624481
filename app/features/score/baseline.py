"""What the figures of the score are compared with: named beside them, and chosen there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QPushButton

from espalier.app.session.accuracies import Baseline
from espalier.app.words import plural
from espalier.passes.figure import BASELINES, OPENED

if TYPE_CHECKING:
    from espalier.app.session.session import Session

TIP = "Changes and divergences are from this baseline. Click to choose another."


class BaselineChoice(QPushButton):
    """`from opened`, with a menu: the model as opened, and states that were pinned."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._pins: list[Baseline] = []
        self.setProperty("chip", "true")
        self.setToolTip(TIP)
        self.choices = QMenu(self)
        self.choices.setToolTipsVisible(True)
        self.choices.aboutToShow.connect(self.fill)
        self.clicked.connect(lambda: self.choices.popup(self.mapToGlobal(self.rect().topLeft())))
        session.opened.connect(self._forget)
        session.changed.connect(lambda _: self.tell())
        session.compared_changed.connect(self.tell)
        self.tell()

    def tell(self) -> None:
        """Say the name; without a step there is nothing to compare, unless a state is pinned."""
        session = self._session
        document = session.document
        self.setVisible(bool(document and (document.recipe.active or session.measures.pinned)))
        name = session.compared.name if document else OPENED
        self.setText(f"changes from {name}")
        self.setAccessibleName(f"Baseline: {name}")

    def fill(self) -> None:
        """The baselines that can be chosen."""
        held = self._session.measures.pinned
        self.choices.clear()
        self._offer(OPENED, BASELINES[OPENED], None, held is None)
        for pin in self._pins:
            self._offer(pin.name, f"The project after {plural(len(pin.recipe.active), 'step')}", pin, held is pin)
        self.choices.addSeparator()
        self.choices.addAction("Pin the present state", self.pin)

    def _offer(self, name: str, tip: str, baseline: Baseline | None, chosen: bool) -> None:
        action = QAction(name, self.choices, checkable=True, checked=chosen)
        action.setToolTip(tip)
        action.triggered.connect(lambda: self._session.compare_with(baseline))
        self.choices.addAction(action)

    def pin(self) -> None:
        """Compare with the present state from now on."""
        document = self._session.open_document
        made = Baseline(f"pin {len(self._pins) + 1}", document.recipe, document.graph)
        self._pins.append(made)
        self._session.compare_with(made)

    def _forget(self) -> None:
        self._pins.clear()
        self.tell()
