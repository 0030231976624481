"""One layer beside the targets: what each has no equal of, why, and formats of its weight that it holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QLabel, QVBoxLayout, QWidget

from espalier.app.figures.facts import node_path
from espalier.app.number_text import plural
from espalier.app.translation import message, tr
from espalier.app.widgets.forms.fields import Choice
from espalier.app.widgets.heading import link, muted
from espalier.model.formats.base import Format
from espalier.model.graph.graph import Graph
from espalier.model.graph.ports import weight_at
from espalier.passes.analysis.format_sqnr import usual_formats
from espalier.passes.export.targets import TARGETS
from espalier.passes.export.targets.matrix import Layer, weight_formats

if TYPE_CHECKING:
    from espalier.app.session.session import Session

NO_LAYER = tr("Select a layer: which formats of its weight a target holds is listed here.")


class LayerView(QWidget):
    """The first selected layer; its links set the format of all selected weights."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._nodes: tuple[str, ...] = ()
        self.title, self._none = QLabel(), muted(NO_LAYER)
        self.title.setProperty("role", "strong")
        self.texts, self.formats, self.links = dict[str, QLabel](), dict[str, Choice](), dict[str, QWidget]()
        self._offered: dict[str, dict[str, Format]] = {}
        self._lines = QWidget()
        grid = QGridLayout(self._lines)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(10)
        grid.setColumnStretch(1, 1)
        for row, (name, _) in enumerate(TARGETS.items()):
            self._line(grid, row, name)
        box = QVBoxLayout(self)
        box.setContentsMargins(12, 8, 12, 10)
        for part in (self.title, self._none, self._lines):
            box.addWidget(part)
        box.addStretch(1)
        self.show_none()

    def _line(self, grid: QGridLayout, row: int, name: str) -> None:
        self.texts[name] = text = QLabel(wordWrap=True)
        self.formats[name] = formats = Choice()
        formats.setAccessibleName(tr("Formats of the weight that {} holds", name))
        formats.setToolTip(tr("Those of the usual formats that {} holds as this weight", name))
        self.links[name] = choose = link(tr("Use"), lambda: self._apply(name))
        choose.setAccessibleName(tr("Use a format that {} holds", name))
        choose.setToolTip(tr("Set this format as that of the selected weights"))
        grid.addWidget(QLabel(name), row, 0, Qt.AlignmentFlag.AlignTop)
        for column, part in enumerate((text, formats, choose), start=1):
            grid.addWidget(part, row, column, Qt.AlignmentFlag.AlignTop)

    def show_none(self) -> None:
        """Show that no layer is selected."""
        self._nodes = ()
        self.title.hide()
        self._lines.hide()
        self._none.show()

    def show_layer(self, layer: Layer, graph: Graph, selected: Sequence[str]) -> None:
        """Show the first of the selected layers."""
        node = layer.node
        self._nodes = tuple(n for n in selected if weight_at(graph[n], "weight", graph) is not None)
        more = tr(" and {}", plural(len(selected) - 1, "more layer")) if len(selected) > 1 else ""
        self.title.setText(f"{node_path(node)}{more}")
        for name, refused in layer.refused.items():
            held = weight_formats(name, node, graph, usual_formats()) if layer.has_weight else {}
            self._offered[name] = held
            self.formats[name].offer(tuple(held), tuple(held))
            for part in (self.formats[name], self.links[name]):
                part.setVisible(bool(held))
            why = " ".join(tr("{} of {}: {}. {}", u.label, u.port, message(u.why), message(u.instead)) for u in refused)
            could = (
                tr("holds {} of this weight", plural(len(held), "format"))
                if layer.has_weight
                else tr("has nothing to hold")
            )
            self.texts[name].setText(why or (tr("held") if layer.chosen else could))
        self._none.hide()
        self.title.show()
        self._lines.show()

    def _apply(self, target: str) -> None:
        fmt = self._offered[target][self.formats[target].get()]
        self._session.set_format(self._nodes, "weight", fmt)
