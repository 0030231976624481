"""Panel Compare: two states side by side or in one picture, their differences as a table, their scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication, QHideEvent, QShowEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QInputDialog,
    QLabel,
    QLineEdit,
    QMenu,
    QSplitter,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from espalier.app.commands.diff_files import to_csv, to_html, to_json, to_text, writer_for
from espalier.app.features.compare.bars import SelectorBar, SliderBar
from espalier.app.features.compare.canvases import CanvasPair
from espalier.app.features.compare.costs import CostControls
from espalier.app.features.compare.state.comparing import Comparing, Place
from espalier.app.features.compare.state.pins import pin, unpin
from espalier.app.features.compare.tables import DifferenceTable, ScoreTable
from espalier.app.figures.difference import StateComparison, figure_text
from espalier.app.translation import error_text, tr
from espalier.app.widgets.heading import Elided, empty_state, link
from espalier.model.files import write_text
from espalier.passes.comparison.groups import Group

if TYPE_CHECKING:
    from espalier.app.session.session import Session

EMPTY = tr(
    "No model is open. Two states of one are compared here: steps of the recipe, trials, pinned states, other files."
)
FORMS: dict[str, Callable[[StateComparison], str]] = {
    "Text": to_text, "CSV": to_csv, "HTML": to_html, "JSON": to_json,
}  # fmt: skip


class ComparePanel(QWidget):
    """`file_wanted(place)`: ask for another file. `save_wanted`: write the differences. `pinned`: pins changed."""

    file_wanted = Signal(str)
    save_wanted = Signal()
    pinned = Signal()

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Compare"))
        self._session = session
        self.comparing = Comparing(session)
        self._shown: StateComparison | None = None
        self.selectors, self.slider = SelectorBar(session, self.comparing), SliderBar()
        self.pair: CanvasPair | None = None  # made when it is first shown
        self.table, self.scores = DifferenceTable(), ScoreTable()
        self.headline, self.message = Elided("", "muted"), empty_state(EMPTY)
        self.filter = QLineEdit(placeholderText=tr("Filter"), clearButtonEnabled=True)
        self.filter.setAccessibleName(tr("Filter of the differences"))
        self.filter.setMaximumWidth(180)
        self.measure = link(tr("Measure both"), self.comparing.measure)
        self.costs = CostControls(self.comparing, self.table, lambda: self._shown, self)
        self._pages = QStackedWidget()
        self._upper = QWidget()
        self._split = QSplitter(Qt.Orientation.Vertical)
        self._build()
        self._connect()
        self.refresh()

    # -- building

    def showEvent(self, event: QShowEvent) -> None:
        """Compute again after it was moved to another place, as for presenting."""
        super().showEvent(event)
        if not event.spontaneous():
            self.comparing.set_visible(True)

    def hideEvent(self, event: QHideEvent) -> None:
        """Stop computing while the panel is hidden."""
        super().hideEvent(event)
        if not event.spontaneous():
            self.comparing.set_visible(False)

    def _build(self) -> None:
        upper = QVBoxLayout(self._upper)
        upper.setContentsMargins(0, 0, 0, 0)
        upper.setSpacing(0)
        upper.addWidget(self.slider)
        lists = QSplitter(Qt.Orientation.Horizontal)
        for part, share in ((self._differences(), 3), (self._score(), 2)):
            lists.addWidget(part)
            lists.setStretchFactor(lists.count() - 1, share)
        lists.setSizes([780, 620])
        lists.setHandleWidth(1)
        self._split.setHandleWidth(1)
        self._split.setChildrenCollapsible(False)
        self._split.addWidget(self._upper)
        self._split.addWidget(lists)
        self._split.setStretchFactor(0, 1)
        self._split.setSizes([400, 220])
        self._pages.addWidget(self.message)
        self._pages.addWidget(self._split)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addWidget(self.selectors)
        box.addWidget(self._pages, 1)

    def _differences(self) -> QWidget:
        table = QWidget()
        box = QVBoxLayout(table)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addWidget(self.table, 1)
        box.addWidget(self.costs.words)
        save = link(tr("Save…"), self.save_wanted.emit)
        return _titled(tr("Differences"), table, self.headline, self.filter, self.costs.button, save)

    def _score(self) -> QWidget:
        return _titled(tr("Score"), self.scores, Elided(tr("B against A"), "muted"), self.measure)

    def _connect(self) -> None:
        bar, slider = self.selectors, self.slider
        self.comparing.changed.connect(self.refresh)
        self.comparing.document_left.connect(self._let_go)
        self._session.arranged.connect(self._show_arranged)
        bar.file_wanted.connect(self.file_wanted)
        bar.unpin_wanted.connect(self.unpin)
        bar.mode_chosen.connect(self.set_mode)
        bar.use.clicked.connect(lambda: self.comparing.use("b"))
        bar.pin.clicked.connect(self.ask_pin)
        bar.copy.setMenu(self._copy_menu())
        self.filter.textChanged.connect(self._filter)
        self.table.group_chosen.connect(self._show_group)
        self.table.selectionModel().currentRowChanged.connect(self._show_position)
        slider.stepped.connect(self.table.step)
        slider.edge_moved.connect(lambda share: self.pair and self.pair.set_edge(share))
        slider.linked.connect(lambda linked: self.pair and self.pair.set_linked(linked))

    def _copy_menu(self) -> QMenu:
        menu = QMenu(self)
        for name in FORMS:
            menu.addAction(tr(name), lambda n=name: self.copy_as(n))
        return menu

    def _canvases(self) -> CanvasPair:
        """The canvases, created on first use."""
        if self.pair is None:
            self.pair = CanvasPair()
            self.pair.set_linked(self.slider.is_linked)
            self.pair.node_selected.connect(self._selected)
            layout = self._upper.layout()
            assert isinstance(layout, QVBoxLayout)
            layout.insertWidget(0, self.pair, 1)
        return self.pair

    # -- showing

    def set_mode(self, mode: str) -> None:
        """Set the mode: side by side, one picture, or the table only."""
        self.selectors.show_mode(mode)
        self._upper.setVisible(mode != "table")
        self.slider.show_edge(mode == "one picture")
        if mode in ("side by side", "one picture"):
            self._canvases().set_mode(mode)  # type: ignore[arg-type]
            if self._shown is not None and self.pair is not None and self.pair.canvases[0].graph is None:
                self._show_graphs(self._shown)

    def refresh(self) -> None:
        """Show the present sides and their comparison, if it is computed."""
        comparing = self.comparing
        is_open = self._session.document is not None
        self.selectors.refresh(is_open)
        if comparing.error is not None:
            self._say(error_text(comparing.error))
        elif not is_open:
            self._say(EMPTY)
        elif comparing.result is None:
            if self._shown is None:
                self._say(tr("Comparing …"))
        elif comparing.result is not self._shown:
            self._show(comparing.result)
        self.costs.refresh()
        self.measure.setEnabled(comparing.can_measure)
        self.measure.setVisible(comparing.can_measure)

    def _let_go(self) -> None:
        """Clear the panel for a closed document, releasing its graphs."""
        self._say(EMPTY)
        self.table.show_comparison(None)
        self.scores.show_comparison(None)
        if self.pair is not None:
            self.pair.show_comparison(None)

    def _say(self, text: str) -> None:
        self._shown = None
        self.message.setText(text)
        self._pages.setCurrentIndex(0)

    def _show(self, comparison: StateComparison) -> None:
        self._shown = comparison
        self._pages.setCurrentIndex(1)
        self.headline.show_text(comparison.headline)
        self.table.show_comparison(comparison)
        self.scores.show_comparison(comparison)
        self.slider.show_counts(comparison)
        self._show_position()
        if self.selectors.mode != "table":
            self._show_graphs(comparison)

    def _show_graphs(self, comparison: StateComparison) -> None:
        self._canvases().show_comparison(self._whole(comparison), _facts(comparison))

    def _show_arranged(self) -> None:
        """Show pins and frames that have changed."""
        if self.pair is not None and self._shown is not None:
            self.pair.show_arrangements(self.comparing.arrangements)

    def _show_group(self, group: Group) -> None:
        if self.pair is not None:
            self.pair.show_nodes(group.nodes, 0 if group.kind == "removed" else 1)

    def _selected(self, a: tuple[str, ...], b: tuple[str, ...]) -> None:
        if a or b:
            self.table.mark(frozenset(b) | frozenset(a if not b else ()))
            self._show_position()

    def _show_position(self) -> None:
        self.slider.show_position(self.table.position)

    def _filter(self, text: str) -> None:
        self.table.rows.set_filter(text)
        self._show_position()

    # -- acting

    def copy_as(self, form: str) -> None:
        """Copy the differences as Text, CSV, HTML or JSON."""
        if self._shown is not None:
            QGuiApplication.clipboard().setText(FORMS[form](self._whole(self._shown)))

    def save(self, path: Path) -> None:
        """Write the differences in the format of the suffix; raises OptionsError, FileError."""
        write = writer_for(path)
        if self._shown is not None:
            write_text(path, write(self._whole(self._shown)))

    def _whole(self, comparison: StateComparison) -> StateComparison:
        """With what is measured of its rows, and with pins and frames."""
        comparing = self.comparing
        return replace(comparison, costs=comparing.costs.of(comparison), arrangements=comparing.arrangements)

    def choose_file(self, side: Place, source: str) -> None:
        """Compare with the model of another source."""
        self.comparing.open_file(side, source)

    def ask_pin(self) -> None:
        """Ask for a name, and pin the present state under it."""
        dialog = QInputDialog(self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setWindowTitle(tr("Pin the present state"))
        dialog.setLabelText(tr("Name of the state"))
        dialog.setTextValue(tr("After {} steps", len(self._session.open_document.recipe.active)))
        dialog.textValueSelected.connect(self.pin)
        dialog.open()

    def pin(self, name: str) -> None:
        """Pin the present state under a name; the project keeps it."""
        document = self._session.document
        if document is not None and name.strip():
            pin(document, name, document.recipe)
            self._pins_changed()

    def unpin(self, name: str) -> None:
        """Remove a pinned state; a side that showed it is reset."""
        if (document := self._session.document) is not None:
            unpin(document, name)
            self._pins_changed()

    def _pins_changed(self) -> None:
        self.pinned.emit()
        self.comparing.refresh()
        self.selectors.refill()


def _facts(comparison: StateComparison) -> tuple[str, str]:
    """`92.4 % · 70.1 MiB · 5.36 bits` of each side."""
    rows = {r.name: r for r in comparison.scores}
    texts: list[str] = []
    for side in ("a", "b"):
        values = {name: getattr(rows[name], side) for name in ("accuracy", "size_bytes", "weight_bits") if name in rows}
        values_shown = [
            f"{figure_text(n, v)}{tr(' bits') * (n == 'weight_bits')}" for n, v in values.items() if v is not None
        ]
        texts.append(" · ".join(values_shown))
    return texts[0], texts[1]


def _titled(title: str, content: QWidget, text: QWidget, *right: QWidget) -> QWidget:
    """A section with a title, an elided text, and controls at the right."""
    part, row = QWidget(), QHBoxLayout()
    name = QLabel(title)
    name.setProperty("role", "strong")
    row.setContentsMargins(12, 5, 12, 3)
    row.setSpacing(10)
    row.addWidget(name)
    row.addWidget(text, 1)
    for widget in right:
        row.addWidget(widget)
    box = QVBoxLayout(part)
    box.setContentsMargins(0, 0, 0, 0)
    box.setSpacing(0)
    box.addLayout(row)
    box.addWidget(content, 1)
    return part
