"""What the console's process knows of the document, and what it asks of it: edits become those of the window."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject

from espalier.app.features.console.messages import (
    Choose,
    Edit,
    KeepSelections,
    Move,
    Reply,
    Request,
    SaveCopy,
    Update,
    change_of,
)
from espalier.app.number_text import plural
from espalier.app.step_text import title as step_title
from espalier.model.document.document import Change, Document
from espalier.model.document.project import keys_of
from espalier.model.document.recipe import Recipe
from espalier.model.document.selections import MEMBER as SELECTIONS
from espalier.model.errors import EspalierError, JobError, ProjectError
from espalier.model.graph.graph import Graph
from espalier.passes.jobs.kinds import TERMINAL, Done, Failed, JobEvent

if TYPE_CHECKING:
    from espalier.app.session.session import Session

NOTHING = Graph({})


class DocumentLink(QObject):
    """Sends the document as changes, and carries out requests. Each request gets one call of `reply`."""

    def __init__(self, session: Session, reply: Callable[[Reply], object], parent: QObject) -> None:
        super().__init__(parent)
        self._session, self._reply_to = session, reply
        self._numbers, self._files = itertools.count(1), itertools.count(1)
        self._asked: Recipe | None = None  # of the edit that waits
        self._saving = 0  # the job of the copy that waits
        self._waits = self._moving = False
        self.forget()
        session.opened.connect(self._opened)
        session.job_event.connect(self._job_event)

    def forget(self) -> None:
        """The process is a new one: it knows nothing, and waits for nothing."""
        self._document: Document | None = None
        self._number = 0
        self._base = self._graph = NOTHING
        self._recipe, self._source = Recipe(), object()
        self._locations: dict[str, Any] = {}
        self._selections: bytes | None = None
        self._waits = False

    # -- what the process knows

    def update(self) -> Update | None:
        """What changed since the last update; None if nothing did."""
        document = self._session.document
        if document is not self._document:
            self._document, self._locations = document, {}
            self._number = next(self._numbers) if document else 0
            if document is None:
                return Update()
            return self._changes(document, is_new=True)
        return self._changes(document) if document and self._is_behind(document) else None

    def _is_behind(self, document: Document) -> bool:
        same = document.graph is self._graph and document.recipe is self._recipe
        same = same and document.project.extras.get(SELECTIONS) == self._selections
        return not same or document.project.source is not self._source or bool(self._new_locations(document))

    def _new_locations(self, document: Document) -> dict[str, Any]:
        keys = keys_of(document.project.base, document.graph)
        return {k: p for k, p in document.store.locate(keys).items() if self._locations.get(k) != p}

    def _changes(self, document: Document, *, is_new: bool = False) -> Update:
        base, graph, new = document.project.base, document.graph, self._new_locations(document)
        readable = document.store.elsewhere(new, f"console-{next(self._files)}") if new else {}
        self._locations |= new
        before = base if is_new else self._graph
        self._graph, self._recipe, self._source = graph, document.recipe, document.project.source
        self._selections = document.project.extras.get(SELECTIONS)
        return Update(self._number, document.project.source, document.recipe,
                      change_of(NOTHING, base) if is_new else None, change_of(before, graph), readable,
                      self._selections)  # fmt: skip

    # -- what it asks

    def is_own(self, change: Change) -> bool:
        """Whether a change is an edit of the console."""
        return self._moving or (self._asked is not None and change.after.recipe is self._asked)

    def carry_out(self, request: Request) -> None:
        """Carry out a request; it is answered now, or when the edit has ended."""
        self._waits = True
        try:
            match request:
                case Edit():
                    self._edit(request)
                case Move(count=count):
                    self._move(count)
                case Choose(ids=ids):
                    self._session.select(ids)
                    self._reply()
                case KeepSelections(selections=selections):
                    self._session.saved_selections.keep(selections)
                    self._reply()
                case SaveCopy():
                    self._save(request)
        except EspalierError as error:
            self._reply(error)

    def withdraw(self) -> None:
        """Stop what the process waits for; it is answered when it has stopped."""
        if self._asked is not None:
            self._session.withdraw(self._asked)
        elif self._saving:
            self._session.cancel(self._saving)

    def _edit(self, request: Edit) -> None:
        session = self._session
        steps = request.steps if request.replaces else (*session.recipe.steps, *request.steps)
        self._asked = recipe = Recipe(steps)
        label = step_title(request.steps[0]) if len(request.steps) == 1 else plural(len(request.steps), "step")
        session.set_recipe(recipe, label, ended=partial(self._edited, recipe))

    def _edited(self, recipe: Recipe, error: EspalierError | None) -> None:
        if self._asked is recipe:
            self._asked = None
            self._reply(error)

    def _move(self, count: int) -> None:
        with self._own():
            for _ in range(abs(count)):
                if count < 0:
                    self._session.undo()
                else:
                    self._session.redo()
        self._reply()

    @contextmanager
    def _own(self) -> Iterator[None]:
        self._moving = True
        try:
            yield
        finally:
            self._moving = False

    def _save(self, request: SaveCopy) -> None:
        if self._session.open_document.path == request.path.resolve():
            raise ProjectError(f"The window itself holds {request.path.name}.", "Save it with Ctrl+S.")
        self._saving = self._session.save_as(request.path, copy=True).id

    def _job_event(self, event: JobEvent) -> None:
        if event.job.id != self._saving or not isinstance(event.event, TERMINAL):
            return
        self._saving = 0
        match event.event:
            case Done():
                self._reply()
            case Failed(message=message, hint=hint):
                self._reply(ProjectError(message, hint))
            case _:
                self._reply(JobError("The save was stopped.", "Save again."))

    def _opened(self) -> None:
        """Another document, or none, is open: what was asked of the last one does not happen."""
        if self._asked is not None or self._saving:
            self._asked, self._saving = None, 0
            self._reply(ProjectError("The document was closed.", "Use m, the model that is open now."))

    def _reply(self, error: EspalierError | None = None) -> None:
        if self._waits:
            self._waits = False
            self._reply_to(
                Reply(self.update(), None if error is None else (type(error).__name__, error.message, error.hint))
            )
