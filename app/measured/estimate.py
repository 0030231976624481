"""What the present formats and masks cost in divergence: estimated at once from the sensitivities, then measured.

Each port's choice is known by itself, so an edit asks only for the ports that it changed; what the table does not hold
is computed from the evidence in a pool thread, the latest edit alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PySide6.QtCore import QObject, Signal

from espalier.app.figures.parts import Stop, Stopped
from espalier.app.jobs.previews import Previews
from espalier.app.measured.sensitivities import sensitivities_of
from espalier.model.graph.graph import Graph, Node
from espalier.model.store.weights import WeightStore
from espalier.passes.analysis.sensitivity import kept_places
from espalier.passes.figure import OPENED
from espalier.passes.sensitivity.combined import Part, Wholes, part, together
from espalier.passes.sensitivity.correction import Correction
from espalier.passes.sensitivity.full_table import changed, chosen, fixed, mask_of
from espalier.passes.sensitivity.gradient_statistics import load
from espalier.passes.sensitivity.port_predictor import Mask, port_predictor
from espalier.passes.sensitivity.ports import FormatPort as Place
from espalier.passes.sensitivity.table import Candidate

if TYPE_CHECKING:
    from espalier.app.session.session import Session

SLOT = "estimate"
QUICK = 1 << 16  # elements of a stored tensor that an estimate looks at


@dataclass(frozen=True, slots=True)
class Choice:
    """What a place has, and all that its estimate depends on: `mask` is the key of the mask of a stored tensor."""

    place: str
    candidate: Candidate
    mask: str | None


Wanted = dict[Choice, tuple[Place, Node]]


def choices(graph: Graph, places: Sequence[Place], run: Graph) -> Wanted:
    """The places of a graph with a choice of their own, and the nodes that have it."""
    return {
        Choice(place.key, candidate, held.mask if (held := node.sparsity.get(place.port)) else None): (place, node)
        for place, candidate, node in changed(graph, places, run)
    }


def from_table(table: Wholes, place: Place, choice: Choice) -> Part | None:
    """What the table knows of a choice; None where it has no such candidate."""
    if choice.candidate.sparsity or choice.mask:
        return None
    return table.part(place.node, place.port, choice.candidate)


def predicted(
    wanted: Wanted, evidence: Path, run: Graph, store: WeightStore, correction: Correction, stop: Stop
) -> dict[Choice, Part]:
    """What choices do, from the evidence alone; those that it knows nothing of cost nothing."""
    held, found = load(evidence), dict[Choice, Part]()
    for choice, (place, node) in wanted.items():
        if stop():
            raise Stopped
        asked = port_predictor(place, held, run, store, QUICK)
        mask = None if asked is None or not choice.mask else _mask(node, place, run, store)
        told = fixed(asked.predict(choice.candidate, mask=mask), correction) if asked else None
        found[choice] = part(told.kl, told.along) if told else part(0.0, np.zeros(0))
    return found


def _mask(node: Node, place: Place, run: Graph, store: WeightStore) -> Mask | None:
    name = place.weight
    return None if name is None else mask_of(node, place, store, run.weights[name].shape)


def correction_of(summary: Mapping[str, Any]) -> Correction:
    """How the run corrects predictions by what it measured."""
    held = summary.get("correction")
    if not isinstance(held, list | tuple) or len(held) != 3:
        return Correction()
    return Correction(*(float(v) for v in held), count=1)


def estimate_of(session: Session) -> Estimate:
    """The estimate of a session: one object for all that read it."""
    return session.findChild(Estimate) or Estimate(session)


class Estimate(QObject):
    """`kl` and `how` ("estimated", "measured" or "") are of the present graph; `changed` tells of others.

    `baseline`: the name of what it is from; an estimate is from where the sensitivities' gradients were taken.
    """

    changed = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session
        self._known = sensitivities_of(session)
        self.kl: float | None = None
        self.how = self.baseline = ""
        self.last: dict[str, float] = {}  # accuracy and loss as last measured, before the edits since
        self._costs: dict[Choice, Part] = {}
        self._layout: tuple[Graph, Graph, tuple[Place, ...]] | None = None
        self._previews = Previews(self)
        self._previews.ready.connect(lambda slot, key, found: self._arrived(found))
        self._previews.failed.connect(lambda slot, error: self._arrived({}))
        session.opened.connect(self._forget)
        session.changed.connect(lambda _: self.refresh())
        session.score_changed.connect(self._note)
        self._known.changed.connect(self._table_changed)

    @property
    def _true(self) -> float | None:
        """What was measured of the present recipe, on the data in use."""
        session = self._session
        return session.measures.divergence(session.document.recipe, session.compared) if session.document else None

    def cost(self, node: str, port: str) -> float | None:
        """What the present choice at a port is estimated to cost by itself; None while that is not known."""
        document = self._session.document
        held = document.graph.nodes.get(node) if document else None
        if held is None:
            return None
        wanted = chosen(held, port)
        same = (v[0] for c, v in self._costs.items() if c.place == f"{node}:{port}" and c.candidate == wanted)
        return next(same, None)

    def refresh(self) -> None:
        """Say what is known of the present graph, and ask for what is not."""
        document = self._session.document
        self.kl, self.how, self.baseline = None, "", ""
        if document is None:
            self.changed.emit()
            return
        true = self._true
        if true is not None:
            self.kl, self.how, self.baseline = true, "measured", self._session.compared.name
        elif self._known.table and not self._known.stale:
            self._estimate(document.graph)
        self.changed.emit()

    def _estimate(self, graph: Graph) -> None:
        """Add up what each choice costs; those that are not known yet are asked of the evidence."""
        document, evidence = self._session.open_document, self._known.evidence
        run, places = self._places(document.project.base, graph)
        table = self._known.wholes
        asked, parts = Wanted(), list[Part]()
        for choice, where in choices(graph, places, run).items():
            value = self._costs.get(choice)
            value = from_table(table, where[0], choice) if value is None else value
            if value is None:
                asked[choice] = where
            else:
                self._costs[choice] = value
                parts.append(value)
        found = dict[Choice, Part]() if not asked else self._asked(asked, evidence, run, document.store)
        if found is not None:
            self._costs |= found
            self.kl, self.how = together([*parts, *found.values()], table.by), "estimated"
            self.baseline = str(self._known.summary.get("baseline", OPENED))

    def _asked(
        self, wanted: Wanted, evidence: Path | None, run: Graph, store: WeightStore
    ) -> dict[Choice, Part] | None:
        """What the evidence says of choices; None while that is being worked out, or where there is none."""
        if evidence is None:
            return None
        by = correction_of(self._known.summary)
        key = evidence, by, frozenset(wanted)
        return self._previews.ask(SLOT, key, lambda stop: predicted(wanted, evidence, run, store, by, stop))

    def _places(self, base: Graph, graph: Graph) -> tuple[Graph, tuple[Place, ...]]:
        """The graph whose places the evidence is of, and these: they stay while the weights do."""
        if self._layout is None or self._layout[0] is not base:
            _, run, places = kept_places(graph, base)
            self._layout = base, run, places
        return self._layout[1:]

    def _arrived(self, found: Mapping[Choice, Part]) -> None:
        self._costs.update(found)
        if found:
            self.refresh()

    def _table_changed(self) -> None:
        self._costs.clear()
        self._layout = None
        self.refresh()

    def _note(self) -> None:
        """Remember what was measured last: it stays in sight, grey, until the next figures come. Of this graph the
        divergence may have been measured along with it."""
        score = self._session.score
        if score.accuracy is not None and score.loss is not None:
            self.last = {"accuracy": score.accuracy, "loss": score.loss}
        if (self._true is None) == (self.how == "measured"):
            self.refresh()

    def _forget(self) -> None:
        self.last.clear()
        self._costs.clear()
        self._layout = None
        self._previews.forget(SLOT)
        self.refresh()
