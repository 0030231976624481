"""An allocation in the window: who competes, along which cost, the front, and the budget that is tried at the moment.

Counting what everything costs takes some tenths of a second and happens on a thread; a budget is then solved at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal

from espalier.app.features.allocate.state.built import Built, build
from espalier.app.features.allocate.state.held import Answer, Holding
from espalier.app.features.allocate.state.whole import lost, present
from espalier.app.jobs.latest import Latest
from espalier.app.measured.estimate import estimate_of
from espalier.app.measured.sensitivities import sensitivities_of
from espalier.model.document.recipe import Recipe
from espalier.model.errors import EspalierError, OptionsError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ports import weight_at
from espalier.passes.allocation.convex_hulls import Solution
from espalier.passes.allocation.decisions import FLOAT, Column, Place, column, column_title
from espalier.passes.allocation.plan import steps
from espalier.passes.allocation.solve import Competing
from espalier.passes.costs.base import cost, with_candidate
from espalier.passes.figure import OPENED
from espalier.passes.sensitivity.table import Candidate

if TYPE_CHECKING:
    from espalier.app.session.session import Session

QUICK = 300  # choices up to which the costs are counted at once
FIRST = "weight_bits"


@dataclass(frozen=True, slots=True)
class Ground:
    """What an allocation is laid on: a recipe and the graph that it gives."""

    recipe: Recipe
    graph: Graph


class Competition(QObject):
    """What an allocation is laid on, and who competes in it."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session
        self.known, self.estimate = sensitivities_of(session), estimate_of(session)
        self.figure = FIRST
        self.ports: tuple[str, ...] = ()
        self.columns: tuple[Column, ...] | None = None
        self._ground: Ground | None = None
        self._applied: tuple[Recipe, Ground] | None = None

    @property
    def ground(self) -> Ground | None:
        """The recipe and graph under the allocation: the present ones, without an allocation that was applied last."""
        document = self._session.document
        if document is None:
            return None
        if self._applied and self._applied[0] == document.recipe:
            return self._applied[1]
        if self._ground is None or self._ground.graph is not document.graph or self._ground.recipe != document.recipe:
            self._ground = Ground(document.recipe, document.graph)
        return self._ground

    def offered(self) -> tuple[Candidate, ...]:
        """One candidate for each column of the table, float first."""
        found = {column(FLOAT): FLOAT}
        for row in self.known.table:
            for candidate in row.candidates:
                found.setdefault(column(candidate), candidate)
        return tuple(found.values())

    def offered_ports(self) -> tuple[str, ...]:
        """The ports of the table that the cost looks at, weights first."""
        shares, ground = cost(self.figure).shares, self.ground
        if shares is None or ground is None:
            return ()
        rows = [r for r in self.known.table if r.node in ground.graph.nodes]
        looked = [r.port for r in rows if shares.node and r.port in shares.ports]
        held = [r.port for r in rows if shares.weight and weight_at(ground.graph[r.node], r.port, ground.graph)]
        return tuple(dict.fromkeys(sorted((*looked, *held), key=lambda p: p != "weight")))


class Allocations(Competition):
    """`built`: the front is another, or there is none. `moved`: the allocation that is tried is another, or none."""

    built = Signal()
    moved = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.now: Built | None = None
        self.error = ""
        self.wanted: float | None = None  # the signed amount that is aimed at
        self.found: Solution | None = None
        self.reached: float | None = None  # the cost of what is tried: as it adds up in a drag, and then the true one
        self.kl: float | None = None  # what it is predicted to cost
        self.beyond = ""  # why what is tried cannot be held
        self._settled = self._applying = False
        self._nodes: dict[str, tuple[tuple[Candidate, ...], Node, Node]] = {}
        self._key: object = None
        self._on: Ground | None = None  # kept alive, since the key names it by its id
        self._counting = Latest(self, lambda done: self._take_from(done.result))
        self._holding = Holding(self, self._settle)
        self._looking = False
        self.known.changed.connect(self.refresh)
        session.opened.connect(self._opened)
        session.changed.connect(lambda _: self._changed())

    # -- what it is laid on

    def _opened(self) -> None:
        self._applied, self._ground, self.columns, self.ports, self._key = None, None, None, (), None
        self.reset()
        self.refresh()

    def _changed(self) -> None:
        """Another state of the document: what was tried is over; what was applied is laid on what it was laid on."""
        self.reset()
        self.refresh()
        if self._looking:
            self.moved.emit()

    def choose(
        self, figure: str = "", ports: tuple[str, ...] | None = None, columns: tuple[Column, ...] | None = None
    ) -> None:
        """Another cost, other ports, or others that compete."""
        self.figure = figure or self.figure
        self.ports = self.ports if ports is None else ports
        self.columns = self.columns if columns is None else columns
        self.reset()
        self.refresh()

    # -- the front

    def look(self, looking: bool) -> None:
        """Whether somebody looks: only then anything is counted."""
        self._looking = looking
        if looking:
            self.refresh()

    @property
    def counting(self) -> bool:
        """Whether the front is on its way."""
        return self._counting.busy

    def refresh(self) -> None:
        """Count again, where anything has changed that the front hangs on."""
        ground, table = self.ground, self.known.table
        if not self._looking or (self.known.running and not self.known.refining):
            return
        columns = self.columns
        who = Competing(columns, columns is None or column(FLOAT) in columns, ports=self.ports)
        # Rows that measurements correct one by one are counted again when all are.
        rows = self.known.job if self.known.refining else table
        key = (id(ground.graph) if ground else None, rows, self.figure, who)
        if key == self._key:
            return
        self._key, self._on = key, ground
        self._counting.drop()
        self.now, self.error = None, ""
        if ground is None or not table:
            self.built.emit()
        elif self._small:
            self._take_from(lambda: build(ground.graph, table, self.figure, who, self.known.wholes))
        else:
            self._counting.ask(build, ground.graph, table, self.figure, who, self.known.wholes)
            self.built.emit()

    def recount(self) -> None:
        """What a cost hangs on was found: count again."""
        self._key = None
        self.refresh()

    @property
    def _small(self) -> bool:
        """Whether nobody would notice that the window works it out itself."""
        return sum(len(r.candidates) for r in self.known.table) <= QUICK

    def _take_from(self, result: Any) -> None:
        try:
            self.now = result()
        except EspalierError as error:
            self.error = f"{error.message} {error.hint}"
        self.built.emit()
        if self.now is not None and self.wanted is not None:  # the budget that is tried stays
            self.aim(self.wanted)
        else:
            self.moved.emit()

    # -- a budget that is tried

    @property
    def ends(self) -> tuple[float, float] | None:
        """The least signed amount, and that from which on nothing gets better."""
        return self.now.front.ends if self.now else None

    def aim(self, amount: float) -> None:
        """Try a budget, as the signed amount of the cost; below the least the cheapest is tried."""
        if self.now is None:
            return
        low, high = self.now.front.ends
        self.wanted = min(max(amount, low), high)
        self.found, self.kl = self.now.quick(self.wanted)
        self.reached = self.now.figure(self.found)
        self.beyond, self._applying, self._settled = "", False, self.wanted <= low  # nothing is cheaper than the least
        self._holding.drop() if self._settled else self._holding.rest(self.now, self.wanted)
        self.moved.emit()

    def _settle(self, answer: Answer) -> None:
        """What is tried rests: the best that truly holds it takes the quick one's place."""
        self.beyond, self._settled, applies = answer.error, answer.held is not None, self._applying
        if answer.held is not None:
            self.found, self.reached = answer.held.solution, answer.held.made.figures[self.figure]
            self.kl = self.now.told.of(self.chosen) if self.now else None
        self._applying = False
        if applies and self._settled:
            self._apply()
        else:
            self.moved.emit()

    def aim_at(self, figure: float) -> None:
        """Try a budget as the cost's figure; raises OptionsError where it is less than possible."""
        if self.now is None:
            return
        amount, low = self.now.problem.amount(0, figure), self.now.front.ends[0]
        self.aim(amount)
        if amount < low - 1e-9 * abs(low):
            word = "least" if self.now.cost.better == "low" else "most"
            least = self.now.problem.figure(0, low)
            raise OptionsError(f"The {word} possible is {least:.6g} {self.now.cost.unit}.".replace(" .", "."),
                               "Add cheaper formats or more pruning.")  # fmt: skip

    def reset(self) -> None:
        """Nothing is tried any more."""
        self._nodes.clear()
        self._holding.drop()
        self.beyond, self._applying = "", False
        if self.found is not None or self.wanted is not None:
            self.found = self.wanted = self.reached = self.kl = None
            self.moved.emit()

    @property
    def chosen(self) -> dict[Place, Candidate]:
        """What is tried: place → candidate."""
        return self.now.problem.chosen(self.found.picks) if self.now and self.found else {}

    def preview(self) -> Graph | None:
        """The document's graph with what is tried; nodes that have not changed since the last time are the same."""
        document, chosen = self._session.document, self.chosen
        if document is None or not chosen:
            return None
        ports: dict[str, dict[str, Candidate]] = {}
        for (node, port), candidate in chosen.items():
            ports.setdefault(node, {})[port] = candidate
        made = {n: self._made(document.graph.nodes[n], held) for n, held in ports.items() if n in document.graph.nodes}
        return replace(document.graph, nodes={**document.graph.nodes, **made})

    def _made(self, node: Node, held: dict[str, Candidate]) -> Node:
        choices = tuple(held.values())
        known = self._nodes.get(node.id)
        if known is None or known[0] != choices or known[1] is not node:
            below = self.ground.graph.nodes.get(node.id) if self.ground else None
            made = replace(node, sparsity=below.sparsity) if below else node
            for port, candidate in held.items():
                made = with_candidate(made, port, candidate)
            known = self._nodes[node.id] = choices, node, made
        return known[2]

    @property
    def baseline(self) -> str:
        """What the divergences of the front are from."""
        return str(self.known.summary.get("baseline", OPENED))

    def present(self) -> tuple[float, float | None] | None:
        """The present configuration: its cost, and its divergence as the score tells it, where that is known."""
        document, now = self._session.document, self.now
        of = cost(self.figure).of
        if document is None or now is None or of is None:
            return None
        figure = of(document.graph, self._session.score)
        return None if figure != figure else (figure, self.estimate.kl)  # not a number: not known of this graph

    def present_choices(self) -> dict[Place, tuple[Candidate, float | None]]:
        """What the ports have now, and what it costs as the table has it."""
        document, now = self._session.document, self.now
        if document is None or now is None:
            return {}
        places = {p for g in now.problem.groups for s in g.slots for p in s.places}
        nodes = document.graph.nodes
        rows = [r for r in self.known.table if (r.node, r.port) in places and r.node in nodes]
        return {(r.node, r.port): (present(r, nodes[r.node]), lost(r, nodes[r.node])) for r in rows}

    # -- using it

    @property
    def recipe(self) -> Recipe | None:
        """The document's."""
        return self._session.document.recipe if self._session.document else None

    def made_recipe(self) -> Recipe | None:
        """The recipe that gives what is tried."""
        ground = self.ground
        if ground is None or not self.found:
            return None
        data = str(getattr(self.known.options, "data", "") or "")
        return ground.recipe.append(*steps(ground.graph, self.chosen, data))

    def apply(self) -> None:
        """Make what is tried the recipe, once it is known to hold its budget."""
        if self._settled:
            self._apply()
        elif self.found is not None:
            self._applying = True
            self._holding.at_once(self._small)

    def _apply(self) -> None:
        """One undo step, in place of one that was applied before."""
        recipe, ground, now = self.made_recipe(), self.ground, self.now
        if recipe is None or ground is None or now is None or self.reached is None:
            return
        self._applied = recipe, ground
        self._session.set_recipe(recipe, f"Allocate {now.cost.title.lower()} {self.reached:.4g}")


def title_of(candidate: Candidate) -> str:
    """A candidate's format in words, without what is fitted."""
    return "float" if candidate.format is None else column_title(replace(candidate, sparsity=0.0))
