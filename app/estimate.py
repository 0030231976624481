"""What the present formats and masks cost in divergence: estimated at once from the sensitivities, then measured.

Estimates add up over ports, so an edit asks only for the ports that it changed; what the table does not hold is
computed from the evidence in a pool thread, the latest edit alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.previews import Previews
from app.sensitivities import sensitivities_of
from model.graph import Graph, Node
from passes.sensitivity.table import Sensitivity

if TYPE_CHECKING:
    from app.session import Session

KEPT = 64  # graphs whose measured divergence is remembered, for undo


@dataclass(frozen=True, slots=True)
class Port:
    """A choice at a port: all that its estimate depends on."""

    node: str
    port: str
    format: object
    mask: str | None


def choices(graph: Graph) -> Iterator[Port]:
    """The ports with a format or a mask of their own."""
    for node in graph:
        if node.precision or node.sparsity:
            yield from _of(node)


def _of(node: Node) -> Iterator[Port]:
    for port in dict.fromkeys((*node.precision, *node.sparsity)):
        held, sparse = node.precision.get(port), node.sparsity.get(port)
        yield Port(node.id, port, held.format if held else None, sparse.mask if sparse else None)


def from_table(table: Mapping[tuple[str, str], Sensitivity], choice: Port) -> float | None:
    """What the table knows of a choice; None where it has no such candidate."""
    row = table.get((choice.node, choice.port))
    if row is None or choice.mask is not None:
        return None
    place = next((i for i, c in enumerate(row.candidates) if c.format == choice.format and not c.sparsity), None)
    return None if place is None else row.known[place]


def estimate_of(session: Session) -> Estimate:
    """The estimate of a session: one object for all that read it."""
    return session.findChild(Estimate) or Estimate(session)


class Estimate(QObject):
    """`kl` and `how` ("estimated", "measured" or "") are of the present graph; `changed` tells of others."""

    changed = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session
        self._known = sensitivities_of(session)
        self.kl: float | None = None
        self.how = ""
        self.last: dict[str, float] = {}  # accuracy and loss as last measured, before the edits since
        self._measured: dict[int, tuple[Graph, float]] = {}
        self._ports: dict[Port, float] = {}
        self._previews = Previews(self)
        self._previews.ready.connect(lambda slot, key, found: self._arrived(found))
        self._previews.failed.connect(lambda slot, error: self._arrived({}))
        session.opened.connect(self._forget)
        session.changed.connect(lambda _: self.refresh())
        session.score_changed.connect(self._note)
        self._known.changed.connect(self._table_changed)

    def put(self, graph: Graph, kl: float) -> None:
        """Take a divergence that was measured of a graph."""
        self._measured[id(graph)] = graph, kl
        while len(self._measured) > KEPT:
            self._measured.pop(next(iter(self._measured)))
        self.refresh()

    def measured(self, graph: Graph) -> float | None:
        """The divergence that was measured of a graph."""
        held = self._measured.get(id(graph))
        return held[1] if held and held[0] is graph else None

    def refresh(self) -> None:
        """Say what is known of the present graph, and ask for what is not."""
        document = self._session.document
        self.kl, self.how = None, ""
        if document is None:
            self.changed.emit()
            return
        true = self.measured(document.graph)
        if true is not None:
            self.kl, self.how = true, "measured"
        elif self._known.table and not self._known.stale:
            self._estimate(document.graph)
        self.changed.emit()

    def _estimate(self, graph: Graph) -> None:
        """Add up what each port costs; ports that are not known yet are asked for."""
        table = {(r.node, r.port): r for r in self._known.table}
        wanted: list[Port] = []
        total = 0.0
        for choice in choices(graph):
            value = self._ports.get(choice)
            value = from_table(table, choice) if value is None else value
            if value is None:
                wanted.append(choice)
            else:
                self._ports[choice] = value
                total += value
        if not wanted:
            self.kl, self.how = total, "estimated"

    def _arrived(self, found: Mapping[Port, float]) -> None:
        self._ports.update(found)
        if found:
            self.refresh()

    def _table_changed(self) -> None:
        self._ports.clear()
        self.refresh()

    def _note(self) -> None:
        """Remember what was measured last: it stays in sight, grey, until the next figures come."""
        score = self._session.score
        if score.accuracy is not None and score.loss is not None:
            self.last = {"accuracy": score.accuracy, "loss": score.loss}

    def _forget(self) -> None:
        self.last.clear()
        self._measured.clear()
        self._ports.clear()
        self._previews.forget("ports")
        self.refresh()
