"""Queue of recipe edits: applied at once if no worker is needed, otherwise one after another by jobs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from espalier.app.session.repeats import Repeats
from espalier.app.step_text import title
from espalier.app.translation import tr
from espalier.model.document.document import Document
from espalier.model.document.project import keys_of
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import EspalierError, JobError
from espalier.model.graph.graph import Graph
from espalier.model.registry import PASSES
from espalier.passes.base import Context, Report, is_lasting
from espalier.passes.jobs.kinds import JobInfo, ReplayJob, ReplayResult
from espalier.passes.recipes.replay import Memo, instant, milestones, prefix_keys, remembered, replay
from espalier.passes.recipes.set_up import source_after

Ended = Callable[[EspalierError | None], object]


class EditContext(Protocol):
    """The parts of a session that the queue uses."""

    @property
    def open_document(self) -> Document:
        """The open document."""
        ...

    @property
    def problem(self) -> Any:
        """The signal that shows an error."""
        ...

    @property
    def noticed(self) -> Any:
        """The signal that shows a message and a hint which are no error."""
        ...

    @property
    def repeats(self) -> Repeats:
        """How ended jobs are run again."""
        ...

    @property
    def recipe(self) -> Recipe:
        """The recipe after all queued edits."""
        ...

    def set_recipe(self, recipe: Recipe, label: str) -> None:
        """Replace the recipe."""
        ...

    def submit(
        self, title: str, job: ReplayJob, done: Callable[[Any], None], *, urgent: bool = False,
        failed: Callable[[JobError], None] | None = None,
    ) -> Any:  # fmt: skip
        """Queue a job."""
        ...


@dataclass(frozen=True, slots=True)
class EditRequest:
    """A new recipe; consecutive requests with the same merge key become one undo step.

    `ended`: receives None when it was applied, else its error, which is then not shown.
    """

    label: str
    recipe: Recipe
    merge_key: object
    ended: Ended | None = None


class EditQueue:
    """The edits of one document, and the memo of its replays."""

    def __init__(self, session: EditContext) -> None:
        self.memo = Memo()
        self._session = session
        self._waiting: deque[EditRequest] = deque()
        self._running: EditRequest | None = None
        self._began_with = Recipe()  # the document's recipe when the running request began
        self._answered = False  # whether the running request has been applied or has failed

    @property
    def recipe(self) -> Recipe | None:
        """The recipe after all queued edits; None if the queue is empty."""
        request = self._waiting[-1] if self._waiting else self._running
        return request.recipe if request else None

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of all queued edits, first the running one."""
        return tuple(r.label for r in (*([self._running] if self._running else []), *self._waiting))

    def restart(self, document: Document | None) -> None:
        """Reset the memo to the graphs that the document holds: for an opened project, or after plug-ins changed.

        Steps whose pass is missing then need not run.
        """
        steps = document.recipe.active if document else ()
        graphs = self.milestones(document) if document else {}
        self.memo = Memo()
        for count, graph in graphs.items():
            self.memo.remember(steps[:count], graph)
        if document and steps:
            self.memo.remember(steps, document.graph)

    def milestones(self, document: Document) -> dict[int, Graph]:
        """Graphs after lasting steps by their number of steps, which the project stores to avoid training again."""
        opened = document.project.milestones if document.recipe == document.project.recipe else {}
        results = [self.memo.graphs.get(k) for k in prefix_keys(document.recipe.active)]
        return opened | milestones(document.recipe, results)

    def submit(self, request: EditRequest) -> None:
        """Apply or queue an edit; it replaces the last queued one if they share a merge key."""
        if self._running is None and instant(request.recipe, self.memo):
            self._apply_now(request)
            return
        if self._waiting and request.merge_key is not None and self._waiting[-1].merge_key == request.merge_key:
            self._waiting.pop()
        self._waiting.append(request)
        self._start()

    def drop_last(self) -> bool:
        """Remove the last queued edit that has not started; returns False if there is none."""
        if not self._waiting:
            return False
        self._end(self._waiting.pop(), _withdrawn())
        return True

    def withdraw(self, recipe: Recipe) -> bool:
        """Remove the queued edit that leads to this very recipe; False if it runs or is none of the queue."""
        request = next((r for r in self._waiting if r.recipe is recipe), None)
        if request is None:
            return False
        self._waiting.remove(request)
        self._end(request, _withdrawn())
        return True

    def start_next(self) -> None:
        """Start the next edit, after the running one has ended."""
        running, self._running = self._running, None
        if running is not None and not self._answered and running.ended is not None:
            running.ended(JobError("The edit was stopped.", "The document is unchanged."))
        self._start()

    def _end(self, request: EditRequest, error: EspalierError | None = None) -> None:
        """Tell how a request has ended; without a receiver, an error is shown."""
        if request is self._running:
            self._answered = True
        if request.ended is not None:
            request.ended(error)
        elif error is not None and not isinstance(error, _Withdrawn):
            self._session.problem.emit(error)

    def reports(self, recipe: Recipe) -> tuple[Report | None, ...]:
        """The report of each active step; None where the memo has none."""
        results = [self.memo.graphs.get(k) for k in prefix_keys(recipe.active)]
        return tuple(r.report if r else None for r in results)

    def _start(self) -> None:
        while self._running is None and self._waiting:
            request = self._waiting.popleft()
            if instant(request.recipe, self.memo):
                self._apply_now(request)
            else:
                self._submit(request)

    def _apply_now(self, request: EditRequest) -> None:
        document = self._session.open_document
        try:
            result = replay(document.project.base, request.recipe, Context(document.store), self.memo)
        except EspalierError as error:
            self._end(request, error)
            return
        _commit(document, request, result.graph)
        self._end(request)

    def graph_of(self, document: Document, recipe: Recipe) -> Graph | None:
        """The graph of a recipe, if it is remembered or can be made at once; raises EspalierError."""
        if recipe == document.recipe:
            return document.graph
        if not instant(recipe, self.memo):
            return None
        return replay(document.project.base, recipe, Context(document.store), self.memo).graph

    def compute(
        self, document: Document, recipe: Recipe, title: str, done: Callable[[Graph], None],
        failed: Callable[[JobError], None],
    ) -> JobInfo:  # fmt: skip
        """Run a recipe beside the document; what it gives is remembered."""

        def arrived(result: ReplayResult) -> None:
            self._remember(document, recipe, result)
            done(result.graph)

        job = replace(self._job(document, recipe)[0], beside=True)
        return self._session.submit(title, job, arrived, failed=failed)

    def _job(self, document: Document, recipe: Recipe) -> tuple[ReplayJob, int]:
        """The job that runs what is not remembered of a recipe, and how many steps are."""
        base, keys = document.project.base, prefix_keys(recipe.active)
        count = remembered(keys, self.memo)
        graph = self.memo.graphs[keys[count - 1]].graph if count else base
        locations = document.store.locate(keys_of(base, graph, document.graph))
        known = (count, graph) if count else None
        return ReplayJob(base, recipe, locations, document.store.folder, document.project.source, known), count

    def _submit(self, request: EditRequest) -> None:
        self._running, self._answered = request, False
        self._began_with = self._session.open_document.recipe
        job, count = self._job(self._session.open_document, request.recipe)
        name = _lasting_titles(request.recipe.active[count:]) or request.label
        failed = None if request.ended is None else lambda error: self._end(request, error)
        info = self._session.submit(
            name, job, lambda result: self._replayed(request, result), urgent=True, failed=failed
        )
        self._note_repeat(info, request, count)

    def _note_repeat(self, job: JobInfo, request: EditRequest, count: int) -> None:
        """Let a training that was appended run again: appended to the recipe of then. `count`: remembered steps."""
        steps = request.recipe.steps
        if not steps or not steps[-1].enabled or not is_lasting(steps[-1].pass_name):
            return
        if any(is_lasting(s.pass_name) for s in request.recipe.active[count:-1]):
            return
        session, step = self._session, steps[-1]
        before = request.recipe.remove(len(steps) - 1)
        session.repeats.note(job, lambda: session.set_recipe(session.recipe.append(step), request.label), before)

    def _remember(self, document: Document, recipe: Recipe, result: ReplayResult) -> None:
        document.store.add_new(result.locations)
        for key, step_result in zip(prefix_keys(recipe.active), result.results, strict=True):
            if step_result and key not in self.memo.graphs:
                self.memo.put(key, step_result)

    def _replayed(self, request: EditRequest, result: ReplayResult) -> None:
        document = self._session.open_document
        self._remember(document, request.recipe, result)
        reports = [r.report if r else None for r in result.results]
        document.describe(source_after(document.project.source, request.recipe.active, reports))
        began, present, ended = self._began_with.steps, document.recipe.steps, request.recipe.steps
        undone = [title(s) for s in began if s not in present and s in ended]
        added = [title(s) for s in present if s not in began and s not in ended]
        _commit(document, request, result.graph)
        self._end(request)
        if undone or added:
            self._session.noticed.emit(*_changed_meanwhile(request.label, undone, added))


def _changed_meanwhile(label: str, undone: Sequence[str], added: Sequence[str]) -> tuple[str, str]:
    """What is said of a long edit during which the recipe was changed: its result is that of the recipe of then."""
    back = tr(" {} is in the recipe again.", ", ".join(undone)) if undone else ""
    gone = tr(" {} is not in the recipe any more.", ", ".join(added)) if added else ""
    text = tr(
        "{} began before the recipe was changed, and its result belongs to the recipe of then.{}{}", label, back, gone
    )
    return text, tr("Undo (Ctrl+Z) returns to the recipe as it was before the result.")


def _commit(document: Document, request: EditRequest, graph: Graph) -> None:
    """Make the recipe of a request and its graph the document's state."""
    document.commit(request.label, replace(document.present, recipe=request.recipe, graph=graph), request.merge_key)


class _Withdrawn(JobError):
    """A queued edit was taken back."""


def _withdrawn() -> _Withdrawn:
    return _Withdrawn(tr("The edit was withdrawn before it began."), tr("The document is unchanged."))


def _lasting_titles(steps: tuple[Step, ...]) -> str:
    """The titles of the long-running steps, which moving or enabling a step can run again; empty if there are none."""
    names = dict.fromkeys(PASSES.get(s.pass_name).title for s in steps if is_lasting(s.pass_name))
    return ", ".join(names)
