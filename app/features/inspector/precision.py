"""The precision of the selection: one row a port, then the bits and the formula of the port in hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFont, QFontMetrics, QMouseEvent
from PySide6.QtWidgets import QApplication, QGridLayout, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from espalier.app.canvas.figures import FLOATS
from espalier.app.features.inspector.sensitivity import SensitivityLine
from espalier.app.features.inspector.terms import TERMS, explained
from espalier.app.figures.captions import title
from espalier.app.glossary import meaning
from espalier.app.widgets.bits import BitsBar, formula, key_words
from espalier.app.widgets.forms.format_editor import CELL_WIDTH, CELLS, FormatEditor, short_name
from espalier.app.widgets.forms.pending import Pending
from espalier.app.widgets.heading import heading
from espalier.app.widgets.plain import rich
from espalier.app.words import plural
from espalier.model.errors import EspalierError
from espalier.model.formats.base import Format
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import decomposable, offered
from espalier.passes.choices.edits import with_format
from espalier.passes.choices.quantize import PORTS

if TYPE_CHECKING:
    from espalier.app.features.inspector.figures.weights import Loss
    from espalier.app.features.inspector.several import Least
    from espalier.app.session.session import Session
    from espalier.model.document.document import Document

GAP = 4
WIDEST_SQNR, USUAL, ARROW = "−88.8 dB", "integer", 32


class PortRow:
    """The widgets of one port."""

    def __init__(self, port: str) -> None:
        self.port = port
        self.name = PortName(port)
        self.editor = FormatEditor(compact=True)
        self.editor.choice.setAccessibleName(f"{port} format")
        self.sqnr = QLabel()
        self.sqnr.setProperty("role", "muted")
        self.sqnr.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.nodes: tuple[str, ...] = ()
        self.formats: tuple[Format | None, ...] = ()
        self.given = ""  # the scales that are given from outside, in words
        self.count: tuple[int, int] = (1, 1)  # nodes that have the port, of how many selected

    def show_count(self) -> None:
        """Say how many of the selected nodes have the port, where not all do."""
        have, selected = self.count
        if have < selected:
            self.sqnr.setText(plural(have, "node"))
        self.sqnr.setToolTip(f"{have} of the {selected} selected nodes have {self.port}" if have < selected else "")

    def widgets(self) -> tuple[QWidget, ...]:
        """All of the row."""
        return self.name, self.editor, self.sqnr

    def fit(self) -> None:
        """Take the widths that the present font asks for."""
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
        self.sqnr.setText("" if loss.reason else about + sqnr_words(loss.sqnr))
        against = "the pruned weight" if loss.whole_sqnr is not None else "the stored values"
        self.sqnr.setToolTip(loss.reason or f"{TERMS['SQNR']}, against {against}")

    def show_least(self, found: Least) -> None:
        """Show the lowest loss of several nodes, all of which have the port."""
        if self.count[0] < self.count[1] or len(found.losses) != self.count[0]:
            return
        loss, words = found.loss, "" if found.loss.reason else sqnr_words(found.loss.sqnr)
        if words:  # a sample bounds nothing
            words = f"≈{words}" if found.sampled else f"≥{words}" if words.endswith("dB") else words
        self.sqnr.setText(words)
        told = f"The lowest of the {len(found.losses)} nodes, that of {found.node}"
        self.sqnr.setToolTip(loss.reason or told + (", of samples" if found.sampled else ""))


def sqnr_words(value: float | None) -> str:
    """`42.1 dB`; exact values say so."""
    if value is None:
        return ""
    return "exact" if math.isinf(value) else f"{value:.1f} dB".replace("-", "−")


class PortName(QLabel):
    """The name of a port; a click takes it in hand."""

    clicked = Signal()

    def __init__(self, port: str) -> None:
        super().__init__(port)
        self.setToolTip(TERMS[port])

    def fit(self) -> None:
        """Be as wide as the longest port's name in the bold of the port in hand."""
        bold = QFont(self.font())
        bold.setWeight(QFont.Weight.DemiBold)
        self.setFixedWidth(max(QFontMetrics(bold).horizontalAdvance(p) for p in PORTS) + 3)

    def mark(self, current: bool) -> None:
        """Show whether this is the port in hand."""
        font = QFont(self.font())
        font.setWeight(QFont.Weight.DemiBold if current else QFont.Weight.Normal)
        self.setFont(font)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.clicked.emit()


class PrecisionSection(QWidget):
    """Edits go to the session; `port_changed` tells which port the weight section should show, `format_shown` the
    format of the port in hand (None: float, or several)."""

    port_changed = Signal(str)
    format_shown = Signal(object)

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.port = "weight"
        self.rows = {port: PortRow(port) for port in PORTS}
        self.typed = Pending(self)
        session.saving.connect(self.typed.settle)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(4)
        self._column.addWidget(heading("Precision"))
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
            row.name.clicked.connect(lambda port=row.port: self.take(port))
        self._column.addWidget(self.table)

    def _header(self, grid: QGridLayout) -> list[QLabel]:
        words = [QLabel(t) for t in ("port", "format", *[""] * CELLS, "SQNR")]
        for label in words:
            label.setToolTip(TERMS.get(label.text()) or meaning(label.text()))
            label.setProperty("role", "small")
        middle = QWidget()
        row = QHBoxLayout(middle)
        row.setContentsMargins(1, 0, 0, 0)
        row.setSpacing(GAP)
        row.addWidget(words[1], 1)
        for label in words[2:-1]:
            label.setFixedWidth(CELL_WIDTH)
            label.setAlignment(Qt.AlignmentFlag.AlignHCenter)
            row.addWidget(label)
        words[-1].setAlignment(Qt.AlignmentFlag.AlignRight)
        for column, widget in enumerate((words[0], middle, words[-1])):
            grid.addWidget(widget, 0, column)
        return words[2:-1]

    def _details(self) -> None:
        self.details = QWidget()
        column = QVBoxLayout(self.details)
        column.setContentsMargins(0, 4, 0, 0)
        column.setSpacing(4)
        self.formula = QLabel(wordWrap=True)
        self.formula.setProperty("role", "small")
        self.bits, self.key = BitsBar(), rich()
        self.key.setWordWrap(True)
        self.key.setProperty("role", "small")
        self.cost = SensitivityLine(self._session)
        self._column.addWidget(self.cost)
        for widget in (self.formula, self.bits, self.key, *(row.editor.more for row in self.rows.values())):
            column.addWidget(widget)
        self._column.addWidget(self.details)

    def fit(self) -> int:
        """Let the rows take the font's widths; returns the least width that shows all of a row."""
        for row in self.rows.values():
            row.fit()
        first = next(iter(self.rows.values()))
        cells = first.editor.choice.minimumWidth() + CELLS * (CELL_WIDTH + GAP)
        return first.name.width() + GAP + cells + GAP + first.sqnr.width()

    # -- showing

    def show_nodes(self, nodes: Sequence[Node], graph: Graph) -> None:
        """Show what nodes of one selection have chosen."""
        able = [(n, offered(n)) for n in nodes]
        for port, row in self.rows.items():
            held = [n for n, ports in able if port in ports]
            row.nodes = tuple(n.id for n in held)
            chosen = [p.format if (p := n.precision.get(port)) else None for n in held]
            row.formats = tuple(dict.fromkeys(chosen))
            shown = bool(held)
            for widget in row.widgets():
                widget.setVisible(shown)
            if shown:
                row.editor.put_many(row.formats)
                scales = {p.scale for n in held if (p := n.precision.get(port)) and p.scale}
                row.given = f" · scale given: {', '.join(sorted(scales)[:2])}" if scales else ""
                row.count = len(held), len(nodes)
                row.sqnr.setText("exact" if row.formats == (None,) else "")
                row.show_count()
                if row.formats == (None,) and len(held) == len(nodes):
                    row.sqnr.setToolTip(f"Not quantised: stays in {_stored(held, port)}")
            else:
                row.editor.wrong.hide()
        count = sum(1 for _, ports in able if ports)
        self._say(nodes, count)
        if not self.rows[self.port].nodes:
            self.take(next((p for p in ("weight", *PORTS) if self.rows[p].nodes), "weight"))
        self._show_port()

    def _say(self, nodes: Sequence[Node], count: int) -> None:
        self.table.setVisible(count > 0)
        words = ""
        if not count and len(nodes) == 1:
            words = f"{title(nodes[0].op)} has no port that takes a format; it computes in float."
        elif not count:
            words = f"None of the {len(nodes)} nodes has a port that takes a format."
        elif any(map(decomposable, nodes)):
            words = "A format writes the attention out as matmuls, which take it."
        elif count < len(nodes):
            words = f"{plural(count, 'node')} of {len(nodes)} can be quantised."
        self.none.setText(words)
        self.none.setVisible(bool(words))

    def _show_port(self) -> None:
        row = self.rows[self.port]
        for other in self.rows.values():
            other.name.mark(other is row)
            other.editor.more.setVisible(other is row and len(other.editor.widgets) > CELLS)
        fmt = row.formats[0] if len(row.formats) == 1 else None
        names = [short_name(n) for n in row.editor.parameter_names()] or self._other_names()
        for i, label in enumerate(self._heads):
            label.setText(names[i] if i < len(names) else "")
            label.setToolTip(TERMS.get(label.text()) or meaning(label.text()))
        self.formula.setText(formula(row.port, fmt) + row.given if fmt else "")
        self.formula.setToolTip(explained(fmt.formula) if fmt else "")
        self.bits.show_format(fmt)
        self.details.setVisible(fmt is not None or bool(row.editor.widgets))
        self.formula.setVisible(fmt is not None)
        self.bits.setVisible(fmt is not None)
        self.key.setText(key_words(fmt) if fmt else "")
        self.key.setVisible(fmt is not None)
        self.cost.show_port(row.nodes if len(row.formats) == 1 else (), row.port, fmt)
        self.format_shown.emit(fmt)

    def _other_names(self) -> list[str]:
        rows = (r.editor.parameter_names() for r in self.rows.values() if r.nodes)
        return [short_name(n) for n in next(filter(None, rows), ())]

    def take(self, port: str) -> None:
        """Take a port in hand: its bits and formula show, and its tensor below."""
        if port != self.port:
            self.port = port
            self._show_port()
            self.port_changed.emit(port)

    def take_if_there(self, port: str) -> None:
        """Take a port in hand where the selection has it."""
        if self.rows[port].nodes:
            self.take(port)

    def _focus(self, old: QWidget | None, new: QWidget | None) -> None:
        if new is None or not self.isAncestorOf(new):
            return
        for port, row in self.rows.items():
            if row.editor.isAncestorOf(new) or row.editor.more.isAncestorOf(new):
                self.take(port)

    # -- editing

    def _edited(self, port: str) -> None:
        row = self.rows[port]
        self.typed.forget()
        try:
            wanted = {fmt: row.editor.applied(fmt) for fmt in row.formats}
        except EspalierError:
            return
        self.take(port)
        self.typed.wait(partial(self._give, self._session.document, port, row.nodes, wanted))
        if not row.editor.typing:
            self.typed.settle()

    def _give(
        self,
        document: Document | None,
        port: str,
        nodes: tuple[str, ...],
        wanted: dict[Format | None, Format | None],
    ) -> None:
        results = list(dict.fromkeys(wanted.values()))
        if document is not self._session.document or not document or not all(n in document.graph.nodes for n in nodes):
            return  # meanwhile it is another graph
        if len(results) == 1:
            self._session.set_format(nodes, port, results[0])
        else:
            self._give_each(port, nodes, wanted)

    def _give_each(self, port: str, nodes: tuple[str, ...], wanted: dict[Format | None, Format | None]) -> None:
        """One step for a mixed selection: each node keeps what was not edited."""
        known = self._session.open_document.graph.nodes
        rules: dict[Format | None, list[str]] = {}
        for name in nodes:
            choice = known[name].precision.get(port)
            held = choice.format if choice else None
            rules.setdefault(wanted.get(held, held), []).append(name)
        recipe = self._session.recipe
        for fmt, ids in rules.items():
            recipe = with_format(recipe, tuple(ids), port, fmt)
        self._session.set_recipe(recipe, f"{port} of {plural(len(nodes), 'node')}", ("format", nodes, port))


def _stored(nodes: Sequence[Node], port: str) -> str:
    kinds = {n.ports[port].dtype for n in nodes}
    return FLOATS.get(kinds.pop(), "float") if len(kinds) == 1 else "float"
