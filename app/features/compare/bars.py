"""The bar with the two states and the view mode, and the bar below the graphs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QButtonGroup, QHBoxLayout, QLabel, QPushButton, QSlider, QWidget

from espalier.app.features.compare.state.choices import choices_of
from espalier.app.features.compare.state.comparing import Comparing, Place
from espalier.app.features.compare.state_box import StateBox
from espalier.app.figures.difference import StateComparison
from espalier.app.theme import SPARSITY
from espalier.app.translation import tr
from espalier.app.widgets.heading import Elided

if TYPE_CHECKING:
    from espalier.app.session.session import Session

MODES = ("side by side", "one picture", "table")
HEIGHT, SLIDER_HEIGHT = 44, 40  # pixels


class SelectorBar(QWidget):
    """States A and B, the mode, Copy, Pin and Use B. `file_wanted(place)`, `unpin_wanted(name)`, `mode_chosen`."""

    file_wanted = Signal(str)
    unpin_wanted = Signal(str)
    mode_chosen = Signal(str)

    def __init__(self, session: Session, comparing: Comparing) -> None:
        super().__init__()
        self._session, self._comparing = session, comparing
        self.boxes: dict[Place, StateBox] = {p: StateBox(p.upper(), lambda: choices_of(session)) for p in ("a", "b")}
        self.swap = QPushButton("⇄")
        self.swap.setToolTip(tr("Exchange A and B"))
        self.swap.setAccessibleName(tr("Exchange A and B"))
        self.swap.setFixedWidth(34)
        self.copy, self.pin, self.use = (
            QPushButton(tr("Copy diff as…")),
            QPushButton(tr("Pin…")),
            QPushButton(tr("Use B")),
        )
        self.pin.setToolTip(tr("Keep the present state under a name, in the project"))
        self.use.setProperty("primary", True)
        self.leave = QPushButton("×")
        self.leave.setToolTip(tr("Back to the graph (Esc)"))
        self.leave.setAccessibleName(tr("Close the comparison"))
        self.leave.setFixedWidth(34)
        self.mode = MODES[0]
        self._modes = QButtonGroup(self)
        self.buttons = {mode: self._mode_button(mode) for mode in MODES}
        self._lay_out()
        for side, box in self.boxes.items():
            box.chosen.connect(partial(comparing.choose, side))
            box.file_wanted.connect(lambda p=side: self.file_wanted.emit(p))
            box.unpin_wanted.connect(self.unpin_wanted)
        self.swap.clicked.connect(comparing.swap)

    def _mode_button(self, mode: str) -> QPushButton:
        button = QPushButton(tr(mode.capitalize()))
        button.setCheckable(True)
        button.setChecked(mode == self.mode)
        button.setProperty("chip", True)
        button.clicked.connect(lambda: self.mode_chosen.emit(mode))
        self._modes.addButton(button)
        return button

    def _lay_out(self) -> None:
        self.setFixedHeight(HEIGHT)
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 0, 12, 0)
        row.setSpacing(8)
        for side, box in self.boxes.items():
            label = QLabel(side.upper())
            label.setProperty("role", "strong")
            row.addWidget(label)
            row.addWidget(box, 3)
            if side == "a":
                row.addWidget(self.swap)
        row.addSpacing(8)
        for button in self.buttons.values():
            row.addWidget(button)
        row.addStretch(1)
        for button in (self.copy, self.pin, self.use, self.leave):
            row.addWidget(button)

    def show_mode(self, mode: str) -> None:
        """Show the mode."""
        self.mode = mode
        self.buttons[mode].setChecked(True)

    def refresh(self, is_open: bool) -> None:
        """Show the chosen states and the available actions."""
        for name, box in self.boxes.items():
            box.setEnabled(is_open)
            box.show_choice(self._comparing.sides[name])
        side, document = self._comparing.sides["b"], self._session.document
        has_recipe = document is not None and side is not None and side.recipe is not None
        self.use.setEnabled(has_recipe and side is not None and side.recipe != self._session.recipe)
        self.use.setToolTip(tr("Make B's recipe the document's, as one edit that can be undone") if has_recipe else
                            tr("A model of another file has no recipe for this document"))  # fmt: skip
        self.copy.setEnabled(self._comparing.result is not None)
        self.pin.setEnabled(is_open)
        self.swap.setEnabled(is_open)

    def refill(self) -> None:
        """List the choices again."""
        for box in self.boxes.values():
            box.fill()


class SliderBar(QWidget):
    """Counts, the divider between A and B, linked cameras, and navigation between differences."""

    edge_moved = Signal(float)  # the share of the width that shows A
    linked = Signal(bool)
    stepped = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self._counts = Elided("", "muted")
        self._edge = QSlider(Qt.Orientation.Horizontal)
        self._edge.setRange(0, 1000)
        self._edge.setValue(500)
        self._edge.setMaximumWidth(312)
        self._edge.setAccessibleName(tr("Edge between A and B"))
        self._ends = QLabel("A"), QLabel("B")
        self._link = QPushButton(tr("Linked navigation"))
        self._link.setCheckable(True)
        self._link.setChecked(True)
        self._link.setProperty("chip", True)
        self._link.setToolTip(tr("Both cameras and groups move together"))
        self.position = QLabel("")
        self.position.setMinimumWidth(80)
        self.position.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._steps = [self._step("‹", tr("Previous difference"), -1), self._step("›", tr("Next difference"), 1)]
        self._lay_out()
        self._edge.valueChanged.connect(lambda v: self.edge_moved.emit(v / 1000))
        self._link.toggled.connect(self.linked)
        self.show_edge(False)

    def _step(self, text: str, name: str, by: int) -> QPushButton:
        button = QPushButton(text)
        button.setToolTip(name)
        button.setAccessibleName(name)
        button.setFixedWidth(34)
        button.clicked.connect(lambda: self.stepped.emit(by))
        return button

    def _lay_out(self) -> None:
        self.setFixedHeight(SLIDER_HEIGHT)
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 0, 12, 0)
        row.setSpacing(8)
        row.addWidget(self._counts, 1)
        row.addWidget(self._ends[0])
        row.addWidget(self._edge, 1)
        row.addWidget(self._ends[1])
        row.addWidget(self._link)
        row.addWidget(self._steps[0])
        row.addWidget(self.position)
        row.addWidget(self._steps[1])

    @property
    def is_linked(self) -> bool:
        """Whether both cameras move together."""
        return self._link.isChecked()

    def show_edge(self, visible: bool) -> None:
        """Show the slider, which only one picture needs."""
        for widget in (*self._ends, self._edge):
            widget.setVisible(visible)

    def show_counts(self, comparison: StateComparison) -> None:
        """`◻ 48 changed · + 0 added · − 0 removed`."""
        diff = comparison.diff
        text = tr(
            "{} changed, outlined · + {} added · − {} removed", len(diff.changed), len(diff.added), len(diff.removed)
        )
        self._counts.show_text(text)
        self._counts.setStyleSheet(f"color: {SPARSITY};" if diff else "")

    def show_position(self, text: str) -> None:
        """`3 of 48`."""
        self.position.setText(text)
