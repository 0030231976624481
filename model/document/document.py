"""The only mutable object: state, history and saved state of the open project."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from espalier.model.document.arrangement import MEMBER, UNARRANGED, Arrangement, from_bytes, to_bytes
from espalier.model.document.project import Project
from espalier.model.document.recipe import Recipe
from espalier.model.graph.graph import Delta, Graph
from espalier.model.sources.info import SourceInfo
from espalier.model.store.open_files import Version
from espalier.model.store.weights import WeightStore

LIMIT = 1000


@dataclass(frozen=True, slots=True)
class State:
    """The undoable state: the recipe, its result, and what was arranged on the canvas."""

    recipe: Recipe
    graph: Graph
    arrangement: Arrangement = UNARRANGED


@dataclass(frozen=True, slots=True)
class Edit:
    """One undoable step, as the values before and after it. `when`: seconds since 1970."""

    label: str
    before: State
    after: State
    merge_key: object = None
    when: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class Change:
    """The change by an edit, undo or redo; `delta` is empty if only the recipe changed."""

    label: str
    before: State
    after: State

    @property
    def delta(self) -> Delta:
        """Differences of the graphs by node."""
        return self.after.graph.delta(self.before.graph)

    @property
    def only_arranges(self) -> bool:
        """Whether pins or frames changed and nothing else."""
        return self.before.graph is self.after.graph and self.before.recipe == self.after.recipe


class Document:
    """An open project. All edits use `commit`; listeners get each Change once."""

    def __init__(self, project: Project, store: WeightStore, path: Path | None = None) -> None:
        self.project = project
        self.store = store
        self.path = path
        self.version: Version | None = None  # of its file, as it was opened or saved last
        self.listeners: list[Callable[[Change], None]] = []
        self._undo: list[Edit] = []
        self._redo: list[Edit] = []
        self._state = State(project.recipe, project.graph, from_bytes(project.extras.get(MEMBER)))
        self._saved = self._state
        self._saved_extras = project.extras
        self._saved_source = project.source

    @property
    def present(self) -> State:
        """The present recipe and graph."""
        return self._state

    @property
    def graph(self) -> Graph:
        """The graph on screen."""
        return self._state.graph

    @property
    def recipe(self) -> Recipe:
        """The recipe."""
        return self._state.recipe

    @property
    def arrangement(self) -> Arrangement:
        """Pins and frames on the canvas."""
        return self._state.arrangement

    @property
    def dirty(self) -> bool:
        """Whether state or extras differ from those last saved or opened."""
        beside = self.project.extras is not self._saved_extras and self.project.extras != self._saved_extras
        beside = beside or self.project.source != self._saved_source
        return beside or (self._state is not self._saved and self._state != self._saved)

    @property
    def undo_label(self) -> str | None:
        """The edit that undo would revert."""
        return self._undo[-1].label if self._undo else None

    @property
    def redo_label(self) -> str | None:
        """The edit that redo would repeat."""
        return self._redo[-1].label if self._redo else None

    def commit(self, label: str, after: State, merge_key: object = None) -> Change | None:
        """Set the state to `after`; consecutive edits with one merge key become one undo step."""
        before = self._state
        if after == before:
            return None
        last = self._undo[-1] if self._undo else None
        if last and merge_key is not None and last.merge_key == merge_key and not self._redo and before != self._saved:
            self._undo[-1] = Edit(label, last.before, after, merge_key, time.time())
        else:
            self._undo.append(Edit(label, before, after, merge_key, time.time()))
            del self._undo[:-LIMIT]
        self._redo.clear()
        return self._move(label, after)

    def undo(self) -> Change | None:
        """Revert the last edit; None if there is none."""
        if not self._undo:
            return None
        edit = self._undo.pop()
        self._redo.append(edit)
        return self._move(edit.label, edit.before)

    def redo(self) -> Change | None:
        """Repeat the last undone edit; None if there is none."""
        if not self._redo:
            return None
        edit = self._redo.pop()
        self._undo.append(edit)
        return self._move(edit.label, edit.after)

    @property
    def history(self) -> tuple[tuple[Edit, ...], int]:
        """All edits, the oldest first, and how many of them are done; the others were undone."""
        return (*self._undo, *reversed(self._redo)), len(self._undo)

    def go_to(self, count: int) -> Change | None:
        """Undo or redo in one change until `count` edits of the history are done; None if that is so already."""
        count = min(max(count, 0), len(self._undo) + len(self._redo))
        if count == len(self._undo):
            return None
        after, label = self._state, ""
        while len(self._undo) > count:
            edit = self._undo.pop()
            self._redo.append(edit)
            after, label = edit.before, edit.label
        while len(self._undo) < count:
            edit = self._redo.pop()
            self._undo.append(edit)
            after, label = edit.after, edit.label
        return self._move(label, after)

    def saved(
        self,
        path: Path,
        state: State,
        extras: dict[str, bytes] | None = None,
        version: Version | None = None,
    ) -> None:
        """Record that `state` is saved in `path` with `extras` (default: the present ones)."""
        self.path, self.version, self._saved = path, version, state
        self._saved_extras = self.project.extras if extras is None else extras
        self._saved_source = self.project.source

    def keep(self, name: str, data: bytes | None) -> None:
        """Set or remove an extra member of the project's file, for results outside the undo history."""
        held = {k: v for k, v in self.project.extras.items() if k != name}
        self.project = replace(self.project, extras=held if data is None else {**held, name: data})

    def describe(self, source: SourceInfo) -> None:
        """Set how the project's data are read, outside the undo history."""
        self.project = replace(self.project, source=source)

    def snapshot(self) -> Project:
        """The project with the present recipe, graph and arrangement, for saving."""
        extras = self.project.extras
        if (data := to_bytes(self.arrangement)) != extras.get(MEMBER):
            extras = {k: v for k, v in extras.items() if k != MEMBER} | ({MEMBER: data} if data else {})
        return replace(self.project, recipe=self.recipe, graph=self.graph, extras=extras)

    def _move(self, label: str, after: State) -> Change:
        change = Change(label, self._state, after)
        self._state = after
        for listener in list(self.listeners):
            listener(change)
        return change
