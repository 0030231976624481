"""Panel Inspector: facts, problems, precision, weight and pruning of the selection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QCloseEvent
from PySide6.QtWidgets import QFrame, QLabel, QScrollArea, QVBoxLayout, QWidget

from espalier.app.features.inspector.activations import ActivationPruningSection
from espalier.app.features.inspector.adapter import AdapterSection
from espalier.app.features.inspector.figures.weights import Loss
from espalier.app.features.inspector.format import FormatSection
from espalier.app.features.inspector.multiple_nodes import LowestSqnr, LowestSqnrMonitor
from espalier.app.features.inspector.parallel import ParallelSection
from espalier.app.features.inspector.precision import PrecisionSection
from espalier.app.features.inspector.pruning import PruningSection
from espalier.app.features.inspector.scope import ScopeSection
from espalier.app.features.inspector.sparsity_map import SparsityMapSection
from espalier.app.features.inspector.structure import StructureSection
from espalier.app.features.inspector.weight import WeightSection
from espalier.app.features.inspector.widgets import ElidedLabel, FactRows
from espalier.app.figures.facts import (
    NO_SELECTION,
    common_path,
    many_facts,
    model_facts,
    node_facts,
    node_path,
    node_title,
)
from espalier.app.translation import message, tr
from espalier.app.widgets.forms.fields import apply_field_style
from espalier.model.document.document import Change
from espalier.model.graph.check import Problem
from espalier.model.graph.graph import Node

if TYPE_CHECKING:
    from espalier.app.session.session import Session

MARGIN = 12


class InspectorPanel(QScrollArea):
    """Shows the selection of `session`; edits go through the session and come back as changes."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.title, self.path = ElidedLabel("title"), ElidedLabel("small")
        self.path.mode = Qt.TextElideMode.ElideMiddle
        self.facts, self.problems = FactRows(), QLabel(wordWrap=True)
        self.problems.setProperty("role", "bad")
        self.hint = QLabel(NO_SELECTION, wordWrap=True)
        self.hint.setProperty("role", "muted")
        self.scope = ScopeSection(session)
        self.precision = PrecisionSection(session)
        self.weight = WeightSection(session)
        self.lowest = LowestSqnrMonitor(session, self.weight.samples)
        self.pruning = PruningSection(session)
        self.sparsity_map = SparsityMapSection(session)
        self.inputs = ActivationPruningSection(session)
        self.adapter = AdapterSection(session)
        self.structure = StructureSection(session)
        self.parallel = ParallelSection(session)
        self.format = FormatSection()
        self._arrange()
        self._connect()
        self._fit()
        self.refresh()

    def _arrange(self) -> None:
        body = self._body = QWidget()
        self.setWidget(body)  # first: what gets a new parent is styled again with all its children
        apply_field_style(body)
        body.setProperty("surface", "panel")
        body.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        column = QVBoxLayout(body)
        column.setContentsMargins(MARGIN, 12, MARGIN, 16)
        column.setSpacing(0)
        column.addWidget(self.title)
        column.addWidget(self.path)
        for gap, widget in ((8, self.scope), (6, self.facts), (8, self.problems), (8, self.hint), (14, self.precision),
                            (14, self.pruning), (14, self.weight), (14, self.format), (14, self.sparsity_map),
                            (14, self.inputs), (14, self.adapter), (14, self.structure),
                            (14, self.parallel)):  # fmt: skip
            widget.setContentsMargins(0, gap, 0, 0)
            column.addWidget(widget)
        column.addStretch(1)

    def _connect(self) -> None:
        session = self._session
        session.opened.connect(self.refresh)
        session.changed.connect(self._changed)
        session.selection_changed.connect(lambda _: self.refresh())
        session.job_event.connect(lambda _: self.pruning.settle())
        session.job_event.connect(lambda _: self.inputs.settle())
        self.precision.port_changed.connect(self.weight.show_port)
        self.precision.format_shown.connect(self.format.show_format)
        self.weight.measured.connect(self._on_measured)
        self.lowest.measured.connect(self._on_lowest)
        self.weight.chooser.edited.connect(self._show_sparsity_map)

    # -- showing

    def refresh(self) -> None:
        """Show the selection."""
        nodes = self._nodes()
        self._show_facts(nodes)
        self._show_problems(nodes)
        self._show_choices(nodes)

    def _show_facts(self, nodes: list[Node]) -> None:
        document = self._session.document
        self.hint.setVisible(not nodes)
        if document is None:
            self.title.show_text(tr("No model"))
            self.path.show_text("")
            self.facts.show_facts(())
            self.hint.setText(tr("Open a model to begin."))
        elif not nodes:
            self.title.show_text(document.project.source.name)
            self.path.show_text(tr("nothing selected"))
            self.facts.show_facts(model_facts(document))
            self.hint.setText(NO_SELECTION)
        elif len(nodes) == 1:
            self.title.show_text(node_title(nodes[0]), nodes[0].id)
            self.path.show_text(node_path(nodes[0]))
            self.facts.show_facts(node_facts(nodes[0], document.graph))
        else:
            self.title.show_text(tr("{} nodes", len(nodes)))
            self.path.show_text(common_path(nodes))
            self.facts.show_facts(many_facts(nodes, document.graph))

    def enter(self) -> None:
        """Focus the first editable field."""
        rows = [row.editor.choice for row in self.precision.rows.values()]
        field = next((w for w in (*rows, self.pruning.slider) if w.isVisible()), self)
        field.setFocus(Qt.FocusReason.TabFocusReason)
        self.ensureWidgetVisible(field)

    def _nodes(self) -> list[Node]:
        document = self._session.document
        if document is None:
            return []
        known = document.graph.nodes
        return [known[i] for i in self._session.selection if i in known]

    def _show_problems(self, nodes: list[Node]) -> None:
        chosen = {n.id for n in nodes}
        mine = [p for p in self._session.problems if (p.node in chosen if nodes else p.node is None)]
        self.problems.setText("\n".join(_problem_text(p) for p in mine[:5]))
        self.problems.setVisible(bool(mine))

    def _show_choices(self, nodes: list[Node]) -> None:
        document = self._session.document
        self.precision.setVisible(bool(nodes))
        if document is None or not nodes:
            self.lowest.forget()
            self.weight.show_nodes((), document.graph, "weight") if document else self.weight.hide()
            self.scope.hide()
            self.pruning.hide()
            self.sparsity_map.hide()
            self.inputs.hide()
            self.adapter.hide()
            self.structure.hide()
            self.parallel.hide()
            self.format.show_format(None)
            return
        self.scope.show_nodes(nodes, document.graph)
        self.precision.show_nodes(nodes, document.graph)
        self.weight.show_nodes(nodes, document.graph, self.precision.port)
        self.lowest.show_nodes(nodes, document.graph)
        self.pruning.show_nodes(nodes, document.graph)
        self.adapter.show_nodes(nodes, document.graph)
        self.structure.show_nodes(nodes, document.graph)
        self.parallel.show_nodes(nodes)
        self._show_sparsity_map()
        self.inputs.show_nodes(nodes, document.graph)

    def _show_sparsity_map(self) -> None:
        """Show the map of the histogram's weight if it can be pruned."""
        document, subject = self._session.document, self.weight.subject
        if document is not None:
            nodes = self._nodes()
            first = [n for n in nodes if subject is not None and n.id == subject.id]
            self.sparsity_map.show_nodes([*first, *nodes], document.graph)

    def _changed(self, change: Change) -> None:
        delta = change.delta
        if delta.added or delta.removed or not self._session.selection:
            self.refresh()
        elif delta.changed and not set(delta.changed).isdisjoint(self._session.selection):
            nodes = self._nodes()  # node objects are replaced by edits
            self._show_facts(nodes)
            self._show_choices(nodes)

    def _on_measured(self, port: str, loss: Loss) -> None:
        row = self.precision.rows[port]
        if len(row.formats) == 1 and row.formats != (None,) and row.count[1] == 1:
            row.show_sqnr(loss, waiting=False)

    def _on_lowest(self, port: str, lowest: LowestSqnr) -> None:
        """Show the lowest SQNR of several nodes."""
        self.precision.rows[port].show_lowest(lowest)
        self.weight.show_lowest(port, lowest)

    # -- style

    def _fit(self) -> None:
        """Set the minimum width to that of the rows, so that they are never cut."""
        bar = self.verticalScrollBar().sizeHint().width()
        self.setMinimumWidth(self.precision.fit() + 2 * MARGIN + bar)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange) and self.widget():
            self._fit()

    def closeEvent(self, event: QCloseEvent) -> None:
        self.weight.close_previews()
        self.lowest.close_previews()
        self.format.close_previews()
        self.sparsity_map.close_previews()
        self.structure.close_previews()
        super().closeEvent(event)


def _problem_text(problem: Problem) -> str:
    text = message(problem.message)
    return text if problem.severity == "error" else tr("Note: {}", text)
