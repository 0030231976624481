"""Section for the selection's precision: one row per port, bits and formula of the current port."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFont, QFontMetrics, QMouseEvent
from PySide6.QtWidgets import QApplication, QGridLayout, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from espalier.app.canvas.node_metrics import FLOATS
from espalier.app.features.inspector.sensitivity import SensitivityLine
from espalier.app.features.inspector.terms import TERMS, explain_formula
from espalier.app.figures.captions import title
from espalier.app.glossary import meaning
from espalier.app.number_text import plural
from espalier.app.translation import english, tr
from espalier.app.widgets.bits import BitsBar, formula, legend
from espalier.app.widgets.forms.delayed_edit import DelayedEdit
from espalier.app.widgets.forms.format_editor import FormatEditor, short_name
from espalier.app.widgets.forms.parameter_fields import CELL_WIDTH, CELLS
from espalier.app.widgets.heading import heading
from espalier.app.widgets.plain_text_style import rich_label
from espalier.model.errors import EspalierError
from espalier.model.formats.base import Format
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import decomposable, offered
from espalier.passes.choices.edits import with_format
from espalier.passes.choices.quantize import PORTS

if TYPE_CHECKING:
    from espalier.app.features.inspector.figures.weights import Loss
    from espalier.app.features.inspector.multiple_nodes import LowestSqnr
    from espalier.app.session.session import Session
    from espalier.model.document.document import Document

GAP = 4
WIDEST_SQNR, USUAL, ARROW = "−88.8 dB", "integer", 32


class PortRow:
    """Widgets of one port."""

    def __init__(self, port: str) -> None:
        self.port = port
        self.name = PortName(port)
        self.editor = FormatEditor(compact=True)
        self.editor.choice.setAccessibleName(tr("{} format", port))
        self.sqnr = QLabel()
        self.sqnr.setProperty("role", "muted")
        self.sqnr.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.nodes: tuple[str, ...] = ()
        self.formats: tuple[Format | None, ...] = ()
        self.given = ""  # text on externally given scales
        self.count: tuple[int, int] = (1, 1)  # (nodes with the port, selected nodes)

    def show_count(self) -> None:
        """Show how many of the selected nodes have the port, if not all do."""
        have, selected = self.count
        if have < selected:
            self.sqnr.setText(plural(have, "node"))
        self.sqnr.setToolTip(
            tr("{} of the {} selected nodes have {}", have, selected, self.port) if have < selected else ""
        )

    def widgets(self) -> tuple[QWidget, ...]:
        """Widgets of the row."""
        return self.name, self.editor, self.sqnr

    def fit(self) -> None:
        """Set widths by the present font."""
        self.name.fit()
        self.editor.choice.setMinimumWidth(self.editor.choice.fontMetrics().horizontalAdvance(USUAL) + ARROW)
        self.sqnr.setFixedWidth(self.sqnr.fontMetrics().horizontalAdvance(WIDEST_SQNR) + 2)

    def show_sqnr(self, loss: Loss | None, waiting: bool) -> None:
        """Show a measured loss."""
        if self.count[0] < self.count[1]:
            return
        if loss is None:
            self.sqnr.setText("…" if waiting else "")
            return
        about = "≈" if loss.sampled and loss.sqnr is not None else ""
        self.sqnr.setText("" if loss.reason else about + sqnr_text(loss.sqnr))
        against = tr("the pruned weight") if loss.whole_sqnr is not None else tr("the stored values")
        self.sqnr.setToolTip(loss.reason or tr("{}, against {}", TERMS["SQNR"], against))

    def show_lowest(self, lowest: LowestSqnr) -> None:
        """Show the lowest SQNR of several nodes, if all have the port."""
        if self.count[0] < self.count[1] or len(lowest.losses) != self.count[0]:
            return
        loss, text = lowest.loss, "" if lowest.loss.reason else sqnr_text(lowest.loss.sqnr)
        if text:  # a sample gives no bound
            text = f"≈{text}" if lowest.sampled else f"≥{text}" if text.endswith("dB") else text
        self.sqnr.setText(text)
        tooltip = tr("The lowest of the {} nodes, that of {}", len(lowest.losses), lowest.node)
        self.sqnr.setToolTip(loss.reason or tooltip + (tr(", of samples") if lowest.sampled else ""))


def sqnr_text(value: float | None) -> str:
    """Format an SQNR: `42.1 dB`, or `exact`."""
    if value is None:
        return ""
    return tr("exact") if math.isinf(value) else f"{value:.1f} dB".replace("-", "−")


class PortName(QLabel):
    """Name of a port; a click makes it the current port."""

    clicked = Signal()

    def __init__(self, port: str) -> None:
        super().__init__(port)
        self.setToolTip(TERMS[port])

    def fit(self) -> None:
        """Set the width to the longest port name in bold."""
        bold = QFont(self.font())
        bold.setWeight(QFont.Weight.DemiBold)
        self.setFixedWidth(max(QFontMetrics(bold).horizontalAdvance(p) for p in PORTS) + 3)

    def mark(self, current: bool) -> None:
        """Mark the current port in bold."""
        font = QFont(self.font())
        font.setWeight(QFont.Weight.DemiBold if current else QFont.Weight.Normal)
        self.setFont(font)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.clicked.emit()


class PrecisionSection(QWidget):
    """Formats of the selection's ports; emits `port_changed` with the current port and `format_shown` with its format
    (None: float or mixed)."""

    port_changed = Signal(str)
    format_shown = Signal(object)

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.port = self._wanted = "weight"  # the current port; the one that was chosen, which not all nodes have
        self.rows = {port: PortRow(port) for port in PORTS}
        self.typed = DelayedEdit(self)
        session.saving.connect(self.typed.settle)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(4)
        self._column.addWidget(heading(tr("Precision")))
        self.none = QLabel(wordWrap=True)
        self.none.setProperty("role", "muted")
        self._column.addWidget(self.none)
        self._table()
        self._details()
        app = QApplication.instance()
        assert isinstance(app, QApplication)
        app.focusChanged.connect(self._focus)

    def _table(self) -> None:
        self.table = QWidget()
        grid = QGridLayout(self.table)
        grid.setContentsMargins(0, 2, 0, 0)
        grid.setHorizontalSpacing(GAP)
        grid.setVerticalSpacing(4)
        grid.setColumnStretch(1, 1)
        self._heads = self._header(grid)
        for i, row in enumerate(self.rows.values()):
            for column, widget in enumerate(row.widgets()):
                grid.addWidget(widget, 1 + 2 * i, column)
            grid.addWidget(row.editor.wrong, 2 + 2 * i, 0, 1, 3)
            row.editor.edited.connect(lambda port=row.port: self._edited(port))
            row.editor.entered.connect(self.typed.settle)
            row.name.clicked.connect(lambda port=row.port: self.set_port(port))
        self._column.addWidget(self.table)

    def _header(self, grid: QGridLayout) -> list[QLabel]:
        labels = [QLabel(t) for t in (tr("port"), tr("format"), *[""] * CELLS, "SQNR")]
        for label in labels:
            label.setToolTip(TERMS.get(english(label.text())) or meaning(label.text()))
            label.setProperty("role", "small")
        middle = QWidget()
        row = QHBoxLayout(middle)
        row.setContentsMargins(1, 0, 0, 0)
        row.setSpacing(GAP)
        row.addWidget(labels[1], 1)
        for label in labels[2:-1]:
            label.setFixedWidth(CELL_WIDTH)
            label.setAlignment(Qt.AlignmentFlag.AlignHCenter)
            row.addWidget(label)
        labels[-1].setAlignment(Qt.AlignmentFlag.AlignRight)
        for column, widget in enumerate((labels[0], middle, labels[-1])):
            grid.addWidget(widget, 0, column)
        return labels[2:-1]

    def _details(self) -> None:
        self.details = QWidget()
        column = QVBoxLayout(self.details)
        column.setContentsMargins(0, 4, 0, 0)
        column.setSpacing(4)
        self.formula = QLabel(wordWrap=True)
        self.formula.setProperty("role", "small")
        self.bits, self.key = BitsBar(), rich_label()
        self.key.setWordWrap(True)
        self.key.setProperty("role", "small")
        self.cost = SensitivityLine(self._session)
        self._column.addWidget(self.cost)
        for widget in (self.formula, self.bits, self.key, *(row.editor.more for row in self.rows.values())):
            column.addWidget(widget)
        self._column.addWidget(self.details)

    def fit(self) -> int:
        """Fit the rows to the font; return the minimum width of a row."""
        for row in self.rows.values():
            row.fit()
        first = next(iter(self.rows.values()))
        cells = first.editor.choice.minimumWidth() + CELLS * (CELL_WIDTH + GAP)
        return first.name.width() + GAP + cells + GAP + first.sqnr.width()

    # -- showing

    def show_nodes(self, nodes: Sequence[Node], graph: Graph) -> None:
        """Show the formats of nodes."""
        ports_of = [(n, offered(n)) for n in nodes]
        for port, row in self.rows.items():
            having = [n for n, ports in ports_of if port in ports]
            row.nodes = tuple(n.id for n in having)
            chosen = [p.format if (p := n.precision.get(port)) else None for n in having]
            row.formats = tuple(dict.fromkeys(chosen))
            shown = bool(having)
            for widget in row.widgets():
                widget.setVisible(shown)
            if shown:
                row.editor.put_many(row.formats)
                scales = {p.scale for n in having if (p := n.precision.get(port)) and p.scale}
                row.given = tr(" · scale given: {}", ", ".join(sorted(scales)[:2])) if scales else ""
                row.count = len(having), len(nodes)
                row.sqnr.setText(tr("exact") if row.formats == (None,) else "")
                row.show_count()
                if row.formats == (None,) and len(having) == len(nodes):
                    row.sqnr.setToolTip(tr("Not quantised: stays in {}", _stored(having, port)))
            else:
                row.editor.wrong.hide()
        count = sum(1 for _, ports in ports_of if ports)
        self._show_message(nodes, count)
        self._make_current(next((p for p in (self._wanted, "weight", *PORTS) if self.rows[p].nodes), self._wanted))
        self._show_port()

    def _show_message(self, nodes: Sequence[Node], count: int) -> None:
        self.table.setVisible(count > 0)
        text = ""
        if not count and len(nodes) == 1:
            text = tr("{} has no port with a format; it computes in float.", title(nodes[0].op))
        elif not count:
            text = tr("None of the {} nodes has a port with a format.", len(nodes))
        elif any(map(decomposable, nodes)):
            text = tr("Choosing a format decomposes the attention into matmuls, which take it.")
        elif count < len(nodes):
            text = tr("{} of {} can be quantised.", plural(count, "node"), len(nodes))
        self.none.setText(text)
        self.none.setVisible(bool(text))

    def _show_port(self) -> None:
        row = self.rows[self.port]
        for other in self.rows.values():
            other.name.mark(other is row)
            other.editor.more.setVisible(other is row and len(other.editor.widgets) > CELLS)
        fmt = row.formats[0] if len(row.formats) == 1 else None
        names = [short_name(n) for n in row.editor.parameter_names()] or self._other_names()
        for i, label in enumerate(self._heads):
            label.setText(names[i] if i < len(names) else "")
            label.setToolTip(TERMS.get(english(label.text())) or meaning(label.text()))
        self.formula.setText(formula(row.port, fmt) + row.given if fmt else "")
        self.formula.setToolTip(explain_formula(fmt.formula) if fmt else "")
        self.bits.show_format(fmt)
        self.details.setVisible(fmt is not None or bool(row.editor.widgets))
        self.formula.setVisible(fmt is not None)
        self.bits.setVisible(fmt is not None)
        self.key.setText(legend(fmt) if fmt else "")
        self.key.setVisible(fmt is not None)
        self.cost.show_port(row.nodes if len(row.formats) == 1 else (), row.port, fmt)
        self.format_shown.emit(fmt)

    def _other_names(self) -> list[str]:
        rows = (r.editor.parameter_names() for r in self.rows.values() if r.nodes)
        return [short_name(n) for n in next(filter(None, rows), ())]

    def set_port(self, port: str) -> None:
        """Make a port current, also of nodes that are selected later: its bits, formula and tensor are shown."""
        self._wanted = port
        self._make_current(port)

    def _make_current(self, port: str) -> None:
        if port != self.port:
            self.port = port
            self._show_port()
            self.port_changed.emit(port)

    def set_port_if_present(self, port: str) -> None:
        """Make a port current if the selection has it."""
        if self.rows[port].nodes:
            self.set_port(port)

    def _focus(self, old: QWidget | None, new: QWidget | None) -> None:
        if new is None or not self.isAncestorOf(new):
            return
        for port, row in self.rows.items():
            if row.editor.isAncestorOf(new) or row.editor.more.isAncestorOf(new):
                self.set_port(port)

    # -- editing

    def _edited(self, port: str) -> None:
        row = self.rows[port]
        self.typed.forget()
        try:
            wanted = {fmt: row.editor.applied(fmt) for fmt in row.formats}
        except EspalierError:
            return
        self.set_port(port)
        self.typed.wait(partial(self._apply, self._session.document, port, row.nodes, wanted))
        if not row.editor.typing:
            self.typed.settle()

    def _apply(
        self,
        document: Document | None,
        port: str,
        nodes: tuple[str, ...],
        wanted: dict[Format | None, Format | None],
    ) -> None:
        results = list(dict.fromkeys(wanted.values()))
        if document is not self._session.document or not document or not all(n in document.graph.nodes for n in nodes):
            return  # the graph has changed meanwhile
        if len(results) == 1:
            self._session.set_format(nodes, port, results[0])
        else:
            self._apply_each(port, nodes, wanted)

    def _apply_each(self, port: str, nodes: tuple[str, ...], wanted: dict[Format | None, Format | None]) -> None:
        """Apply to a mixed selection in one step: each node keeps its unedited parameters."""
        nodes_by_id = self._session.open_document.graph.nodes
        rules: dict[Format | None, list[str]] = {}
        for name in nodes:
            choice = nodes_by_id[name].precision.get(port)
            present = choice.format if choice else None
            rules.setdefault(wanted.get(present, present), []).append(name)
        recipe = self._session.recipe
        for fmt, ids in rules.items():
            recipe = with_format(recipe, tuple(ids), port, fmt)
        self._session.set_recipe(recipe, tr("{} of {}", port, plural(len(nodes), "node")), ("format", nodes, port))


def _stored(nodes: Sequence[Node], port: str) -> str:
    kinds = {n.ports[port].dtype for n in nodes}
    return FLOATS.get(kinds.pop(), "float") if len(kinds) == 1 else "float"
