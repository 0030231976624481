"""The document of the window as a model of the Python interface: its edits are made by the window."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Self

from espalier.app.api.model import Model
from espalier.app.api.steps import Workplace
from espalier.app.features.console.messages import (
    Edit,
    GraphChange,
    KeepSelections,
    Move,
    SaveCopy,
    Update,
    changed_graph,
)
from espalier.app.interpreter.window_link import WindowLink
from espalier.model.data.memory import PREFIX
from espalier.model.document.project import Project
from espalier.model.document.recipe import Recipe
from espalier.model.document.selections import MEMBER
from espalier.model.errors import DataError, EspalierError, ProjectError
from espalier.model.graph.graph import Graph
from espalier.model.leftovers import Scratch
from espalier.model.opening import Opened, is_project
from espalier.model.store.weights import WeightStore
from espalier.passes.recipes.replay import check_ready
from espalier.passes.recipes.set_up import from_anywhere
from espalier.passes.saved import recipe_with_members


class DocumentModel(Model):
    """The open document. What changes it is a step of the window's document, which the window can undo.

    `copy` gives an independent model, whose steps stay in the console.
    """

    def __init__(self, place: Workplace, project: Project, window: WindowLink) -> None:
        super().__init__(place, project)
        self._window: WindowLink | None = window

    def _request(self, request: Edit | Move | KeepSelections | SaveCopy) -> None:
        if self._window is None:
            raise ProjectError("The document of this model was closed.", "Use m, the model that is open now.")
        self._window.ask(request)

    def _applied(self, recipe: Recipe) -> Self:
        recipe = recipe_with_members(from_anywhere(recipe), self.selections)
        check_ready(recipe)
        _refuse_memory(recipe)
        self._request(Edit(recipe.steps))
        return self

    def _keep_selections(self, selections: dict[str, tuple[str, ...]]) -> None:
        self._request(KeepSelections(selections))

    def _replaced(self, recipe: Recipe) -> Self:
        _refuse_memory(recipe)
        self._request(Edit(recipe.steps, replaces=True))
        return self

    def undo(self, count: int = 1) -> Self:
        """Undo the last `count` edits of the document, whoever made them."""
        if count > 0:
            self._request(Move(-count))
        return self

    def redo(self, count: int = 1) -> Self:
        """Redo the last `count` undone edits of the document."""
        if count > 0:
            self._request(Move(count))
        return self

    def copy(self) -> Model:  # type: ignore[override]
        """An independent model with the same steps, which the window does not show; tensors are shared."""
        return Model(self._place, self._project, held=self._held)

    def save(self, path: str | PathLike[str]) -> Path:
        """Save a copy of the document as a project; the window's own file stays as it is.

        Raises:
            ProjectError: the file cannot be written, is the window's own, or has another ending.
        """
        place = Path(path).expanduser().absolute()
        if not is_project(place.name):
            raise ProjectError(f"{place.name} is not a project file.", "End it in .espalier.")
        self._request(SaveCopy(place))
        return place

    def show(self) -> subprocess.Popen[bytes]:
        """Refused: the window shows this model. `m.copy().show()` opens another window."""
        raise EspalierError("The window shows this model already.", "m.copy().show() opens another window on a copy.")

    # -- the window's side

    def take(self, project: Project) -> None:
        """Follow the document."""
        self._project = project

    def end(self) -> None:
        """The document was closed."""
        self._window = None


def _extras(update: Update) -> dict[str, bytes]:
    """What the console knows of the project's file besides the model: the saved selections."""
    return {} if update.selections is None else {MEMBER: update.selections}


def _refuse_memory(recipe: Recipe) -> None:
    """Raise DataError for steps with arrays of the console, which the document could not repeat."""
    if any(str(getattr(s.options, "data", "")).startswith(PREFIX) for s in recipe.active):
        what = "A step of the document cannot use arrays of the console: it could not be repeated."
        raise DataError(what, "Name a file or folder of data, or work on m.copy().")


class OpenDocument:
    """Follows the updates of the window's document; `model` is None while none is open."""

    def __init__(self, progress: Any) -> None:
        self._progress = progress
        self._number = 0
        self._scratch: Scratch | None = None
        self.store: WeightStore | None = None
        self.model: DocumentModel | None = None

    def take(self, update: Update, window: WindowLink) -> None:
        """Apply an update."""
        if update.document != self._number:
            self._close()
            self._number = update.document
        if update.source is None or update.graph is None:
            return
        if self.model is None:
            self._open(update, window)
            return
        assert self.store is not None
        self.store.add(update.locations or {})
        before = self.model.project
        graph = _graph(before.graph, update.graph)
        self.model.take(Project(update.source, before.base, update.recipe, graph, extras=_extras(update)))

    def _open(self, update: Update, window: WindowLink) -> None:
        assert update.source is not None and update.base is not None and update.graph is not None
        self._scratch = Scratch()
        self.store = store = WeightStore(self._scratch.folder)
        store.add(update.locations or {})
        base = _graph(Graph({}), update.base)
        project = Project(update.source, base, update.recipe, _graph(base, update.graph), extras=_extras(update))
        place = Workplace.of(Opened(project, store), self._scratch, self._progress, is_project=True)
        self.model = DocumentModel(place, project, window)

    def _close(self) -> None:
        if self.model is not None:
            self.model.end()
        self.model = self.store = self._scratch = None


def _graph(before: Graph, change: GraphChange) -> Graph:
    same_ids = change.nodes == tuple(before.nodes) and change.weights == tuple(before.weights)
    if same_ids and not change.changed and not change.changed_weights:
        return replace(change.rest, nodes=before.nodes, weights=before.weights)
    return changed_graph(before, change)
