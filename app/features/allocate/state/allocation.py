"""Allocation of the open model: candidates, cost, front and the current budget.

Large problems are built in a thread; a budget is then solved immediately.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal

from espalier.app.features.allocate.state.cost_problem import CostProblem, build
from espalier.app.features.allocate.state.exact_solution import Answer, ExactSolver
from espalier.app.features.allocate.state.predicted_total import divergence_of, present
from espalier.app.jobs.latest_task import LatestTask
from espalier.app.measured.estimate import estimate_of
from espalier.app.measured.sensitivities import sensitivities_of
from espalier.app.translation import error_text, tr
from espalier.model.document.recipe import Recipe
from espalier.model.errors import EspalierError, OptionsError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ports import weight_at
from espalier.passes.allocation.convex_hulls import Solution
from espalier.passes.allocation.decisions import FLOAT, Column, PortRef, column, column_title
from espalier.passes.allocation.plan import steps
from espalier.passes.allocation.solve import Competing
from espalier.passes.costs.base import cost, with_candidate
from espalier.passes.figure import OPENED
from espalier.passes.sensitivity.table import Candidate

if TYPE_CHECKING:
    from espalier.app.session.session import Session

QUICK = 300  # number of candidates up to which the problem is built in the UI thread
FIRST = "weight_bits"


@dataclass(frozen=True, slots=True)
class Base:
    """The recipe that an allocation extends, and its graph."""

    recipe: Recipe
    graph: Graph


class SearchSpace(QObject):
    """Base, cost, ports and candidate columns of an allocation."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session
        self.sensitivities, self.estimate = sensitivities_of(session), estimate_of(session)
        self.figure = FIRST
        self.ports: tuple[str, ...] = ()
        self.columns: tuple[Column, ...] | None = None
        self._base: Base | None = None
        self._applied: tuple[Recipe, Base] | None = None

    @property
    def base(self) -> Base | None:
        """The recipe and graph that the allocation extends: the document's, without an allocation applied last."""
        document = self._session.document
        if document is None:
            return None
        if self._applied and self._applied[0] == document.recipe:
            return self._applied[1]
        if self._base is None or self._base.graph is not document.graph or self._base.recipe != document.recipe:
            self._base = Base(document.recipe, document.graph)
        return self._base

    def offered(self) -> tuple[Candidate, ...]:
        """One candidate for each column of the table, float first."""
        candidates = {column(FLOAT): FLOAT}
        for row in self.sensitivities.table:
            for candidate in row.candidates:
                candidates.setdefault(column(candidate), candidate)
        return tuple(candidates.values())

    def offered_ports(self) -> tuple[str, ...]:
        """The ports of the table that the cost depends on, weights first."""
        shares, base = cost(self.figure).shares, self.base
        if shares is None or base is None:
            return ()
        rows = [r for r in self.sensitivities.table if r.node in base.graph.nodes]
        of_nodes = [r.port for r in rows if shares.node and r.port in shares.ports]
        of_weights = [r.port for r in rows if shares.weight and weight_at(base.graph[r.node], r.port, base.graph)]
        return tuple(dict.fromkeys(sorted((*of_nodes, *of_weights), key=lambda p: p != "weight")))


class Allocations(SearchSpace):
    """Emits `built` when the front changes and `moved` when the current solution changes."""

    built = Signal()
    moved = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.current: CostProblem | None = None
        self.error = ""
        self.wanted: float | None = None  # target amount, signed
        self.solution: Solution | None = None
        self.reached: float | None = None  # cost: the sum during a drag, exact after it
        self.kl: float | None = None  # predicted divergence
        self.beyond = ""  # error if the budget is infeasible
        self._settled = self._applying = False
        self._nodes: dict[str, tuple[tuple[Candidate, ...], Node, Node]] = {}
        self._key: object = None
        self._on: Base | None = None  # keeps the object whose id is in the key alive
        self._counting = LatestTask(self, lambda done: self._take_from(done.result))
        self._exact = ExactSolver(self, self._settle)
        self._visible = False
        self.sensitivities.changed.connect(self.refresh)
        session.opened.connect(self._opened)
        session.changed.connect(lambda _: self._changed())

    # -- base

    def _opened(self) -> None:
        self._applied, self._base, self.columns, self.ports, self._key, self._on = None, None, None, (), None, None
        self.reset()
        self.refresh()

    def _changed(self) -> None:
        """Drop the current budget after the document has changed."""
        self.reset()
        self.refresh()
        if self._visible:
            self.moved.emit()

    def choose(
        self, figure: str = "", ports: tuple[str, ...] | None = None, columns: tuple[Column, ...] | None = None
    ) -> None:
        """Set the cost, the ports and the candidate columns."""
        self.figure = figure or self.figure
        self.ports = self.ports if ports is None else ports
        self.columns = self.columns if columns is None else columns
        self.reset()
        self.refresh()

    # -- the front

    def set_visible(self, visible: bool) -> None:
        """Build the front only while the panel is visible."""
        self._visible = visible
        if visible:
            self.refresh()

    @property
    def counting(self) -> bool:
        """Whether the front is being built."""
        return self._counting.busy

    def refresh(self) -> None:
        """Rebuild the front if any of its inputs has changed."""
        base, table = self.base, self.sensitivities.table
        if not self._visible or (self.sensitivities.running and not self.sensitivities.refining):
            return
        columns = self.columns
        competing = Competing(columns, columns is None or column(FLOAT) in columns, ports=self.ports)
        # While measurements refine the rows one by one, rebuild only at the end.
        rows = self.sensitivities.job if self.sensitivities.refining else table
        key = (id(base.graph) if base else None, rows, self.figure, competing)
        if key == self._key:
            return
        self._key, self._on = key, base
        self._counting.drop()
        self.current, self.error = None, ""
        if base is None or not table:
            self.built.emit()
        elif self._small:
            self._take_from(lambda: build(base.graph, table, self.figure, competing, self.sensitivities.combined))
        else:
            self._counting.ask(build, base.graph, table, self.figure, competing, self.sensitivities.combined)
            self.built.emit()

    def recount(self) -> None:
        """Rebuild after the inputs of a cost were measured."""
        self._key = None
        self.refresh()

    @property
    def _small(self) -> bool:
        """Whether the problem is small enough for the UI thread."""
        return sum(len(r.candidates) for r in self.sensitivities.table) <= QUICK

    def _take_from(self, result: Any) -> None:
        try:
            self.current = result()
        except EspalierError as error:
            self.error = error_text(error)
        self.built.emit()
        if self.current is not None and self.wanted is not None:  # keep the budget
            self.aim(self.wanted)
        else:
            self.moved.emit()

    # -- budget

    @property
    def ends(self) -> tuple[float, float] | None:
        """Signed amounts of the cheapest and of the best solution."""
        return self.current.front.ends if self.current else None

    def aim(self, amount: float) -> None:
        """Set the budget as a signed amount of the cost, clamped to `ends`."""
        if self.current is None:
            return
        low, high = self.current.front.ends
        self.wanted = min(max(amount, low), high)
        self.solution, self.kl = self.current.quick(self.wanted)
        self.reached = self.current.figure(self.solution)
        self.beyond, self._applying, self._settled = "", False, self.wanted <= low  # the cheapest is exact
        self._exact.drop() if self._settled else self._exact.rest(self.current, self.wanted)
        self.moved.emit()

    def _settle(self, answer: Answer) -> None:
        """Replace the quick solution with the exact one."""
        self.beyond, self._settled, apply = answer.error, answer.solution is not None, self._applying
        if answer.solution is not None:
            self.solution, self.reached = answer.solution.solution, answer.solution.made.figures[self.figure]
            self.kl = self.current.predictor.of(self.chosen) if self.current else None
        self._applying = False
        if apply and self._settled:
            self._apply()
        else:
            self.moved.emit()

    def aim_at(self, figure: float) -> None:
        """Set the budget as a value of the cost; raises OptionsError if it is below the minimum."""
        if self.current is None:
            return
        amount, low = self.current.problem.amount(0, figure), self.current.front.ends[0]
        self.aim(amount)
        if amount < low - 1e-9 * abs(low):
            direction = "least" if self.current.cost.better == "low" else "most"
            minimum = self.current.problem.figure(0, low)
            unit = f" {self.current.cost.unit}".rstrip()
            raise OptionsError(
                f"The {direction} possible is {minimum:.6g}{unit}.", "Add cheaper formats or more pruning."
            )

    def reset(self) -> None:
        """Drop the budget and the solution."""
        self._nodes.clear()
        self._exact.drop()
        self.beyond, self._applying = "", False
        if self.solution is not None or self.wanted is not None:
            self.solution = self.wanted = self.reached = self.kl = None
            self.moved.emit()

    @property
    def chosen(self) -> dict[PortRef, Candidate]:
        """The solution as (node, port) → candidate."""
        return self.current.problem.chosen(self.solution.picks) if self.current and self.solution else {}

    def preview(self) -> Graph | None:
        """The document's graph with the solution; unchanged nodes are the same objects as in the last preview."""
        document, chosen = self._session.document, self.chosen
        if document is None or not chosen:
            return None
        ports: dict[str, dict[str, Candidate]] = {}
        for (node, port), candidate in chosen.items():
            ports.setdefault(node, {})[port] = candidate
        nodes = {
            n: self._configured(document.graph.nodes[n], candidates)
            for n, candidates in ports.items()
            if n in document.graph.nodes
        }
        return replace(document.graph, nodes={**document.graph.nodes, **nodes})

    def _configured(self, node: Node, candidates: dict[str, Candidate]) -> Node:
        choices = tuple(candidates.values())
        cached = self._nodes.get(node.id)
        if cached is None or cached[0] != choices or cached[1] is not node:
            below = self.base.graph.nodes.get(node.id) if self.base else None
            configured = replace(node, sparsity=below.sparsity) if below else node
            for port, candidate in candidates.items():
                configured = with_candidate(configured, port, candidate)
            cached = self._nodes[node.id] = choices, node, configured
        return cached[2]

    @property
    def baseline(self) -> str:
        """Baseline of the front's divergences."""
        return str(self.sensitivities.summary.get("baseline", OPENED))

    def present(self) -> tuple[float, float | None] | None:
        """(cost, divergence as in the score or None) of the present configuration."""
        document, current = self._session.document, self.current
        of = cost(self.figure).of
        if document is None or current is None or of is None:
            return None
        figure = of(document.graph, self._session.score)
        return None if figure != figure else (figure, self.estimate.kl)  # NaN: the cost is unknown

    def present_choices(self) -> dict[PortRef, tuple[Candidate, float | None]]:
        """(node, port) → (present candidate, its divergence in the table)."""
        document, current = self._session.document, self.current
        if document is None or current is None:
            return {}
        places = {p for g in current.problem.groups for s in g.slots for p in s.places}
        nodes = document.graph.nodes
        rows = [r for r in self.sensitivities.table if (r.node, r.port) in places and r.node in nodes]
        return {(r.node, r.port): (present(r, nodes[r.node]), divergence_of(r, nodes[r.node])) for r in rows}

    # -- applying

    @property
    def recipe(self) -> Recipe | None:
        """The document's recipe."""
        return self._session.document.recipe if self._session.document else None

    def allocated_recipe(self) -> Recipe | None:
        """The base recipe with the steps of the solution."""
        base = self.base
        if base is None or not self.solution:
            return None
        data = str(getattr(self.sensitivities.options, "data", "") or "")
        return base.recipe.append(*steps(base.graph, self.chosen, data))

    def apply(self) -> None:
        """Apply the solution, after the exact solver has confirmed its budget."""
        if self._settled:
            self._apply()
        elif self.solution is not None:
            self._applying = True
            self._exact.at_once(self._small)

    def _apply(self) -> None:
        """Set the recipe as one undo step; it replaces an allocation applied before."""
        recipe, base, current = self.allocated_recipe(), self.base, self.current
        if recipe is None or base is None or current is None or self.reached is None:
            return
        self._applied = recipe, base
        self._session.set_recipe(recipe, tr("Allocate {} {:.4g}", tr(current.cost.title).lower(), self.reached))


def title_of(candidate: Candidate) -> str:
    """Name of a candidate's format without its fitted parameters."""
    return "float" if candidate.format is None else column_title(replace(candidate, sparsity=0.0))
