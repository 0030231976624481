"""The values of the port in hand and their quantisation grid: histogram, losses in words, the best range.

Weights and biases are read from the store; activations are a sample that the worker measures when asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from espalier.app.features.inspector.charts.histogram import WeightHistogram
from espalier.app.features.inspector.figures.activations import ActivationSamples
from espalier.app.features.inspector.figures.statistics import TensorStatistics
from espalier.app.features.inspector.figures.weights import Histogram, Loss, histogram, loss, quick_loss
from espalier.app.features.inspector.precision import sqnr_words
from espalier.app.features.inspector.statistics import SLOT, StatisticsFold
from espalier.app.features.inspector.tensor import STORED, Values, ports_shown, values_of
from espalier.app.figures.facts import node_path
from espalier.app.figures.parts import Stop
from espalier.app.jobs.previews import Previews
from espalier.app.widgets.forms.fields import Choice
from espalier.app.widgets.heading import heading, link
from espalier.app.words import count, figure, percent, plural
from espalier.model.formats.base import Format
from espalier.model.formats.scaled import ScaledFormat
from espalier.model.graph.graph import Graph, Node
from espalier.model.store.weights import Tensor
from espalier.passes.choices.edits import with_formats
from espalier.passes.choices.quantize import PORTS
from espalier.passes.select import Select
from espalier.passes.transform.calibrate import CalibrateOptions

if TYPE_CHECKING:
    from espalier.app.features.inspector.several import Least
    from espalier.app.session.session import Session
    from espalier.passes.running.splits import EvaluateOptions

OFFERED = 200  # nodes to choose from; what is applied goes to all
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
        self.samples = ActivationSamples(session, self)
        self.samples.changed.connect(self._sampled)
        self.nodes: tuple[Node, ...] = ()  # of the selection, those with values
        self.subject: Node | None = None
        self.port = "weight"
        self._values = Values("weight")
        self._loss: Loss | None = None
        self._least: dict[str, Least] = {}  # by port: of all nodes of the selection
        self._wanted: dict[str, Callable[[], Any]] = {}  # by port: asks for the figure of all values
        self.heading = heading("Weight and its grid")
        self.chooser = Choice()
        self.chooser.setAccessibleName("node of the histogram")
        self.chooser.edited.connect(self._choose)
        self.plot = WeightHistogram()
        self.plot.setFixedHeight(100)
        self.words = QLabel(wordWrap=True)
        self.words.setProperty("role", "small")
        self.scale = link("", self._turn_scale)
        self.measure = link("Measure activations", self.samples.measure)
        self.offer = link("", self._take_offer)
        self.fix = link("Fix the scale from the data", self._calibrate)
        self.fix.setToolTip(
            "A step of the recipe measures one scale and keeps it, instead of one for each tensor that comes"
        )
        self.statistics = StatisticsFold(self._previews)
        self.offer.setMinimumWidth(1)  # a long label must not push the rows out of sight
        self._arrange()

    def _arrange(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        top = QHBoxLayout()
        top.addWidget(self.heading, 1)
        top.addWidget(self.scale)
        column.addLayout(top)
        for widget in (self.chooser, self.plot, self.words):
            column.addWidget(widget)
        for button in (self.measure, self.offer, self.fix):
            column.addWidget(button, 0, Qt.AlignmentFlag.AlignLeft)
        column.addWidget(self.statistics)
        self._say_scale()

    def close_previews(self) -> None:
        """Stop what still computes."""
        self._previews.close()

    # -- what to show

    def show_nodes(self, nodes: Sequence[Node], graph: Graph, port: str) -> None:
        """Show the values of `port` (or the weight) of the first node, or of the one chosen before."""
        able = tuple(n for n in nodes if ports_shown(n, graph))
        self.nodes, self.port = able, port
        self._least.clear()
        held = self.subject.id if self.subject else ""
        self.subject = next((n for n in able if n.id == held), able[0] if able else None)
        self.setVisible(self.subject is not None)
        self.chooser.setVisible(len(able) > 1)
        if len(able) > 1:
            listed = _listed(able, held)
            self.chooser.offer(tuple(n.id for n in listed), tuple(node_path(n) for n in listed))
            self.chooser.put(self.subject.id if self.subject else "")
        self._ask(graph)

    def show_port(self, port: str) -> None:
        """Show another port's values."""
        self.port = port
        self._again()

    def _choose(self) -> None:
        self.subject = next((n for n in self.nodes if n.id == self.chooser.get()), None)
        self._again()

    def _sampled(self) -> None:
        """What was offered of other samples no longer holds; it is measured again."""
        self._least.clear()
        self._again()

    def _again(self) -> None:
        if self._session.document and self.subject and self.subject.id in self._session.document.graph.nodes:
            self._ask(self._session.document.graph)

    def _turn_scale(self) -> None:
        self.plot.set_log(not self.plot.log)
        self._say_scale()

    def _say_scale(self) -> None:
        self.scale.setText("Linear counts" if self.plot.log else "Log counts")

    # -- asking

    def _ask(self, graph: Graph) -> None:
        for slot in ("histogram", SLOT, *PORTS):
            self._previews.forget(slot)
        node, document = self.subject, self._session.document
        if node is None or document is None:
            self.plot.show_histogram(None)
            return
        self._loss = None
        known = {p: values_of(node, p, graph, document.store, self.samples) for p in ports_shown(node, graph)}
        for values in known.values():
            self._ask_loss(node, values)
        shown = self.shown_port(graph)
        held = self._values = known[shown]
        self.heading.setText((f"{shown} and its grid" if shown in node.precision else shown).upper())
        self.measure.setVisible(held.measurable)
        self.fix.setVisible(any(_can_fix(n, shown, self.samples.options) for n in self.nodes))
        self.statistics.setVisible(held.load is not None)
        self.scale.setVisible(held.load is not None)
        self.plot.setVisible(held.load is not None)
        if held.load is None:
            self.plot.show_histogram(None)
            self._tell(held.trouble)
            return
        self.plot.show_loss(self._loss)
        work = partial(_histogram, held.load, self._mask(held))
        found = self._previews.ask("histogram", ("histogram", held.key, held.mask), work)
        if found is not None:
            self._ready("histogram", None, found)
        self.statistics.show_tensor((held.key, held.mask), held.load, self._mask(held))
        self._tell()

    def shown_port(self, graph: Graph) -> str:
        """The port in hand where its values can be looked at, else the first that can."""
        assert self.subject is not None
        able = ports_shown(self.subject, graph)
        return self.port if self.port in able else able[0]

    def _ask_loss(self, node: Node, values: Values) -> None:
        chosen = node.precision.get(values.port)
        if chosen is None or values.load is None:
            return
        figures = partial(_loss, values.load, self._mask(values), chosen.format, values)
        key = (values.key, values.mask, chosen.format)
        self._wanted[values.port] = partial(self._previews.ask, values.port, ("loss", *key), partial(figures, loss))
        found = self._previews.ask(values.port, ("sample", *key), partial(figures, quick_loss))
        if found is not None:
            self._ready(values.port, None, found)

    def _mask(self, values: Values) -> Callable[[], Tensor] | None:
        if values.mask is None:
            return None
        return partial(self._session.open_document.store.get, values.mask)

    # -- answers

    def _ready(self, slot: str, key: object, result: Histogram | Loss | TensorStatistics) -> None:
        if isinstance(result, TensorStatistics):
            self.statistics.show_figures(result)
            return
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
        if result.sampled and result.goes_on and (found := self._wanted[slot]()) is not None:
            self._ready(slot, None, found)

    def _failed(self, slot: str, error: Exception) -> None:
        if slot == "histogram":
            self.plot.show_histogram(None)
            self._tell(str(error))
        elif slot == SLOT:
            self.statistics.rows.show_facts(())

    def _tell(self, trouble: str = "") -> None:
        found, lost = self.plot.histogram, self._loss
        words = [trouble] if trouble else loss_words(lost, self.plot.thinned if found else 1)
        if not words and found:
            words = [_range_words(found)]
        error = "" if trouble else error_words(lost, found)
        told = (" · ".join(words), self._values.note if not trouble else "", error)
        self.words.setText("\n".join(t for t in told if t))
        self.words.setVisible(bool(self.words.text()))
        self._tell_offer(lost)

    def _tell_offer(self, lost: Loss | None) -> None:
        if self._of_several():
            found, low = self._better()
            count = len(found)
            self.offer.setVisible(count > 0)
            self.offer.setText(f"Choose from the data of {plural(count, 'node')}: ≥{sqnr_words(low)}")
            self.offer.setToolTip("Set for each the range with the least error on its own values")
            return
        gain = (lost.best_sqnr or 0) - (lost.sqnr or 0) if lost and lost.best else 0
        self.offer.setVisible(bool(lost and lost.best and gain > LEAST_GAIN))
        if lost and lost.best and gain > LEAST_GAIN:
            noun = f"pruned {self._values.port}" if lost.whole_sqnr is not None else self._values.port
            self.offer.setText(f"Choose from the data: {lost.best.label}, {sqnr_words(lost.best_sqnr)}")
            self.offer.setToolTip(f"The {lost.best.shift} that loses least of this {noun}")

    def show_least(self, port: str, found: Least) -> None:
        """Of several nodes each may be offered a range of its own."""
        self._least[port] = found
        self._tell_offer(self._loss)

    def _of_several(self) -> bool:
        """Whether what is offered is for more nodes than the one that is shown: the others may have no format."""
        holding = [n for n in self.nodes if self._values.port in n.precision]
        return len(self.nodes) > 1 and not (len(holding) == 1 and self.subject and holding[0].id == self.subject.id)

    def _better(self) -> tuple[dict[str, Format], float]:
        found = self._least.get(self._values.port)
        return found.better(LEAST_GAIN) if found else ({}, 0.0)

    def _calibrate(self) -> None:
        document = self._session.document
        if document is None or self.subject is None:
            return
        wish = _calibrating(self.nodes, self.shown_port(document.graph), self.samples.options)
        self._session.run_pass("calibrate", wish)

    def _take_offer(self) -> None:
        if self._session.document is None or self.subject is None:
            return
        port = self.shown_port(self._session.document.graph)
        if self._of_several():
            found, _ = self._better()
            if not found:
                return
            label = f"{port} of {plural(len(found), 'node')} from the data"
            merge_key = ("format", tuple(n.id for n in self.nodes), port)
            self._session.set_recipe(with_formats(self._session.recipe, port, found), label, merge_key)
        elif self._loss and self._loss.best:
            self._session.set_format((self.subject.id,), port, self._loss.best)


def _listed(able: Sequence[Node], held: str) -> list[Node]:
    """The nodes to choose from: the first, and that in hand wherever it comes."""
    return [*able[:OFFERED], *(n for n in able[OFFERED:] if n.id == held)]


def _can_fix(node: Node, port: str, known: EvaluateOptions | None) -> bool:
    """Whether its scale can be measured once and kept."""
    held = node.precision.get(port)
    scaled = held is not None and isinstance(held.format, ScaledFormat) and held.scale is None
    return scaled and (port in STORED or known is not None)


def _calibrating(nodes: Sequence[Node], port: str, known: EvaluateOptions | None) -> CalibrateOptions:
    """The step that gives this port of all nodes scales of their own, of weights or of the training data."""
    values: dict[str, Any] = {} if known is None or port in STORED else asdict(known)
    chosen = Select("name", tuple(n.id for n in nodes if _can_fix(n, port, known)))
    values |= {"select": chosen, "ports": (port,), "limit": 256, "split": "train"}
    return CalibrateOptions(**values)


def loss_words(lost: Loss | None, thinned: int) -> list[str]:
    """What a format loses, in words."""
    if lost is None:
        return []
    if lost.reason:
        return [lost.reason]
    words = (
        [f"{_share(lost.saturated)} saturated"] if lost.high is not None else [lost.unit or "scales follow the data"]
    )
    words.append(f"{_share(lost.zeros)} become 0")
    if lost.sampled:
        words.append("of a sample")
    if lost.grid is None:
        words.append("grid finer than a pixel")
    elif thinned > 1:
        words.append(f"one step in {thinned} drawn")
    return words


def error_words(lost: Loss | None, found: Histogram | None) -> str:
    """The errors of a pruned tensor, each with what it is measured against; nothing where it is not pruned."""
    if found is None or found.pruning_sqnr is None:
        return ""
    parts = []
    if lost and not lost.reason and lost.sqnr is not None:
        parts.append(f"the format {sqnr_words(lost.sqnr)} against the pruned weight")
    whole = lost.whole_sqnr if lost else None
    alone = f"pruning alone {sqnr_words(found.pruning_sqnr)}"
    parts.append(
        f"{alone}, both {sqnr_words(whole)} against the original"
        if whole is not None
        else f"{alone} against the original"
    )
    return f"SQNR: {'; '.join(parts)}."


def _range_words(found: Histogram) -> str:
    if found.most > found.least:
        return f"{figure(found.least)} … {figure(found.most)}"
    return f"All {count(found.elements)} values are {figure(found.least)}."


def _share(part: float) -> str:
    return percent(part, 0 if round(part * 1000) % 10 == 0 else 1)


def _histogram(load: Callable[[], Tensor], mask: Callable[[], Tensor] | None, stop: Stop) -> Histogram:
    return histogram(load(), mask().array if mask else None, stop)


def _loss(
    load: Callable[[], Tensor],
    mask: Callable[[], Tensor] | None,
    fmt: Format,
    values: Values,
    figures: Callable[..., Loss],
    stop: Stop,
) -> Loss:
    return figures(fmt, load(), mask().array if mask else None, stop, values.view)
