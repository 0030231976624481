"""The two sides of the panel Compare: their graphs, loaded on demand, and their comparison."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from PySide6.QtCore import QObject, Signal

from espalier.app.features.compare.state.change_costs import ChangeCosts
from espalier.app.features.compare.state.choices import StateChoice, choices_of, default_pair
from espalier.app.features.compare.state.side_scores import measured_side
from espalier.app.figures.difference import StateComparison, compared
from espalier.app.jobs.previews import Previews
from espalier.app.translation import tr
from espalier.model.document.arrangement import UNARRANGED, Arrangement, arrangement_of
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import EspalierError, JobError
from espalier.model.graph.graph import Graph
from espalier.model.leftovers import WINDOW, Scratch
from espalier.model.store.weights import WeightStore
from espalier.model.trust import Origin
from espalier.passes.comparison.scores import Measured
from espalier.passes.jobs.kinds import TERMINAL, JobEvent, OpenJob, OpenResult, Stopped
from espalier.passes.score import Scorer

if TYPE_CHECKING:
    from espalier.app.session.session import Session

Place = Literal["a", "b"]
MAX_KEPT = 3  # cached comparisons, each with two graphs


@dataclass(frozen=True, slots=True)
class OtherModel:
    """A model of another file opened for comparison. `scratch`: its working folder."""

    result: OpenResult
    store: WeightStore
    scratch: Scratch


@dataclass(frozen=True, slots=True)
class _Awaited:
    """A pending side: a recipe being run, or a file being opened (`what`: its path, into the folder `scratch`).

    `side`: None after a change of documents.
    """

    side: StateChoice | None
    what: Recipe | str
    scratch: Scratch | None = None


class Comparing(QObject):
    """`changed`: sides, state or result changed. `result`: the comparison, None while it is pending or impossible.

    `error`: why a side has no graph. `document_left`: the document was closed or replaced.
    """

    changed = Signal()
    document_left = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session
        self.sides: dict[Place, StateChoice | None] = {"a": None, "b": None}
        self.result: StateComparison | None = None
        self.error: EspalierError | None = None
        self.active = False  # compute only while the panel is visible
        self._graphs: dict[Place, Graph | None] = {"a": None, "b": None}
        self._others: dict[str, OtherModel] = {}
        self._awaited: dict[int, _Awaited] = {}  # by job number
        self._scorer = Scorer()
        self.costs = ChangeCosts(session)
        self._previews = Previews(self, MAX_KEPT, session.opened)
        self._previews.ready.connect(self._compared)
        self._previews.failed.connect(self._failed)
        session.opened.connect(self._opened)
        session.changed.connect(self.refresh)
        session.score_changed.connect(self.refresh)
        session.job_event.connect(self._job_event)

    # -- sides

    def set_visible(self, visible: bool) -> None:
        """Compute only while the panel is visible."""
        if visible != self.active:
            self.active = visible
            if visible:
                self.refresh()

    def choose(self, side: Place, choice: StateChoice) -> None:
        """Set a side."""
        self.sides[side], self._graphs[side] = choice, None
        self.refresh()

    def swap(self) -> None:
        """Exchange A and B."""
        self.sides = {"a": self.sides["b"], "b": self.sides["a"]}
        self._graphs = {"a": self._graphs["b"], "b": self._graphs["a"]}
        self.refresh()

    def open_file(self, side: Place, source: str) -> None:
        """Compare with a model of another file chosen by the user; the worker opens its present content."""
        other = self.sides["b" if side == "a" else "a"]
        if other is None or other.key != ("file", source):
            self._leave_file(source)
        self.choose(side, StateChoice("file", Path(source).name, source))

    def _leave_file(self, name: str) -> None:
        if other := self._others.pop(name, None):
            other.store.close()
            other.scratch.close()

    def _opened(self) -> None:
        for name in list(self._others):
            self._leave_file(name)
        # Jobs of the document are cancelled by the session.
        self._awaited = {job: replace(a, side=None) for job, a in self._awaited.items() if a.scratch is not None}
        for job in list(self._awaited):
            self._session.cancel(job)
        self._scorer = Scorer()
        self.sides, self._graphs = {"a": None, "b": None}, {"a": None, "b": None}
        self.result = self.error = None
        self.document_left.emit()
        self.refresh()

    # -- computing

    def refresh(self) -> None:
        """Follow the document: update changed choices, then graphs, then the comparison."""
        if not self.active:
            return
        groups = choices_of(self._session)
        choices = {c.key: c for group in groups for c in group}
        pair = default_pair(groups)
        for name in ("a", "b"):
            side: StateChoice | None = self.sides[name]
            if side is None or (side.kind != "file" and side.key not in choices):
                side = pair["ab".index(name)] if pair else None
            fresh = choices.get(side.key, side) if side else None
            if fresh is not side or (fresh and side and fresh.recipe != side.recipe) or side is not self.sides[name]:
                self._graphs[name] = None
            self.sides[name] = fresh
        self.error = None
        self._load()

    def _load(self) -> None:
        for name in ("a", "b"):
            side = self.sides[name]
            if side is not None and self._graphs[name] is None:
                try:
                    self._graphs[name] = self._graph(side)
                except EspalierError as error:
                    self.error = error
        self._compare()

    def _graph(self, side: StateChoice) -> Graph | None:
        """The graph of a side; None while it is pending."""
        if side.kind == "file":
            other = self._others.get(side.name)
            if other is None and not self._is_awaited(side.name):
                self._open_other(side)
            return other.result.project.graph if other else None
        recipe = side.recipe or Recipe()
        graph = self._session.graph_of(recipe)
        if graph is None and not self._is_awaited(recipe):
            job = self._session.compute_graph(
                recipe, tr("Compute {}", side.title), partial(self._receive_graph, recipe), partial(self._fail, side)
            )
            self._awaited[job.id] = _Awaited(side, recipe)
        return graph

    def _is_awaited(self, source: Recipe | str) -> bool:
        return any(a.what == source for a in self._awaited.values() if a.side is not None)

    def _open_other(self, side: StateChoice) -> None:
        scratch, document = Scratch(WINDOW), self._session.document

        def opened(result: OpenResult) -> None:
            if self._session.document is document:
                store = WeightStore(scratch.folder)
                store.add(result.locations)
                self._others[side.name] = OtherModel(result, store, scratch)

        job = OpenJob(side.name, scratch.folder, origin=Origin.TYPED)
        info = self._session.submit(tr("Open {} to compare", side.title), job, opened, failed=partial(self._fail, side))
        self._awaited[info.id] = _Awaited(side, side.name, scratch)

    def _job_event(self, event: JobEvent) -> None:
        """Handle the end of a job, after its result or error was received."""
        if not isinstance(event.event, TERMINAL) or (awaited := self._awaited.pop(event.job.id, None)) is None:
            return
        if awaited.scratch is not None:
            if all(o.scratch is not awaited.scratch for o in self._others.values()):
                awaited.scratch.close()
            elif self.active:
                self._load()
        if isinstance(event.event, Stopped) and awaited.side is not None:
            self._fail(
                awaited.side, JobError(f"{event.job.title} was stopped.", "Choose the state again to repeat it.")
            )

    def _receive_graph(self, recipe: Recipe, graph: Graph) -> None:
        for name, side in self.sides.items():
            if side is not None and side.recipe == recipe:
                self._graphs[name] = graph
        self._compare()

    def _fail(self, side: StateChoice, error: EspalierError) -> None:
        if any(s is not None and s.key == side.key for s in self.sides.values()):
            self.error = error
            self.changed.emit()

    def _compare(self) -> None:
        """Request the comparison of both graphs."""
        a, b, first, second = self._graphs["a"], self._graphs["b"], self.sides["a"], self.sides["b"]
        self.result = None
        if a is not None and b is not None and first is not None and second is not None:
            scores = self._measured(first, a), self._measured(second, b)
            stores = self._store(first), self._store(second)
            names = first.title, second.title
            key = (id(a), id(b), scores, names)
            work = lambda stop: compared(a, b, stores, names, scores, stop)  # noqa: E731
            self.result = self._previews.ask("difference", key, work)
        self.changed.emit()

    @property
    def arrangements(self) -> tuple[Arrangement, Arrangement]:
        """Pins and frames of both sides: those of the document for its states, or of the file."""
        first, second = (self._arrangement(self.sides[p]) for p in ("a", "b"))
        return first, second

    def _arrangement(self, side: StateChoice | None) -> Arrangement:
        if side is not None and side.kind == "file":
            other = self._others.get(side.name)
            return arrangement_of(other.result.project) if other else UNARRANGED
        document = self._session.document
        return document.arrangement if document else UNARRANGED

    def _store(self, side: StateChoice) -> WeightStore:
        return self._others[side.name].store if side.kind == "file" else self._session.open_document.store

    def _compared(self, slot: str, key: Any, result: StateComparison) -> None:
        self.result = result
        self.changed.emit()

    def _failed(self, slot: str, error: Exception) -> None:
        self.error = error if isinstance(error, EspalierError) else EspalierError(f"The comparison failed: {error}.")
        self.changed.emit()

    # -- scores

    def _measured(self, side: StateChoice, graph: Graph) -> Measured:
        file = self._others[side.name].result.project if side.kind == "file" else None
        return measured_side(self._session, side, graph, file, self._scorer)

    @property
    def can_measure(self) -> bool:
        """Whether there are data and an unmeasured side that is a state of the document."""
        return bool(self._session.measured_on.data) and bool(self._unmeasured())

    def _unmeasured(self) -> list[tuple[StateChoice, Graph]]:
        sides = [(self.sides[p], self._graphs[p]) for p in ("a", "b")]
        return [(s, g) for s, g in sides if s is not None and g is not None and s.recipe is not None
                and not self._session.measures.metrics(s.recipe)]  # fmt: skip

    def measure(self) -> None:
        """Evaluate the unmeasured sides that are states of the document, on the data in use."""
        data = self._session.measured_on
        for side, graph in self._unmeasured():
            recipe = side.recipe or Recipe()
            self._session.analyse(tr("Evaluate {}", side.title), Step("evaluate", data),
                                  lambda r, of=recipe: self._session.record_score(of, data, r.summary, True),
                                  graph)  # fmt: skip

    @property
    def can_measure_rows(self) -> bool:
        """Whether there are data, and differences of which it is not measured what they cost alone."""
        result = self.result
        return bool(self._session.measured_on.data) and result is not None and bool(result.diff) and not (
            self.costs.is_complete(result)
        )  # fmt: skip

    def measure_rows(self) -> None:
        """Measure what each row of the differences costs alone, on the data in use; stop that while it runs."""
        sides = [self.sides["a"], self.sides["b"]]
        if self.costs.busy:
            self.costs.stop()
        elif self.result is not None:
            self.costs.ask(self.result, [self._store(s) for s in sides if s is not None])

    # -- using

    def use(self, name: Place) -> None:
        """Make the recipe of a side the document's, as one undoable edit; no effect for a file."""
        side = self.sides[name]
        if side is None or side.recipe is None:
            return
        if side.trial is not None and side.study is not None and "loss" in side.trial.figures:
            figures = {**side.trial.figures, **side.trial.noise}
            self._session.record_score(side.recipe, side.study.spec.score, figures)
        self._session.set_recipe(side.recipe, tr("Use {}", side.title))
