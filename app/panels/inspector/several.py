"""The SQNR of a selection of several nodes: the lowest of them, and whose it is, port by port."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.figures.activations import ActivationSamples
from app.figures.parts import Stop, Stopped
from app.figures.weights import Loss, quick_loss
from app.jobs.previews import Previews
from app.panels.inspector.tensor import values_of
from model.formats.base import Format
from model.graph import Graph, Node
from model.views import View
from model.weights import Tensor
from passes.transform.quantize import PORTS

if TYPE_CHECKING:
    from app.session import Session

Load = Callable[[], Tensor]


@dataclass(frozen=True, slots=True)
class Least:
    """The lowest SQNR among `nodes` nodes, that of `node`; a loss with a reason where none could be measured."""

    node: str
    loss: Loss
    nodes: int


class LeastSqnr(QObject):
    """`show_nodes` says of which; `measured(port, Least)` tells it, of samples of large tensors."""

    measured = Signal(str, object)

    def __init__(self, session: Session, samples: ActivationSamples) -> None:
        super().__init__(samples)
        self._session, self._samples = session, samples
        self._previews = Previews(self)
        self._previews.ready.connect(lambda port, key, found: self.measured.emit(port, found))
        self._nodes: tuple[str, ...] = ()
        samples.changed.connect(self._again)

    def close_previews(self) -> None:
        """Stop what still computes."""
        self._previews.close()

    def show_nodes(self, nodes: Sequence[Node], graph: Graph) -> None:
        """Measure the ports that several of these nodes have in a format."""
        self._nodes = tuple(n.id for n in nodes)
        for port in PORTS:
            self._previews.forget(port)
            held = [n for n in nodes if port in n.precision] if len(nodes) > 1 else []
            if len(held) > 1:
                self._ask(port, held, graph)

    def _again(self) -> None:
        document = self._session.document
        if document and len(self._nodes) > 1 and all(n in document.graph.nodes for n in self._nodes):
            self.show_nodes([document.graph.nodes[n] for n in self._nodes], document.graph)

    def _ask(self, port: str, nodes: Sequence[Node], graph: Graph) -> None:
        store = self._session.open_document.store
        works: list[tuple[str, Callable[[Stop], Loss]]] = []
        keys: list[Hashable] = []
        for node in nodes:
            values, fmt = values_of(node, port, graph, store, self._samples), node.precision[port].format
            if values.load is not None:
                mask = partial(store.get, values.mask) if values.mask else None
                works.append((node.id, partial(_loss, values.load, mask, fmt, values.view)))
                keys.append((node.id, values.key, values.mask, fmt))
        if len(works) == len(nodes):  # a minimum of some would say too much
            found = self._previews.ask(port, (port, *keys), partial(least_of, works))
            if found is not None:
                self.measured.emit(port, found)


def least_of(works: Sequence[tuple[str, Callable[[Stop], Loss]]], stop: Stop) -> Least:
    """The node that loses most."""
    found: list[tuple[str, Loss]] = []
    for node, work in works:
        if stop():
            raise Stopped
        found.append((node, work(stop)))
    node, loss = min(found, key=lambda each: _height(each[1]))
    return Least(node, loss, len(found))


def _height(loss: Loss) -> float:
    return -math.inf if loss.reason or loss.sqnr is None else loss.sqnr


def _loss(load: Load, mask: Load | None, fmt: Format, view: View | None, stop: Stop) -> Loss:
    return quick_loss(fmt, load(), mask().array if mask else None, stop, view)
