"""The pruning of the selection: method, scope and share, with exact counts; live while the slider moves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.fields import MIXED, Choice, NumberField
from app.panels.heading import heading
from app.panels.inspector_facts import pruned_words
from app.panels.terms import TERMS
from model.errors import EspalierError
from model.graph import Graph, Node
from model.ports import weight_at
from passes.transform.prune import METHODS, prunable

from app.panels.inspector_parts import ShareSlider  # isort: skip

if TYPE_CHECKING:
    from app.session import Session

EVERY = 100  # milliseconds between two requests while the slider moves
Asked = tuple[float, str, str]


class PruningSection(QWidget):
    """Requests run as jobs; until they are done the section shows what was asked for."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.nodes: tuple[Node, ...] = ()
        self._elements = 0
        self._mixed = False
        self._asked: Asked | None = None
        self._sent: Asked | None = None
        self._timer = QTimer(self, interval=EVERY, singleShot=True)
        self._timer.timeout.connect(self._send)
        self.method = Choice(METHODS)
        self.scope = Choice(("local", "global"))
        self.method.setAccessibleName("pruning method")
        self.scope.setAccessibleName("pruning scope")
        self.method.setToolTip(TERMS["method"])
        self.scope.setToolTip(TERMS["scope"])
        self.words = QLabel()
        self.words.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.slider = ShareSlider()
        self.slider.setAccessibleName("sparsity")
        self.share = NumberField(float, 0, 100)
        self.share.setFixedWidth(52)
        self.share.setAccessibleName("sparsity in percent")
        for widget in (self.slider, self.share, self.words):
            widget.setToolTip(TERMS["sparsity"])
        self.state = QLabel()
        self.state.setProperty("role", "small")
        self._arrange()
        self.slider.valueChanged.connect(self._slid)
        self.slider.sliderReleased.connect(self._send)
        self.share.edited.connect(self._typed)
        for choice in (self.method, self.scope):
            choice.edited.connect(self._chosen)

    def _arrange(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        first, second = QHBoxLayout(), QHBoxLayout()
        for row in (first, second):
            row.setSpacing(6)
        for widget in (self.method, self.scope):
            first.addWidget(widget)
        first.addWidget(self.words, 1)
        second.addWidget(self.slider, 1)
        second.addWidget(self.share)
        second.addWidget(_percent())
        column.addWidget(heading("Pruning"))
        column.addLayout(first)
        column.addLayout(second)
        column.addWidget(self.state)

    # -- showing

    def show_nodes(self, nodes: Sequence[Node], graph: Graph) -> None:
        """Show the pruning of those nodes that can have one."""
        able = tuple(n for n in nodes if prunable(n, graph))
        if tuple(n.id for n in able) != tuple(n.id for n in self.nodes):
            self._forget()
        self.nodes = able
        self.setVisible(bool(able))
        if not able:
            return
        self._elements = sum(graph.weights[weight_at(n, "weight", graph) or ""].elements for n in able)
        if self._asked is not None and self._waits():
            return
        self._asked = self._sent = None
        self._show(able)

    def _show(self, nodes: Sequence[Node]) -> None:
        held = [n.sparsity.get("weight") for n in nodes]
        ratios = {s.ratio if s else 0.0 for s in held}
        methods = {s.method for s in held if s} or {self.method.get() if self.method.currentIndex() >= 0 else "l1"}
        scopes = {s.scope for s in held if s} or {self.scope.get() if self.scope.currentIndex() >= 0 else "local"}
        zeros = sum(s.zeros for s in held if s)
        self.method.put(methods.pop() if len(methods) == 1 else MIXED)
        self.scope.put(scopes.pop() if len(scopes) == 1 else MIXED)
        mixed = self._mixed = len(ratios) > 1
        self._set_slider(round(1000 * zeros / max(self._elements, 1)) if mixed else round(1000 * min(ratios)))
        self.share.put(MIXED if mixed else _tidy(100 * min(ratios)))
        self.words.setText(pruned_words(zeros, self._elements))
        self.state.hide()

    def _set_slider(self, value: int) -> None:
        self.slider.blockSignals(True)
        self.slider.setValue(value)
        self.slider.blockSignals(False)
        self.slider.update()

    def settle(self) -> None:
        """A job ended: show the document again when none is left."""
        if self._asked is not None and not self._waits() and self.nodes:
            document = self._session.document
            self._asked = self._sent = None
            if document:
                self.show_nodes([document.graph.nodes[n.id] for n in self.nodes if n.id in document.graph.nodes],
                                document.graph)  # fmt: skip

    def _waits(self) -> bool:
        return bool(self._session.jobs) or self._timer.isActive() or self.slider.isSliderDown()

    def _forget(self) -> None:
        """Another selection: what was asked for goes out now, to the nodes it was meant for."""
        if self._timer.isActive():
            self._send()
        self._asked = self._sent = None

    # -- asking

    def _ratio(self) -> float:
        return self._asked[0] if self._asked else self.slider.value() / 1000

    def _slid(self, value: int) -> None:
        self.share.put(_tidy(value / 10))
        self._request(value / 1000)

    def _typed(self) -> None:
        try:
            ratio = self.share.get() / 100
        except EspalierError:
            return
        self._set_slider(round(1000 * ratio))
        self._request(ratio)

    def _chosen(self) -> None:
        """Another method or scope; nodes of several shares wait for one share, lest all take the mean."""
        if self._mixed:
            self.state.setText("The selected nodes differ in sparsity: write one share for all.")
            self.state.show()
        else:
            self._request(self._ratio())

    def _request(self, ratio: float) -> None:
        for choice, usual in ((self.method, "l1"), (self.scope, "local")):
            if choice.currentIndex() < 0:
                choice.put(usual)
        self._mixed = False
        self._asked = (ratio, self.method.get(), self.scope.get())
        self.words.setText(pruned_words(round(ratio * self._elements), self._elements))
        self.state.setText("pruning …")
        self.state.show()
        if not self._timer.isActive():
            self._timer.start()

    def _send(self) -> None:
        self._timer.stop()
        if self._asked is None or self._asked == self._sent or not self.nodes:
            return
        self._sent = self._asked
        ratio, method, scope = self._asked
        self._session.set_sparsity(tuple(n.id for n in self.nodes), ratio, method, scope)


def _tidy(value: float) -> float:
    return round(value, 6)


def _percent() -> QLabel:
    label = QLabel("%")
    label.setProperty("role", "muted")
    return label
