"""Changes of the recipe on their way into the document: at once where no worker is needed, else one after another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from espalier.model.document.document import Document, State
from espalier.model.document.project import keys_of
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import EspalierError
from espalier.model.graph.graph import Graph
from espalier.model.registry import PASSES
from espalier.passes.base import Context, Report, is_lasting
from espalier.passes.jobs.kinds import ReplayJob, ReplayResult
from espalier.passes.recipes.replay import Memo, instant, milestones, prefix_keys, remembered, replay
from espalier.passes.recipes.set_up import source_after


class Editing(Protocol):
    """What an edit needs of its session: the open document, jobs, and a place for errors."""

    @property
    def open_document(self) -> Document:
        """The document."""
        ...

    @property
    def problem(self) -> Any:
        """The signal that brings an error to the user."""
        ...

    def submit(self, title: str, job: ReplayJob, done: Callable[[Any], None], *, urgent: bool = False) -> Any:
        """Queue a job."""
        ...


@dataclass(frozen=True, slots=True)
class Wish:
    """A change of the recipe; those in a row with one merge key become one undo step."""

    label: str
    recipe: Recipe
    merge_key: object


class Edits:
    """The queue of one document's edits, and what its replays are remembered by."""

    def __init__(self, session: Editing) -> None:
        self.memo = Memo()
        self._session = session
        self._waiting: deque[Wish] = deque()
        self._running: Wish | None = None

    @property
    def recipe(self) -> Recipe | None:
        """The recipe with all edits that are on their way; None when there is none."""
        wish = self._waiting[-1] if self._waiting else self._running
        return wish.recipe if wish else None

    @property
    def waiting(self) -> tuple[str, ...]:
        """The labels of all edits that are on their way."""
        return tuple(w.label for w in (*([self._running] if self._running else []), *self._waiting))

    def restart(self, document: Document | None) -> None:
        """Remember the graph as the result of the recipe and nothing else: of a saved project, or when plug-ins change.

        What cannot run here, or no longer, need not.
        """
        steps = document.recipe.active if document else ()
        kept = self.milestones(document) if document else {}
        self.memo = Memo()
        for count, graph in kept.items():
            self.memo.remember(steps[:count], graph)
        if document and steps:
            self.memo.remember(steps, document.graph)

    def milestones(self, document: Document) -> dict[int, Graph]:
        """What the project keeps of the present recipe, so that no training is run again: found here, or on opening."""
        opened = document.project.milestones if document.recipe == document.project.recipe else {}
        found = [self.memo.graphs.get(k) for k in prefix_keys(document.recipe.active)]
        return opened | milestones(document.recipe, found)

    def wish(self, wish: Wish) -> None:
        """Apply now, or queue; a waiting wish of the same merge key is replaced."""
        if self._running is None and instant(wish.recipe, self.memo):
            self._apply_now(wish)
            return
        if self._waiting and wish.merge_key is not None and self._waiting[-1].merge_key == wish.merge_key:
            self._waiting.pop()
        self._waiting.append(wish)
        self._start()

    def drop_last(self) -> bool:
        """Forget the last edit that still waits; False when none does."""
        if not self._waiting:
            return False
        self._waiting.pop()
        return True

    def next(self) -> None:
        """The running edit has ended; start the one after it."""
        self._running = None
        self._start()

    def reports(self, recipe: Recipe) -> tuple[Report | None, ...]:
        """The report of each active step, None where it is not remembered."""
        found = [self.memo.graphs.get(k) for k in prefix_keys(recipe.active)]
        return tuple(r.report if r else None for r in found)

    def _start(self) -> None:
        while self._running is None and self._waiting:
            wish = self._waiting.popleft()
            if instant(wish.recipe, self.memo):
                self._apply_now(wish)
            else:
                self._submit(wish)

    def _apply_now(self, wish: Wish) -> None:
        document = self._session.open_document
        try:
            done = replay(document.project.base, wish.recipe, Context(document.store), self.memo)
        except EspalierError as error:
            self._session.problem.emit(error)
            return
        document.commit(wish.label, State(wish.recipe, done.graph), wish.merge_key)

    def _submit(self, wish: Wish) -> None:
        self._running = wish
        document = self._session.open_document
        base, steps = document.project.base, wish.recipe.active
        keys = prefix_keys(steps)
        count = remembered(keys, self.memo)
        known = self.memo.graphs[keys[count - 1]].graph if count else base
        locations = document.store.locate(keys_of(base, known, document.graph))
        source = document.project.source
        job = ReplayJob(base, wish.recipe, locations, document.store.folder, source,
                        (count, known) if count else None)  # fmt: skip
        title = _doing(steps[count:]) or wish.label
        self._session.submit(title, job, lambda result: self._replayed(wish, result), urgent=True)

    def _replayed(self, wish: Wish, result: ReplayResult) -> None:
        document = self._session.open_document
        document.store.add_new(result.locations)
        for key, found in zip(prefix_keys(wish.recipe.active), result.results, strict=True):
            if found and key not in self.memo.graphs:
                self.memo.put(key, found)
        reports = [r.report if r else None for r in result.results]
        document.describe(source_after(document.project.source, wish.recipe.active, reports))
        document.commit(wish.label, State(wish.recipe, result.graph), wish.merge_key)


def _doing(steps: tuple[Step, ...]) -> str:
    """The lasting steps that run anew, by name: a move or a switch can cause a training; empty where none runs."""
    names = dict.fromkeys(PASSES.get(s.pass_name).title for s in steps if is_lasting(s.pass_name))
    return ", ".join(names)
