"""Formats from the heat map to the model: what a cell or the head of a column offers, and the edit."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QModelIndex, QObject, QPoint, Signal
from PySide6.QtGui import QCursor
from PySide6.QtWidgets import QMenu, QWidget

from espalier.app.figures.heat_lines import title_of
from espalier.app.words import plural
from espalier.model.formats.base import Format
from espalier.passes.choices.edits import with_format, with_sparsity
from espalier.passes.sensitivity.table import Candidate, Sensitivity

if TYPE_CHECKING:
    from espalier.app.features.sensitivity.views import Views
    from espalier.app.measured.sensitivities import Sensitivities
    from espalier.app.session.session import Session

Cell = tuple[Sensitivity, Candidate]


class Giving(QObject):
    """The menus of the map."""

    measure_wanted = Signal()
    colour_wanted = Signal(int)

    def __init__(self, parent: QWidget, session: Session, known: Sensitivities, views: Views) -> None:
        super().__init__(parent)
        self._session, self._known, self._views = session, known, views
        self.menu = QMenu(parent)

    def cells(self, places: Iterable[QModelIndex]) -> list[Cell]:
        """The ports and candidates at places of the map."""
        model = self._views.map.cells
        found = ((model.line(i.row()).row, model.candidate(i)) for i in places)
        return [(row, candidate) for row, candidate in found if row is not None and candidate is not None]

    def _column(self, column: int, chosen: bool) -> list[Cell]:
        lines = self._views.heat.lines
        wanted = set(self._session.selection)
        found = ((n.row, n.candidate(column)) for n in lines)
        return [(row, c) for row, c in found if row and c and (not chosen or row.node in wanted)]

    def give(self, cells: list[Cell]) -> None:
        """Give ports what the cells say, as fitted to each: one undo step."""
        document = self._session.document
        if document is None or not cells:
            return
        recipe = self._session.recipe
        formats: dict[tuple[str, Format | None], list[str]] = {}
        pruned: dict[tuple[float, str], list[str]] = {}
        for row, candidate in cells:
            if row.node not in document.graph.nodes:
                continue
            if candidate.format or not candidate.sparsity:
                formats.setdefault((row.port, candidate.format), []).append(row.node)
            if candidate.sparsity:
                pruned.setdefault((candidate.sparsity, candidate.method), []).append(row.node)
        for (port, fmt), ids in formats.items():
            recipe = with_format(recipe, tuple(ids), port, fmt)
        for (ratio, method), ids in pruned.items():
            recipe = with_sparsity(recipe, tuple(ids), ratio, method, "local")
        if formats or pruned:
            self._session.set_recipe(recipe, _label(cells))

    def ask_cell(self, index: QModelIndex, at: QPoint) -> None:
        """What a cell offers: its format for its port, or to be measured."""
        cells = self.cells(self._views.map.places() or [index])
        self.menu.clear()
        verb = "Give this format" if len(cells) == 1 else f"Give these {len(cells)} formats"
        self.menu.addAction(f"{verb} ({_label(cells)})").triggered.connect(lambda: self.give(cells))
        measure = self.menu.addAction(f"Measure {'it' if len(cells) == 1 else 'them'} truly")
        measure.triggered.connect(self.measure_wanted)
        measure.setEnabled(not self._known.running)
        self.menu.popup(at)

    def ask_column(self, column: int) -> None:
        """What the head of a column offers: its format for the selected layers, or for all lines."""
        self.menu.clear()
        name = self._views.heat.columns[column].title
        for chosen, words in ((True, "selected"), (False, "")):
            cells = self._column(column, chosen)
            count = len({row.node for row, _ in cells})
            text = f"Give {name} to the {plural(count, f'{words} layer'.strip())}" if count else (
                f"Give {name} to the selected layers: none is selected")  # fmt: skip
            act = self.menu.addAction(text)
            act.setEnabled(bool(cells))
            act.triggered.connect(partial(self.give, cells))
        self.menu.addSeparator()
        show = self.menu.addAction(f"Show {name} layer by layer")
        show.triggered.connect(lambda: self._views.show_layers(column))
        colour = self.menu.addAction(f"Colour the graph by {name}")
        colour.triggered.connect(lambda: self.colour_wanted.emit(column))
        self.menu.popup(QCursor.pos())


def _label(cells: list[Cell]) -> str:
    """`weight → int 4`, `3 layers → int 4`, `3 layers → several formats`."""
    names = {title_of(c) for _, c in cells}
    what = names.pop() if len(names) == 1 else "several formats"
    if len(cells) == 1:
        return f"{cells[0][0].port} → {cells[0][1].label}"
    return f"{plural(len({row.node for row, _ in cells}), 'layer')} → {what}"
