"""The SQNR of a selection of several nodes: the lowest of them, and whose it is, port by port."""

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
from espalier.app.figures.parts import Stop, Stopped
from espalier.app.jobs.previews import Previews
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
class Least:
    """The lowest SQNR among nodes, that of `node`; a loss with a reason where none could be measured.

    `losses` are those of all of them, in the order of `nodes`.
    """

    node: str
    loss: Loss
    losses: tuple[Loss, ...]
    nodes: tuple[str, ...] = ()

    @property
    def sampled(self) -> bool:
        """Whether any is of a sample: that node may lose more than the lowest."""
        return any(each.sampled for each in self.losses)

    def better(self, gain: float) -> tuple[dict[str, Format], float]:
        """Node → the range that loses least of its own values, of those that gain so many decibels; and the lowest
        SQNR of all with these."""
        each = list(zip(self.nodes, self.losses, strict=True)) if self.nodes else []
        found = {n: x.best for n, x in each if x.best and (x.best_sqnr or 0) - (x.sqnr or 0) > gain}
        ends = [(x.best_sqnr if n in found else x.sqnr) or 0.0 for n, x in each if not x.reason]
        return found, min(ends, default=0.0)


class LeastSqnr(QObject):
    """`show_nodes` says of which; `measured(port, Least)` tells it, of samples of large tensors first."""

    measured = Signal(str, object)

    def __init__(self, session: Session, samples: ActivationSamples) -> None:
        super().__init__(samples)
        self._session, self._samples = session, samples
        self._previews = Previews(self)
        self._previews.ready.connect(lambda port, key, found: self._found(port, found))
        self._previews.failed.connect(self._failed)
        self._nodes: tuple[str, ...] = ()
        self._wanted: dict[str, tuple[Hashable, Works]] = {}  # by port: what is measured of all values
        samples.changed.connect(self._again)

    def close_previews(self) -> None:
        """Stop what still computes."""
        self._previews.close()

    def show_nodes(self, nodes: Sequence[Node], graph: Graph) -> None:
        """Measure the ports that several of these nodes have in a format."""
        self.forget()
        self._nodes = tuple(n.id for n in nodes)
        for port in PORTS:
            held = [n for n in nodes if port in n.precision] if len(nodes) > 1 else []
            if len(held) > 1:
                self._ask(port, held, graph)

    def forget(self) -> None:
        """Nothing is shown any more: what computes stops, and new samples of activations start nothing."""
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
        quick, whole = list[Work](), list[Work]()
        keys: list[Hashable] = []
        for node in nodes:
            values, fmt = values_of(node, port, graph, store, self._samples), node.precision[port].format
            if values.load is not None:
                mask = partial(store.get, values.mask) if values.mask else None
                work = partial(_loss, values.load, mask, fmt, values.view)
                quick.append((node.id, partial(work, quick_loss)))
                whole.append((node.id, partial(work, loss)))
                keys.append((node.id, values.key, values.mask, fmt))
        if len(quick) == len(nodes):  # a minimum of some would say too much
            self._wanted[port] = ("whole", port, *keys), whole
            found = self._previews.ask(port, ("sample", port, *keys), partial(least_of, quick))
            if found is not None:
                self._found(port, found)

    def _found(self, port: str, found: Least) -> None:
        """Tell it; where samples were taken that all values are worth waiting for, ask for these."""
        self.measured.emit(port, found)
        if any(each.sampled and each.goes_on for each in found.losses):
            key, works = self._wanted[port]
            whole = self._previews.ask(port, key, partial(least_of, works, known=found.losses))
            if whole is not None:
                self._found(port, whole)

    def _failed(self, port: str, error: Exception) -> None:
        lost = Loss(reason=str(error) or type(error).__name__)
        self.measured.emit(port, Least("", lost, (lost,) * len(self._wanted[port][1])))


def least_of(works: Works, stop: Stop, known: Sequence[Loss] = ()) -> Least:
    """The node that loses most; where losses are known, only those of samples are measured anew."""
    found: list[Loss] = []
    for i, (_, work) in enumerate(works):
        if stop():
            raise Stopped
        if known and not (known[i].sampled and known[i].goes_on):
            found.append(known[i])
        else:
            found.append(replace(work(stop), grid=None))  # none is drawn, and many would be kept
    low = min(range(len(found)), key=lambda i: _height(found[i]))
    return Least(works[low][0], found[low], tuple(found), tuple(node for node, _ in works))


def _height(loss: Loss) -> float:
    return -math.inf if loss.reason or loss.sqnr is None else loss.sqnr


def _loss(
    load: Load, mask: Load | None, fmt: Format, view: View | None, figures: Callable[..., Loss], stop: Stop
) -> Loss:
    return figures(fmt, load(), mask().array if mask else None, stop, view)
