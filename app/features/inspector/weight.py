"""Section for the current port's values and quantisation grid: histogram, errors, best range.

Weights and biases are read from the store; activations are samples measured by the worker on request.
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
from espalier.app.features.inspector.precision import sqnr_text
from espalier.app.features.inspector.statistics import SLOT, StatisticsFold
from espalier.app.features.inspector.tensor import STORED, Values, ports_shown, values_of
from espalier.app.figures.facts import node_path
from espalier.app.figures.tensor_chunks import Stop
from espalier.app.jobs.previews import Previews
from espalier.app.number_text import count, figure, percent, plural
from espalier.app.translation import error_text, tr
from espalier.app.widgets.forms.fields import Choice
from espalier.app.widgets.heading import heading, link
from espalier.model.formats.base import Format
from espalier.model.formats.scaled import ScaledFormat
from espalier.model.graph.graph import Graph, Node
from espalier.model.store.weights import Tensor
from espalier.passes.choices.edits import with_formats
from espalier.passes.choices.quantize import PORTS
from espalier.passes.select import Select
from espalier.passes.transform.calibrate import CalibrateOptions

if TYPE_CHECKING:
    from espalier.app.features.inspector.multiple_nodes import LowestSqnr
    from espalier.app.session.session import Session
    from espalier.passes.running.splits import EvaluateOptions

OFFERED = 200  # nodes offered in the choice; edits apply to all
LEAST_GAIN = 0.5  # minimum gain in dB for an offer


class WeightSection(QWidget):
    """Measures in the previews' thread; emits `measured(port, loss)` for the precision section."""

    measured = Signal(str, object)

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._previews = Previews(self, until=session.opened)
        self._previews.ready.connect(self._ready)
        self._previews.failed.connect(self._failed)
        self.samples = ActivationSamples(session, self)
        self.samples.changed.connect(self._sampled)
        self.nodes: tuple[Node, ...] = ()  # selected nodes with values
        self.subject: Node | None = None
        self.port = "weight"
        self._values = Values("weight")
        self._loss: Loss | None = None
        self._lowest: dict[str, LowestSqnr] = {}  # by port: of all selected nodes
        self._wanted: dict[str, Callable[[], Any]] = {}  # by port: requests the loss of all values
        self.heading = heading(tr("Weight and its grid"))
        self.chooser = Choice()
        self.chooser.setAccessibleName(tr("node of the histogram"))
        self.chooser.edited.connect(self._choose)
        self.plot = WeightHistogram()
        self.plot.setFixedHeight(100)
        self.words = QLabel(wordWrap=True)
        self.words.setProperty("role", "small")
        self.scale = link("", self._toggle_log)
        self.measure = link(tr("Measure activations"), self.samples.measure)
        self.offer = link("", self._apply_offer)
        self.fix = link(tr("Fix the scale from the data"), self._calibrate)
        self.fix.setToolTip(tr("A recipe step measures one fixed scale, instead of one scale per tensor"))
        self.statistics = StatisticsFold(self._previews)
        self.offer.setMinimumWidth(1)  # a long label must not widen the rows
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
        self._label_scale()

    def close_previews(self) -> None:
        """Stop running previews."""
        self._previews.close()

    # -- subject

    def show_nodes(self, nodes: Sequence[Node], graph: Graph, port: str) -> None:
        """Show the values of `port` (or the weight) of the node chosen before, else of the first."""
        having = tuple(n for n in nodes if ports_shown(n, graph))
        self.nodes, self.port = having, port
        self._lowest.clear()
        before = self.subject.id if self.subject else ""
        self.subject = next((n for n in having if n.id == before), having[0] if having else None)
        self.setVisible(self.subject is not None)
        self.chooser.setVisible(len(having) > 1)
        if len(having) > 1:
            listed = _listed(having, before)
            self.chooser.offer(tuple(n.id for n in listed), tuple(node_path(n) for n in listed))
            self.chooser.put(self.subject.id if self.subject else "")
        self._ask(graph)

    def show_port(self, port: str) -> None:
        """Show the values of a port."""
        self.port = port
        self._again()

    def _choose(self) -> None:
        self.subject = next((n for n in self.nodes if n.id == self.chooser.get()), None)
        self._again()

    def _sampled(self) -> None:
        """Measure again after new activation samples."""
        self._lowest.clear()
        self._again()

    def _again(self) -> None:
        if self._session.document and self.subject and self.subject.id in self._session.document.graph.nodes:
            self._ask(self._session.document.graph)

    def _toggle_log(self) -> None:
        self.plot.set_log(not self.plot.log)
        self._label_scale()

    def _label_scale(self) -> None:
        self.scale.setText(tr("Linear counts") if self.plot.log else tr("Log counts"))

    # -- requests

    def _ask(self, graph: Graph) -> None:
        for slot in ("histogram", SLOT, *PORTS):
            self._previews.forget(slot)
        node, document = self.subject, self._session.document
        if node is None or document is None:
            self.plot.show_histogram(None)
            return
        self._loss = None
        values_by_port = {p: values_of(node, p, graph, document.store, self.samples) for p in ports_shown(node, graph)}
        for values in values_by_port.values():
            self._ask_loss(node, values)
        shown = self.shown_port(graph)
        values = self._values = values_by_port[shown]
        self.heading.setText((tr("{} and its grid", shown) if shown in node.precision else shown).upper())
        self.measure.setVisible(values.measurable)
        self.fix.setVisible(any(_can_fix(n, shown, self.samples.options) for n in self.nodes))
        self.statistics.setVisible(values.load is not None)
        self.scale.setVisible(values.load is not None)
        self.plot.setVisible(values.load is not None)
        if values.load is None:
            self.plot.show_histogram(None)
            self._update_text(values.trouble)
            return
        self.plot.show_loss(self._loss)
        work = partial(_histogram, values.load, self._mask(values))
        cached = self._previews.ask("histogram", ("histogram", values.key, values.mask), work)
        if cached is not None:
            self._ready("histogram", None, cached)
        self.statistics.show_tensor((values.key, values.mask), values.load, self._mask(values))
        self._update_text()

    def shown_port(self, graph: Graph) -> str:
        """The current port if its values can be shown, else the first that can."""
        assert self.subject is not None
        having = ports_shown(self.subject, graph)
        return self.port if self.port in having else having[0]

    def _ask_loss(self, node: Node, values: Values) -> None:
        chosen = node.precision.get(values.port)
        if chosen is None or values.load is None:
            return
        figures = partial(_loss, values.load, self._mask(values), chosen.format, values)
        key = (values.key, values.mask, chosen.format)
        self._wanted[values.port] = partial(self._previews.ask, values.port, ("loss", *key), partial(figures, loss))
        cached = self._previews.ask(values.port, ("sample", *key), partial(figures, quick_loss))
        if cached is not None:
            self._ready(values.port, None, cached)

    def _mask(self, values: Values) -> Callable[[], Tensor] | None:
        if values.mask is None:
            return None
        return partial(self._session.open_document.store.get, values.mask)

    # -- results

    def _ready(self, slot: str, key: object, result: Histogram | Loss | TensorStatistics) -> None:
        if isinstance(result, TensorStatistics):
            self.statistics.show_figures(result)
            return
        if isinstance(result, Histogram):
            self.plot.show_histogram(result)
            self.plot.setVisible(result.most > result.least)
            self._update_text()
            return
        self.measured.emit(slot, result)
        document = self._session.document
        if document and self.subject and slot == self.shown_port(document.graph):
            self._loss = result
            self.plot.show_loss(result)
            self._update_text()
        if result.sampled and result.goes_on and (full := self._wanted[slot]()) is not None:
            self._ready(slot, None, full)

    def _failed(self, slot: str, error: Exception) -> None:
        if slot == "histogram":
            self.plot.show_histogram(None)
            self._update_text(error_text(error))
        elif slot == SLOT:
            self.statistics.rows.show_facts(())

    def _update_text(self, trouble: str = "") -> None:
        histogram_, loss_ = self.plot.histogram, self._loss
        parts = [trouble] if trouble else loss_text(loss_, self.plot.thinned if histogram_ else 1)
        if not parts and histogram_:
            parts = [_range_text(histogram_)]
        error = "" if trouble else pruning_error_text(loss_, histogram_)
        lines = (" · ".join(parts), self._values.note if not trouble else "", error)
        self.words.setText("\n".join(t for t in lines if t))
        self.words.setVisible(bool(self.words.text()))
        self._update_offer(loss_)

    def _update_offer(self, loss_: Loss | None) -> None:
        if self._of_several():
            formats, low = self._better()
            count = len(formats)
            self.offer.setVisible(count > 0)
            self.offer.setText(tr("Choose from the data of {}: ≥{}", plural(count, "node"), sqnr_text(low)))
            self.offer.setToolTip(tr("Set the range with the least error on its own values for each node"))
            return
        gain = (loss_.best_sqnr or 0) - (loss_.sqnr or 0) if loss_ and loss_.best else 0
        self.offer.setVisible(bool(loss_ and loss_.best and gain > LEAST_GAIN))
        if loss_ and loss_.best and gain > LEAST_GAIN:
            noun = tr("pruned {}", self._values.port) if loss_.whole_sqnr is not None else self._values.port
            self.offer.setText(tr("Choose from the data: {}, {}", loss_.best.label, sqnr_text(loss_.best_sqnr)))
            self.offer.setToolTip(tr("The {} with the least error on this {}", loss_.best.shift, noun))

    def show_lowest(self, port: str, lowest: LowestSqnr) -> None:
        """Update the offer of individual ranges for several nodes."""
        self._lowest[port] = lowest
        self._update_offer(self._loss)

    def _of_several(self) -> bool:
        """Whether the offer is for several nodes rather than the shown one."""
        holding = [n for n in self.nodes if self._values.port in n.precision]
        return len(self.nodes) > 1 and not (len(holding) == 1 and self.subject and holding[0].id == self.subject.id)

    def _better(self) -> tuple[dict[str, Format], float]:
        lowest = self._lowest.get(self._values.port)
        return lowest.better(LEAST_GAIN) if lowest else ({}, 0.0)

    def _calibrate(self) -> None:
        document = self._session.document
        if document is None or self.subject is None:
            return
        options = _calibration_options(self.nodes, self.shown_port(document.graph), self.samples.options)
        self._session.run_pass("calibrate", options)

    def _apply_offer(self) -> None:
        if self._session.document is None or self.subject is None:
            return
        port = self.shown_port(self._session.document.graph)
        if self._of_several():
            formats, _ = self._better()
            if not formats:
                return
            label = tr("{} of {} from the data", port, plural(len(formats), "node"))
            merge_key = ("format", tuple(n.id for n in self.nodes), port)
            self._session.set_recipe(with_formats(self._session.recipe, port, formats), label, merge_key)
        elif self._loss and self._loss.best:
            self._session.set_format((self.subject.id,), port, self._loss.best)


def _listed(having: Sequence[Node], current: str) -> list[Node]:
    """The nodes offered: the first OFFERED and the current one."""
    return [*having[:OFFERED], *(n for n in having[OFFERED:] if n.id == current)]


def _can_fix(node: Node, port: str, data: EvaluateOptions | None) -> bool:
    """Whether a fixed scale can be measured for a port."""
    precision = node.precision.get(port)
    scaled = precision is not None and isinstance(precision.format, ScaledFormat) and precision.scale is None
    return scaled and (port in STORED or data is not None)


def _calibration_options(nodes: Sequence[Node], port: str, data: EvaluateOptions | None) -> CalibrateOptions:
    """Options to calibrate this port of all nodes, from weights or from training data."""
    values: dict[str, Any] = {} if data is None or port in STORED else asdict(data)
    chosen = Select("name", tuple(n.id for n in nodes if _can_fix(n, port, data)))
    values |= {"select": chosen, "ports": (port,), "limit": 256, "split": "train"}
    return CalibrateOptions(**values)


def loss_text(loss_: Loss | None, thinned: int) -> list[str]:
    """Texts on the error of a format."""
    if loss_ is None:
        return []
    if loss_.reason:
        return [loss_.reason]
    parts = (
        [tr("{} saturated", _share(loss_.saturated))]
        if loss_.high is not None
        else [loss_.unit or tr("data-dependent scales")]
    )
    parts.append(tr("{} become 0", _share(loss_.zeros)))
    if loss_.sampled:
        parts.append(tr("of a sample"))
    if loss_.grid is None:
        parts.append(tr("grid finer than a pixel"))
    elif thinned > 1:
        parts.append(tr("one step in {} drawn", thinned))
    return parts


def pruning_error_text(loss_: Loss | None, data: Histogram | None) -> str:
    """SQNR of format and pruning with their references; empty if the tensor is not pruned."""
    if data is None or data.pruning_sqnr is None:
        return ""
    parts = []
    if loss_ and not loss_.reason and loss_.sqnr is not None:
        parts.append(tr("the format {} against the pruned weight", sqnr_text(loss_.sqnr)))
    total = loss_.whole_sqnr if loss_ else None
    alone = tr("pruning alone {}", sqnr_text(data.pruning_sqnr))
    parts.append(
        tr("{}, both {} against the original", alone, sqnr_text(total))
        if total is not None
        else tr("{} against the original", alone)
    )
    return tr("SQNR: {}.", "; ".join(parts))


def _range_text(data: Histogram) -> str:
    if data.most > data.least:
        return f"{figure(data.least)} … {figure(data.most)}"
    return tr("All {} values are {}.", count(data.elements), figure(data.least))


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
