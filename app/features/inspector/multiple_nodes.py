"""Lowest SQNR per port of a selection of several nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from espalier.app.features.inspector.figures.activations import ActivationSamples
from espalier.app.features.inspector.figures.weights import Loss, loss, quick_loss
from espalier.app.features.inspector.tensor import values_of
from espalier.app.figures.tensor_chunks import Stop, Stopped
from espalier.app.jobs.previews import Previews
from espalier.app.translation import error_text
from espalier.model.formats.base import Format
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.views import View
from espalier.model.store.weights import Tensor
from espalier.passes.choices.quantize import PORTS

if TYPE_CHECKING:
    from espalier.app.session.session import Session

Load = Callable[[], Tensor]
Work = tuple[str, Callable[[Stop], Loss]]
Works = Sequence[Work]


@dataclass(frozen=True, slots=True)
class LowestSqnr:
    """The lowest SQNR among nodes, that of `node`; a loss with a reason if none was measured.

    `losses`: of all nodes, in the order of `nodes`.
    """

    node: str
    loss: Loss
    losses: tuple[Loss, ...]
    nodes: tuple[str, ...] = ()

    @property
    def sampled(self) -> bool:
        """Whether any loss is of a sample, so that the minimum is no bound."""
        return any(each.sampled for each in self.losses)

    def better(self, gain: float) -> tuple[dict[str, Format], float]:
        """Node → best format for its own values, of the nodes that gain more than `gain` dB; and the lowest SQNR with
        these."""
        each = list(zip(self.nodes, self.losses, strict=True)) if self.nodes else []
        formats = {n: x.best for n, x in each if x.best and (x.best_sqnr or 0) - (x.sqnr or 0) > gain}
        ends = [(x.best_sqnr if n in formats else x.sqnr) or 0.0 for n, x in each if not x.reason]
        return formats, min(ends, default=0.0)


class LowestSqnrMonitor(QObject):
    """Emits `measured(port, LowestSqnr)` for the nodes shown, for large tensors of samples first."""

    measured = Signal(str, object)

    def __init__(self, session: Session, samples: ActivationSamples) -> None:
        super().__init__(samples)
        self._session, self._samples = session, samples
        self._previews = Previews(self, until=session.opened)
        self._previews.ready.connect(lambda port, key, found: self._on_result(port, found))
        self._previews.failed.connect(self._failed)
        self._nodes: tuple[str, ...] = ()
        self._wanted: dict[str, tuple[Hashable, Works]] = {}  # by port: key and work on all values
        samples.changed.connect(self._again)

    def close_previews(self) -> None:
        """Stop running previews."""
        self._previews.close()

    def show_nodes(self, nodes: Sequence[Node], graph: Graph) -> None:
        """Measure the ports that have formats in several of these nodes."""
        self.forget()
        self._nodes = tuple(n.id for n in nodes)
        for port in PORTS:
            having = [n for n in nodes if port in n.precision] if len(nodes) > 1 else []
            if len(having) > 1:
                self._ask(port, having, graph)

    def forget(self) -> None:
        """Clear the nodes and stop running previews."""
        self._nodes = ()
        self._wanted.clear()
        for port in PORTS:
            self._previews.forget(port)

    def _again(self) -> None:
        document = self._session.document
        if document and len(self._nodes) > 1 and all(n in document.graph.nodes for n in self._nodes):
            self.show_nodes([document.graph.nodes[n] for n in self._nodes], document.graph)

    def _ask(self, port: str, nodes: Sequence[Node], graph: Graph) -> None:
        store = self._session.open_document.store
        quick, full = list[Work](), list[Work]()
        keys: list[Hashable] = []
        for node in nodes:
            values, fmt = values_of(node, port, graph, store, self._samples), node.precision[port].format
            if values.load is not None:
                mask = partial(store.get, values.mask) if values.mask else None
                work = partial(_loss, values.load, mask, fmt, values.view)
                quick.append((node.id, partial(work, quick_loss)))
                full.append((node.id, partial(work, loss)))
                keys.append((node.id, values.key, values.mask, fmt))
        if len(quick) == len(nodes):  # a minimum of some nodes would mislead
            self._wanted[port] = ("whole", port, *keys), full
            cached = self._previews.ask(port, ("sample", port, *keys), partial(lowest_of, quick))
            if cached is not None:
                self._on_result(port, cached)

    def _on_result(self, port: str, lowest: LowestSqnr) -> None:
        """Emit a result, and measure all values after samples."""
        self.measured.emit(port, lowest)
        if any(each.sampled and each.goes_on for each in lowest.losses):
            key, works = self._wanted[port]
            full = self._previews.ask(port, key, partial(lowest_of, works, known=lowest.losses))
            if full is not None:
                self._on_result(port, full)

    def _failed(self, port: str, error: Exception) -> None:
        failed = Loss(reason=error_text(error) or type(error).__name__)
        self.measured.emit(port, LowestSqnr("", failed, (failed,) * len(self._wanted[port][1])))


def lowest_of(works: Works, stop: Stop, known: Sequence[Loss] = ()) -> LowestSqnr:
    """The node with the lowest SQNR; of `known` losses only those of samples are measured again."""
    losses: list[Loss] = []
    for i, (_, work) in enumerate(works):
        if stop():
            raise Stopped
        if known and not (known[i].sampled and known[i].goes_on):
            losses.append(known[i])
        else:
            losses.append(replace(work(stop), grid=None))  # grids are not drawn and would take memory
    index = min(range(len(losses)), key=lambda i: _height(losses[i]))
    return LowestSqnr(works[index][0], losses[index], tuple(losses), tuple(node for node, _ in works))


def _height(loss: Loss) -> float:
    return -math.inf if loss.reason or loss.sqnr is None else loss.sqnr


def _loss(
    load: Load, mask: Load | None, fmt: Format, view: View | None, figures: Callable[..., Loss], stop: Stop
) -> Loss:
    return figures(fmt, load(), mask().array if mask else None, stop, view)
