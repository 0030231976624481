"""Baseline of the score: named next to the figures, with a menu to choose another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QPushButton

from espalier.app.number_text import plural
from espalier.app.session.measures import Baseline
from espalier.app.translation import tr
from espalier.passes.figure import BASELINES, OPENED

if TYPE_CHECKING:
    from espalier.app.session.session import Session

TIP = tr("Changes and divergences are from this baseline. Click to choose another.")


class BaselineChoice(QPushButton):
    """Button with the name of the baseline and a menu: the model as opened, and pinned states."""

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
        session.opened.connect(self._discard_pins)
        session.changed.connect(lambda _: self.refresh())
        session.compared_changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show the name; hidden without steps, unless a state is pinned."""
        session = self._session
        document = session.document
        self.setVisible(bool(document and (document.recipe.active or session.measures.pinned)))
        name = session.compared.name if document else OPENED
        self.setText(tr("changes from {}", tr(name)))
        self.setAccessibleName(tr("Baseline: {}", tr(name)))

    def fill(self) -> None:
        """Fill the menu with the available baselines."""
        pinned = self._session.measures.pinned
        self.choices.clear()
        self._offer(OPENED, BASELINES[OPENED], None, pinned is None)
        for pin in self._pins:
            self._offer(
                pin.name, tr("The project after {}", plural(len(pin.recipe.active), "step")), pin, pinned is pin
            )
        self.choices.addSeparator()
        self.choices.addAction(tr("Pin the current state"), self.pin)

    def _offer(self, name: str, tip: str, baseline: Baseline | None, chosen: bool) -> None:
        action = QAction(tr(name), self.choices, checkable=True, checked=chosen)
        action.setToolTip(tr(tip))
        action.triggered.connect(lambda: self._session.compare_with(baseline))
        self.choices.addAction(action)

    def pin(self) -> None:
        """Pin the current state and compare with it."""
        document = self._session.open_document
        baseline = Baseline(tr("pin {}", len(self._pins) + 1), document.recipe, document.graph)
        self._pins.append(baseline)
        self._session.compare_with(baseline)

    def _discard_pins(self) -> None:
        self._pins.clear()
        self.refresh()
