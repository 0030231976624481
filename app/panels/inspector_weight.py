"""The weight of the selection and its quantisation grid: histogram, losses in words, the best binary point."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from app.fields import Choice
from app.panels.heading import heading, link
from app.panels.inspector_facts import node_path, weight_of
from app.panels.inspector_precision import sqnr_words
from app.plots.histogram import WeightHistogram
from app.previews import Previews
from app.weight_figures import Histogram, Loss, Stop, histogram, loss
from app.words import count, percent
from model.formats.base import Format
from model.graph import Graph, Node
from model.meta import Weight

if TYPE_CHECKING:
    from app.session import Session
    from model.weights import WeightStore

OFFERED = 200
LEAST_GAIN = 0.5  # decibels worth offering


class WeightSection(QWidget):
    """Measures in the previews' thread; `measured(port, loss)` feeds the rows of the precision section."""

    measured = Signal(str, object)

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._previews = Previews(self)
        self._previews.ready.connect(self._ready)
        self._previews.failed.connect(self._failed)
        self.nodes: tuple[Node, ...] = ()
        self.subject: Node | None = None
        self.port = "weight"
        self._loss: Loss | None = None
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        self.heading = heading("Weight and its grid")
        self.chooser = Choice()
        self.chooser.setAccessibleName("node of the histogram")
        self.chooser.edited.connect(self._choose)
        self.plot = WeightHistogram()
        self.plot.setFixedHeight(100)
        self.words = QLabel(wordWrap=True)
        self.words.setProperty("role", "small")
        self.offer = link("", self._take_offer)
        for widget in (self.heading, self.chooser, self.plot, self.words):
            column.addWidget(widget)
        column.addWidget(self.offer, 0, Qt.AlignmentFlag.AlignLeft)

    def close_previews(self) -> None:
        """Stop what still computes."""
        self._previews.close()

    # -- what to show

    def show_nodes(self, nodes: Sequence[Node], graph: Graph, port: str) -> None:
        """Show the tensor of `port` (or the weight) of the first node, or of the one chosen before."""
        able = tuple(n for n in nodes[:OFFERED] if weight_of(n, "weight", graph) or weight_of(n, "bias", graph))
        self.nodes, self.port = able, port
        held = self.subject.id if self.subject else ""
        self.subject = next((n for n in able if n.id == held), able[0] if able else None)
        self.setVisible(self.subject is not None)
        self.chooser.setVisible(len(able) > 1)
        if len(able) > 1:
            self.chooser.offer(tuple(n.id for n in able), tuple(node_path(n) for n in able))
            self.chooser.put(self.subject.id if self.subject else "")
        self._ask(graph)

    def show_port(self, port: str) -> None:
        """Show another port's tensor."""
        self.port = port
        if self._session.document:
            self._ask(self._session.document.graph)

    def _choose(self) -> None:
        self.subject = next((n for n in self.nodes if n.id == self.chooser.get()), None)
        if self._session.document:
            self._ask(self._session.document.graph)

    # -- asking

    def _ask(self, graph: Graph) -> None:
        for slot in ("histogram", "weight", "bias"):
            self._previews.forget(slot)
        node = self.subject
        if node is None or self._session.document is None:
            self.plot.show_histogram(None)
            return
        self._loss = None
        for port in ("weight", "bias"):
            self._ask_loss(node, port, weight_of(node, port, graph))
        shown = self.shown_port(graph)
        weight = weight_of(node, shown, graph)
        self.heading.setText((f"{shown} and its grid" if shown in node.precision else shown).upper())
        if weight is None or weight.key is None or not weight.dtype.startswith(("float", "bfloat")):
            self.plot.show_histogram(None)
            self._tell(_why_not(weight))
            return
        self.plot.show_loss(self._loss)
        mask = _mask(node, shown)
        work = partial(_histogram, self._session.document.store, weight.key, mask)
        found = self._previews.ask("histogram", ("histogram", weight.key, mask), work)
        if found is not None:
            self._ready("histogram", None, found)
        self._tell()

    def shown_port(self, graph: Graph) -> str:
        """The port in hand where it has a stored tensor, else the weight or the bias."""
        assert self.subject is not None
        order = (self.port, "weight", "bias") if self.port in ("weight", "bias") else ("weight", "bias")
        return next((p for p in order if weight_of(self.subject, p, graph)), "weight")

    def _ask_loss(self, node: Node, port: str, weight: Weight | None) -> None:
        chosen = node.precision.get(port)
        document = self._session.document
        if chosen is None or weight is None or weight.key is None or document is None:
            return
        mask = _mask(node, port)
        work = partial(_loss, document.store, weight.key, mask, chosen.format)
        found = self._previews.ask(port, ("loss", weight.key, mask, chosen.format), work)
        if found is not None:
            self._ready(port, None, found)

    # -- answers

    def _ready(self, slot: str, key: object, result: Histogram | Loss) -> None:
        if isinstance(result, Histogram):
            self.plot.show_histogram(result)
            self.plot.setVisible(result.most > result.least)
            self._tell()
            return
        self.measured.emit(slot, result)
        document = self._session.document
        if document and self.subject and slot == self.shown_port(document.graph):
            self._loss = result
            self.plot.show_loss(result)
            self._tell()

    def _failed(self, slot: str, error: Exception) -> None:
        if slot == "histogram":
            self.plot.show_histogram(None)
            self._tell(str(error))

    def _tell(self, trouble: str = "") -> None:
        found, lost = self.plot.histogram, self._loss
        words = [trouble] if trouble else loss_words(lost, self.plot.thinned if found else 1)
        if not words and found:
            words = [_range_words(found)]
        self.words.setText(" · ".join(words))
        self.words.setVisible(bool(words))
        gain = (lost.best_sqnr or 0) - (lost.sqnr or 0) if lost and lost.best else 0
        self.offer.setVisible(bool(lost and lost.best and gain > LEAST_GAIN))
        if lost and lost.best and gain > LEAST_GAIN:
            text = f"Use {lost.best.label}: {sqnr_words(lost.best_sqnr)}, best for this {self._noun()}"
            self.offer.setText(text)

    def _noun(self) -> str:
        assert self._session.document is not None
        return self.shown_port(self._session.document.graph)

    def _take_offer(self) -> None:
        if self._loss and self._loss.best and self._session.document and self.subject:
            port = self.shown_port(self._session.document.graph)
            self._session.set_format((self.subject.id,), port, self._loss.best)


def loss_words(lost: Loss | None, thinned: int) -> list[str]:
    """What a format loses, in words."""
    if lost is None:
        return []
    if lost.reason:
        return [lost.reason]
    words = [f"{_share(lost.saturated)} saturated"] if lost.high is not None else ["scales follow the data"]
    words.append(f"{_share(lost.zeros)} become 0")
    if lost.grid is None:
        words.append("grid finer than a pixel")
    elif thinned > 1:
        words.append(f"every {thinned}th step drawn")
    return words


def _range_words(found: Histogram) -> str:
    if found.most > found.least:
        return f"{_figure(found.least)} … {_figure(found.most)}"
    return f"All {count(found.elements)} values are {_figure(found.least)}."


def _share(part: float) -> str:
    return percent(part, 0 if round(part * 1000) % 10 == 0 else 1)


def _figure(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")


def _why_not(weight: Weight | None) -> str:
    if weight is None:
        return "There is no stored tensor here."
    if weight.key is None:
        return "The model was opened without weights."
    return f"Values of type {weight.dtype} take no grid."


def _mask(node: Node, port: str) -> str | None:
    held = node.sparsity.get(port)
    return held.mask if held else None


def _histogram(store: WeightStore, key: str, mask: str | None, stop: Stop) -> Histogram:
    return histogram(store.get(key), store.get(mask).array if mask else None, stop)


def _loss(store: WeightStore, key: str, mask: str | None, fmt: Format, stop: Stop) -> Loss:
    return loss(fmt, store.get(key), store.get(mask).array if mask else None, stop)
