"""Section for weight pruning: method, scope, pattern and share, applied live while the slider moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from espalier.app.features.inspector.pruning_fields import PatternFields, share_of
from espalier.app.features.inspector.terms import TERMS
from espalier.app.features.inspector.widgets import ShareSlider
from espalier.app.figures.facts import pruned_text
from espalier.app.number_text import count
from espalier.app.translation import tr
from espalier.app.widgets.forms.fields import MIXED, Choice, NumberField
from espalier.app.widgets.heading import heading, link
from espalier.model.errors import EspalierError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ports import weight_at
from espalier.passes.choices.pruning import METHODS, SCOPES, WITH_DATA
from espalier.passes.unpruned import prunable

if TYPE_CHECKING:
    from espalier.app.session.session import Session

EVERY = 100  # milliseconds between two requests while the slider moves
REST = 600  # milliseconds without a change before a method that runs the model is started
NO_DATA = tr("needs data: set it first (Run → Evaluate on…).")


@dataclass(frozen=True, slots=True)
class Request:
    """Pruning settings of a request."""

    ratio: float
    method: str
    scope: str
    pattern: str = "element"
    size: tuple[int, int] = (1, 1)

    def options(self) -> dict[str, Any]:
        """Options of the pass besides share, method and scope."""
        names = {"n:m": ("n", "m"), "block": ("rows", "columns")}.get(self.pattern, ())
        values: dict[str, Any] = dict(zip(names, self.size, strict=False))
        return values | ({"pattern": self.pattern} if self.pattern != "element" else {})


class PruningSection(QWidget):
    """Edits run as jobs; the section shows the requested values until they finish."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.nodes: tuple[Node, ...] = ()
        self._elements = 0
        self._mixed = False
        self._pending: Request | None = None
        self._sent: Request | None = None
        self._timer = QTimer(self, interval=EVERY, singleShot=True)
        self._timer.timeout.connect(self._send)
        self.method, self.scope = Choice(METHODS), Choice(SCOPES)
        self.pattern = PatternFields()
        self.words, self.state, self.changes = QLabel(), QLabel(wordWrap=True), QLabel(wordWrap=True)
        self.words.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.slider, self.share = ShareSlider(), NumberField(float, 0, 100)
        self.remove = link(tr("Remove"), self._remove)
        self._name()
        self._arrange()
        self.slider.valueChanged.connect(self._slid)
        self.slider.sliderReleased.connect(self._send)
        self.share.edited.connect(self._typed)
        self.method.edited.connect(self._method_chosen)
        for choice in (self.scope, self.pattern):
            choice.edited.connect(self._chosen)

    def _name(self) -> None:
        """Set accessible names and tooltips."""
        for widget, name, term in (
            (self.method, tr("pruning method"), "method"),
            (self.scope, tr("pruning scope"), "scope"),
            (self.slider, tr("sparsity"), "sparsity"),
            (self.share, tr("sparsity in percent"), "sparsity"),
        ):
            widget.setAccessibleName(name)
            widget.setToolTip(TERMS[term])
        self.words.setToolTip(TERMS["sparsity"])
        self.remove.setToolTip(tr("Restore all values"))
        for label in (self.state, self.changes):
            label.setProperty("role", "small")
        self.share.setFixedWidth(52)

    def _arrange(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addWidget(heading(tr("Pruning")))
        rows = ((self.method, self.scope, None, self.words), (self.pattern, None, self.remove),
                (self.slider, self.share, _percent()))  # fmt: skip
        for widgets in rows:
            row = QHBoxLayout()
            row.setSpacing(6)
            for widget in widgets:
                row.addStretch(1) if widget is None else row.addWidget(widget, int(widget is self.slider))
            column.addLayout(row)
        column.addWidget(self.state)
        column.addWidget(self.changes)

    # -- showing

    def show_nodes(self, nodes: Sequence[Node], graph: Graph) -> None:
        """Show the pruning of the prunable nodes."""
        prunable_nodes = tuple(n for n in nodes if prunable(n, graph))
        if tuple(n.id for n in prunable_nodes) != tuple(n.id for n in self.nodes):
            self._flush()
        self.nodes = prunable_nodes
        self.setVisible(bool(prunable_nodes))
        if not prunable_nodes:
            return
        self._elements = sum(graph.weights[weight_at(n, "weight", graph) or ""].elements for n in prunable_nodes)
        if self._pending is not None and self._busy():
            return
        self._pending = self._sent = None
        self._show(prunable_nodes)

    def _show(self, nodes: Sequence[Node]) -> None:
        sparsities = [n.sparsity.get("weight") for n in nodes]
        ratios = {s.ratio if s else 0.0 for s in sparsities}
        zeros = sum(s.zeros for s in sparsities if s)
        for choice, values in (
            (self.method, {s.method for s in sparsities if s}),
            (self.scope, {s.scope for s in sparsities if s}),
        ):
            if values:
                choice.put(values.pop() if len(values) == 1 else MIXED)
            elif choice.currentIndex() < 0:
                choice.setCurrentIndex(0)
        self.pattern.show_patterns({(s.pattern, s.size) for s in sparsities if s})
        mixed = self._mixed = len(ratios) > 1
        self._set_slider(round(1000 * zeros / max(self._elements, 1)) if mixed else round(1000 * min(ratios)))
        self.share.put(MIXED if mixed else _rounded(100 * min(ratios)))
        self.words.setText(pruned_text(zeros, self._elements))
        self.remove.setVisible(bool(zeros))
        self.state.hide()
        self._fit()
        self._show_changes()

    def _fit(self) -> None:
        """Disable the share for n of m, which fixes it."""
        for widget in (self.slider, self.share):
            widget.setEnabled(not self.pattern.fixed)

    def _show_changes(self) -> None:
        """Show how the last pruning changed earlier masks."""
        ids = {n.id for n in self.nodes}
        report = next((r for r in reversed(self._session.step_reports()) if r is not None and r.pass_name == "prune"
                      and any(row["node"] in ids for row in r.rows)), None)  # fmt: skip
        rows = [row for row in report.rows if row["node"] in ids] if report else []
        dropped, restored = (sum(row.get(k, 0) for row in rows) for k in ("dropped", "restored"))
        changed = bool(restored or (dropped and dropped != sum(row["zeros"] for row in rows)))
        self.changes.setVisible(changed)
        if changed:
            self.changes.setText(
                tr("The last pruning dropped {} and restored {} values.", count(dropped), count(restored))
            )

    def _set_slider(self, value: int) -> None:
        self.slider.blockSignals(True)
        self.slider.setValue(value)
        self.slider.blockSignals(False)
        self.slider.update()

    def settle(self) -> None:
        """Show the document's values again after the last job has ended."""
        if self._pending is not None and not self._busy() and self.nodes:
            document = self._session.document
            self._pending = self._sent = None
            if document:
                self.show_nodes([document.graph.nodes[n.id] for n in self.nodes if n.id in document.graph.nodes],
                                document.graph)  # fmt: skip

    def _busy(self) -> bool:
        return bool(self._session.jobs) or self._timer.isActive() or self.slider.isSliderDown()

    def _flush(self) -> None:
        """Send a pending request to the previous nodes before another selection is shown."""
        if self._timer.isActive():
            self._send()
        self._pending = self._sent = None

    # -- requests

    def _ratio(self) -> float:
        return self._pending.ratio if self._pending else self.slider.value() / 1000

    def _slid(self, value: int) -> None:
        self.share.put(_rounded(value / 10))
        self._request(value / 1000)

    def _typed(self) -> None:
        try:
            ratio = self.share.get() / 100
        except EspalierError:
            return
        self._set_slider(round(1000 * ratio))
        self._request(ratio)

    def _remove(self) -> None:
        self.pattern.put("element", (1, 1))
        self._set_slider(0)
        self.share.put(0.0)
        self._request(0.0)

    def _method_chosen(self) -> None:
        """Set the scope to row for wanda, as in its paper; another scope can be chosen afterwards."""
        if self.method.get() == "wanda" and self.scope.currentIndex() >= 0 and self.scope.get() == "local":
            self.scope.put("row")
        self._chosen()

    def _chosen(self) -> None:
        """Request a new method, scope or pattern; nodes with different shares need one share first."""
        self._fit()
        fixed = share_of(self.pattern.shape)
        if fixed is not None:
            self._set_slider(round(1000 * fixed))
            self.share.put(_rounded(100 * fixed))
            self._request(fixed)
        elif self._mixed:
            self._show_message(tr("The selected nodes differ in sparsity: write one share for all."))
        elif self._ratio() or any("weight" in n.sparsity for n in self.nodes):
            self._request(self._ratio())

    def _request(self, ratio: float) -> None:
        for choice, default in ((self.method, "l1"), (self.scope, "local")):
            if choice.currentIndex() < 0:
                choice.put(default)
        self._mixed = False
        pattern, size = self.pattern.shape
        self._pending = Request(ratio, self.method.get(), self.scope.get(), pattern, size)
        slow = self._pending.method in WITH_DATA
        if slow and ratio and not self._session.measured_on.data:
            self._pending = None
            self._timer.stop()
            self._show_message(f"{self.method.get()} {NO_DATA}")
            return
        self.words.setText(pruned_text(round(ratio * self._elements), self._elements))
        self._show_message(tr("pruning …"))
        if slow or not self._timer.isActive():  # slow methods wait for the last move
            self._timer.start(REST if slow else EVERY)

    def _show_message(self, text: str) -> None:
        self.state.setText(text)
        self.state.show()

    def _send(self) -> None:
        self._timer.stop()
        if self._pending is None or self._pending == self._sent or not self.nodes:
            return
        self._sent = self._pending
        request, options = self._pending, self._pending.options()
        if request.method in WITH_DATA and request.ratio:
            options |= self._session.measured_on.which
        self._session.set_sparsity(
            tuple(n.id for n in self.nodes), request.ratio, request.method, request.scope, **options
        )


def _rounded(value: float) -> float:
    return round(value, 6)


def _percent() -> QLabel:
    label = QLabel("%")
    label.setProperty("role", "muted")
    return label
