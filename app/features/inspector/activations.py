"""Section for pruning the inputs of the selected layers: a share of each sample, or a threshold from data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from espalier.app.features.inspector.terms import TERMS
from espalier.app.features.inspector.widgets import ShareSlider
from espalier.app.number_text import figure, percent
from espalier.app.translation import tr
from espalier.app.widgets.forms.fields import MIXED, Choice, NumberField
from espalier.app.widgets.heading import heading
from espalier.model.errors import EspalierError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Sparsity
from espalier.model.graph.ops import category
from espalier.passes.transform.prune_activations import prunable_activations

if TYPE_CHECKING:
    from espalier.app.session.session import Session

REST = 300  # milliseconds without a change before a request is sent
RULES: dict[str, tuple[str, str]] = {"top-k": ("l1", "top_k"), "threshold": ("l1", "threshold"),
                                     "random": ("random", "top_k")}  # fmt: skip
NO_DATA = tr("A threshold needs data: set it first (Run → Evaluate on…).")


@dataclass(frozen=True, slots=True)
class Request:
    """Sparsity and rule of a request."""

    ratio: float
    rule: str


class ActivationPruningSection(QWidget):
    """Edits run as jobs; the section shows the requested values until they finish."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.nodes: tuple[Node, ...] = ()
        self._pending: Request | None = None
        self._timer = QTimer(self, interval=REST, singleShot=True)
        self._timer.timeout.connect(self._send)
        self.rule = Choice(tuple(RULES))
        self.slider, self.share = ShareSlider(), NumberField(float, 0, 100)
        self.share.setFixedWidth(52)
        self.words, self.state = QLabel(), QLabel(wordWrap=True)
        for label in (self.words, self.state):
            label.setProperty("role", "small")
        for widget, name in (
            (self.rule, tr("rule")),
            (self.slider, tr("sparsity")),
            (self.share, tr("sparsity in percent")),
        ):
            widget.setAccessibleName(tr("activation pruning: {}", name))
            widget.setToolTip(TERMS["activation pruning"])
        self._arrange()
        self.slider.valueChanged.connect(self._slid)
        self.share.edited.connect(self._typed)
        self.rule.edited.connect(self._chosen)

    def _arrange(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addWidget(heading(tr("Pruning of inputs")))
        row = QHBoxLayout()
        row.setSpacing(6)
        unit = QLabel("%")
        unit.setProperty("role", "muted")
        for widget in (self.rule, self.slider, self.share, unit):
            row.addWidget(widget, int(widget is self.slider))
        column.addLayout(row)
        column.addWidget(self.words)
        column.addWidget(self.state)

    # -- showing

    def show_nodes(self, nodes: Sequence[Node], graph: Graph) -> None:
        """Show the input pruning of linear and matmul nodes, and of nodes whose inputs are pruned."""
        prunable = tuple(n for n in nodes if prunable_activations(n, graph) and _offered(n))
        if tuple(n.id for n in prunable) != tuple(n.id for n in self.nodes):
            if self._timer.isActive():
                self._send()  # to the previous nodes
            self._pending = None
        self.nodes = prunable
        self.setVisible(bool(prunable))
        if prunable and not (self._pending is not None and self._busy()):
            self._pending = None
            self._show([n.sparsity.get("data_in") for n in prunable])

    def _show(self, sparsities: list[Sparsity | None]) -> None:
        rules = {_rule(s) for s in sparsities if s}
        if rules:
            self.rule.put(rules.pop() if len(rules) == 1 else MIXED)
        elif self.rule.currentIndex() < 0:
            self.rule.setCurrentIndex(0)
        ratios = [s.ratio if s else 0.0 for s in sparsities]
        mean, mixed = sum(ratios) / len(ratios), max(ratios) - min(ratios) > 0.05
        self._set_slider(mean)
        self.share.put(MIXED if mixed else round(100 * mean, 2))
        limits = [s.threshold for s in sparsities if s and s.threshold is not None]
        self.words.setVisible(bool(limits))
        if limits:
            ends = " … ".join(dict.fromkeys(figure(v) for v in (min(limits), max(limits))))
            self.words.setText(tr("||x| up to {} pruned: {} of the data", ends, percent(mean, 1)))
        self.state.hide()

    def _set_slider(self, ratio: float) -> None:
        self.slider.blockSignals(True)
        self.slider.setValue(round(1000 * ratio))
        self.slider.blockSignals(False)
        self.slider.update()

    def settle(self) -> None:
        """Show the document's values again after the last job has ended."""
        document = self._session.document
        if self._pending is not None and not self._busy() and self.nodes and document:
            self._pending = None
            nodes = document.graph.nodes
            self.show_nodes([nodes[n.id] for n in self.nodes if n.id in nodes], document.graph)

    def _busy(self) -> bool:
        return bool(self._session.jobs) or self._timer.isActive() or self.slider.isSliderDown()

    # -- requests

    def _slid(self, value: int) -> None:
        self.share.put(round(value / 10, 1))
        self._request(value / 1000)

    def _typed(self) -> None:
        try:
            ratio = self.share.get() / 100
        except EspalierError:
            return
        self._set_slider(ratio)
        self._request(ratio)

    def _chosen(self) -> None:
        if self.slider.value():
            self._request(self.slider.value() / 1000)

    def _request(self, ratio: float) -> None:
        if self.rule.currentIndex() < 0:
            self.rule.setCurrentIndex(0)
        request = Request(ratio, self.rule.get())
        missing = bool(ratio) and request.rule == "threshold" and not self._session.measured_on.data
        self._pending = None if missing else request
        self.state.setText(NO_DATA if missing else tr("pruning …"))
        self.state.show()
        if missing:
            self._timer.stop()
        else:
            self._timer.start()

    def _send(self) -> None:
        self._timer.stop()
        if self._pending is None or not self.nodes:
            return
        method, pattern = RULES[self._pending.rule]
        values: dict[str, Any] = {"sparsity": self._pending.ratio, "method": method, "pattern": pattern}
        if pattern == "threshold":
            values |= self._session.measured_on.which
        self._session.set_activation_sparsity(tuple(n.id for n in self.nodes), values)


def _offered(node: Node) -> bool:
    return category(node) in ("linear", "matmul") or "data_in" in node.sparsity


def _rule(sparsity: Sparsity) -> str:
    return next((k for k, v in RULES.items() if v == (sparsity.method, sparsity.pattern)), "top-k")
